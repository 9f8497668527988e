/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h. The guard refuses commands (guard.c); this file has the time limit, as a service
 * of the client, which psync replaces.
 */
#include "daemon/command/exec.h"

#include <sys/socket.h>
#include <uv.h>

#include "daemon/command/client.h"
#include "daemon/worker/worker.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "proto/reply.h"

/* Time for a handshake of TLS, a login and psync, milliseconds. */
#define CANDIDATE_MS 2000

struct candidate {
    struct client_service service; /* the first member */
    struct client *client;         /* [borrowed] NULL: closed, or it is a replica now */
    struct worker *worker;         /* [borrowed] */
    uv_timer_t timer;
};

static void on_closed(uv_handle_t *handle)
{
    struct candidate *x = handle->data;

    mem_free(x);
}

static void end(struct client_service *service)
{
    struct candidate *x = (struct candidate *)(void *)service;

    must_be_worker(x->worker);
    x->client = NULL;
    uv_close((uv_handle_t *)&x->timer, on_closed);
}

static void on_timer(uv_timer_t *timer)
{
    struct candidate *x = timer->data;
    const struct client *c = x->client;

    if (c == NULL) {
        return;
    }
    ctr_add(&x->worker->counters, CTR_rejected_connections, 1);
    if (c->origin->transport != CONN_TLS && !client_has_output(c)) {
        (void)send(c->io.fd, REPLY_BYTES(TOO_MANY_CONNS), REPLY_LEN(TOO_MANY_CONNS),
                   MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    shutdown(c->io.fd, SHUT_RDWR); /* it is closed, and that ends this */
}

bool candidate_begin(struct client *c, struct worker *w)
{
    struct candidate *x = mem_zalloc(sizeof(*x));

    must_be_worker(w);
    if (x == NULL) {
        return false;
    }
    x->service.end = end;
    x->client = c;
    x->worker = w;
    uv_timer_init(&w->loop, &x->timer);
    x->timer.data = x;
    uv_timer_start(&x->timer, on_timer, CANDIDATE_MS, 0);
    c->service = &x->service;
    return true;
}
