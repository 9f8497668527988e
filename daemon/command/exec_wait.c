/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of exec.h: clients that wait for replicas. A waiting client stays with its worker
 * until the wait ends, which has a time limit.
 */
#include <stdio.h>

#include "daemon/command/exec.h"
#include "daemon/replica/replication.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "proto/text_compose.h"

/* Maximum wait of a client that has shut down its sending side, as it may have exited. */
#define WAIT_ENDED_MS 1000

/* The longest time that a client may wait. */
#define WAIT_MAX_MS 86400000u

#define WHY_REPLICA "this connection is that of a replica"

/* A client that waits for replicas. */
struct waiting {
    struct client_service service; /* the first member */
    struct late_answer late;
    struct repl_wait wait;
    struct worker *worker; /* [borrowed] */
    uv_timer_t timer;
};

static void on_waiting_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

/* No message is in transit: answer, and release it. */
static void end_waiting(struct waiting *w)
{
    char line[32];
    int n = snprintf(line, sizeof(line), "WAIT %u\r\n", w->wait.count);

    if (w->late.client != NULL) {
        w->late.client->service = NULL;
    }
    (void)client_answer(&w->late, span_of(line, (size_t)n), true);
    uv_close((uv_handle_t *)&w->timer, on_waiting_closed);
}

static void on_waited(struct message *m, void *receiver)
{
    struct waiting *w = MF_OUTER(m, struct waiting, wait.done);

    must_be_worker(receiver);
    end_waiting(w);
}

/* Its client was closed. */
static void forget_waiting(struct client_service *service)
{
    struct waiting *w = (struct waiting *)(void *)service;

    if (replication_unwait(w->worker->crew->replication, &w->wait)) {
        uv_close((uv_handle_t *)&w->timer, on_waiting_closed);
    } /* else the message is on its way, and ends it */
}

static void on_wait_timer(uv_timer_t *timer);

/* Its client has sent its end. */
static void shorten_waiting(struct client_service *service)
{
    struct waiting *w = (struct waiting *)(void *)service;

    if (uv_timer_get_due_in(&w->timer) > WAIT_ENDED_MS) {
        uv_timer_start(&w->timer, on_wait_timer, WAIT_ENDED_MS, 0);
    }
}

static void on_wait_timer(uv_timer_t *timer)
{
    struct waiting *w = timer->data;

    if (replication_unwait(w->worker->crew->replication, &w->wait)) {
        end_waiting(w);
    }
}

enum turn_stop exec_wait(struct turn *t, const struct request *r)
{
    struct span word[2];
    struct waiting *w;
    uint32_t wanted;
    uint32_t limit_ms;

    must(t->client != NULL);
    if (span_words(r->args, word, 2) != 2 || num_u32(word[0], &wanted) != MF_OK ||
        num_u32(word[1], &limit_ms) != MF_OK || limit_ms > WAIT_MAX_MS) {
        return turn_answer(t, r, REPLY_WAIT_USAGE);
    }
    if (t->client->service != NULL) {
        t->out.len += text_compose_failure(turn_room(t, TEXT_REPLY_MAX), span_str(WHY_REPLICA));
        return TURN_GOES_ON;
    }
    w = mem_zalloc(sizeof(*w));
    if (w == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    w->service.end = forget_waiting;
    w->service.peer_ended = shorten_waiting;
    w->worker = t->w;
    w->wait.done.fn = on_waited;
    w->wait.to = &t->w->mailbox;
    w->wait.wanted = wanted;
    uv_timer_init(&t->w->loop, &w->timer);
    w->timer.data = w;
    uv_timer_start(&w->timer, on_wait_timer, limit_ms, 0);
    client_expect(t->client, &w->late);
    t->client->service = &w->service;
    replication_wait(t->w->crew->replication, &w->wait);
    return TURN_ASKED;
}
