/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed logins that are answered late; see conn_steps.h. On their worker.
 */
#include "daemon/conn/conn_steps.h"

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

/* An answer that waits. Its client owns it as its service, which ends when that closes. */
struct delayed {
    struct client_service service; /* the first member */
    struct late_answer late;
    struct list_link link; /* in conns.delayed */
    msec_t since;          /* by conn_wait_now() */
    size_t len;
    char reply[];
};

/* Its client closes. */
static void end_service(struct client_service *service)
{
    struct delayed *d = (struct delayed *)(void *)service;

    d->late.client->late = NULL;
    list_remove(&d->link);
    mem_free(d);
}

/* Give the answer of the first. */
static void answer_first(struct worker *w)
{
    struct delayed *d = MF_OUTER(list_first(&w->conns->delayed), struct delayed, link);

    d->late.client->service = NULL;
    list_remove(&d->link);
    (void)client_answer(&d->late, span_of(d->reply, d->len), true);
    mem_free(d);
}

static msec_t delay_of(const struct worker *w)
{
    return (msec_t)setting_get(w->settings, auth_delay_ms);
}

void conn_delay_note(struct conn *c, const struct auth_failure *failure)
{
    struct worker *w = c->worker;
    char address[CONN_PEER_MAX];
    const struct log_about about = {.peer = address};

    must_be_worker(w);
    c->client.is_delayed =
        failure->is_quick && c->peer.family != AF_UNIX && delay_of(w) > 0 && !w->is_stopping;
    if (!c->client.is_delayed) {
        return;
    }
    ctr_add(&w->counters, CTR_auth_throttled, 1);
    if (failure->is_quick_first) {
        conn_put_peer(c, address);
        log_warn_about(&about,
                       "auth, failed logins from %s are answered after %" PRId64
                       " ms (more than %u in a minute)",
                       address, delay_of(w), AUTH_PEERS_QUICK);
    }
}

bool conn_delay(struct conn *c, struct span reply)
{
    struct worker *w = c->worker;
    struct client *client = &c->client;
    struct delayed *d;

    must_be_worker(w);
    if (!client->is_delayed) {
        return false;
    }
    client->is_delayed = false;
    d = client->service == NULL ? mem_zalloc(sizeof(*d) + reply.len) : NULL;
    if (d == NULL) {
        return false;
    }
    d->service.end = end_service;
    d->since = conn_wait_now();
    d->len = reply.len;
    memcpy(d->reply, reply.ptr, reply.len);
    if (list_is_empty(&w->conns->delayed)) {
        cron_in(w, CRON_DEADLINES, (uint64_t)delay_of(w));
    }
    list_append(&w->conns->delayed, &d->link);
    client->service = &d->service;
    client_expect(client, &d->late);
    return true;
}

void conn_delay_check(struct worker *w, msec_t now)
{
    const struct delayed *d;

    must_be_worker(w);
    while ((d = LIST_FIRST(&w->conns->delayed, struct delayed, link)) != NULL) {
        msec_t left = d->since + delay_of(w) - now;

        if (left > 0 || w->loop_units >= BUDGET_loop_units) {
            cron_in(w, CRON_DEADLINES, left > 0 ? (uint64_t)left : 1);
            return;
        }
        answer_first(w);
    }
}

void conn_delay_end_all(struct worker *w)
{
    must_be_worker(w);
    must_not_be_reading();
    while (!list_is_empty(&w->conns->delayed)) {
        answer_first(w);
    }
}
