/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See timing.h. On the worker of the client.
 */
#include "daemon/command/timing.h"

#include <string.h>

#include "daemon/worker/insight.h"
#include "daemon/worker/latency.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* Does nothing more have to reach the client? */
static bool has_all(const struct client *c)
{
    return outq_is_empty(&c->outq) && !client_is_waiting(c) && !c->dump.is_active;
}

/* Their replies are with the socket now. */
static void count(struct worker *w, const struct timed *x)
{
    uint64_t ns = 0;

    for (unsigned k = 0; k < KIND_COUNT; k++) {
        if (x->n[k] > 0) {
            ns = ns == 0 ? clock_mono_ns() - x->since_ns : ns;
            latency_add(w, (enum command_kind)k, ns, x->n[k]);
        }
    }
}

/*
 * They stay with the client, which some of their replies have not reached. Without memory for
 * that they are not counted.
 */
static void keep(struct turn *t)
{
    struct client *c = t->client;

    if (c->timed == NULL) {
        c->timed = mem_zalloc(sizeof(*c->timed));
        if (c->timed == NULL) {
            return;
        }
        c->timed->since_ns = t->timed.since_ns;
    }
    for (unsigned k = 0; k < KIND_COUNT; k++) {
        c->timed->n[k] += t->timed.n[k];
    }
}

void timing_begin(struct turn *t)
{
    struct client *c = t->client;

    must_be_worker(t->w);
    memset(&t->timed, 0, sizeof(t->timed));
    if (c == NULL) {
        t->timed.since_ns = insight_readable_ns(t->w);
        return;
    }
    t->timed.since_ns = c->since_ns != 0 ? c->since_ns : insight_readable_ns(t->w);
    if (MF_UNLIKELY(c->timed != NULL) && has_all(c)) {
        /* Nothing was measured when it got its answer. */
        mem_free(c->timed);
        c->timed = NULL;
    }
}

void timing_sent(struct turn *t)
{
    must_be_worker(t->w);
    if (MF_LIKELY(!t->is_broken)) {
        if (MF_LIKELY(t->client == NULL || outq_is_empty(&t->client->outq))) {
            count(t->w, &t->timed);
        } else {
            keep(t);
        }
    }
    memset(t->timed.n, 0, sizeof(t->timed.n));
}

void timing_late(struct turn *t, const struct request *r)
{
    must_be_worker(t->w);
    turn_flush(t); /* those before it have their replies */
    if (!t->is_broken) {
        timing_count(t, r);
        keep(t);
    }
    memset(t->timed.n, 0, sizeof(t->timed.n));
}

void timing_end(struct turn *t, bool is_kept, bool is_halfway)
{
    struct client *c = t->client;

    must_be_worker(t->w);
    if (is_kept) {
        c->since_ns = t->timed.since_ns;
    } else if (!is_halfway) {
        c->since_ns = 0;
    }
    if (MF_UNLIKELY(c->timed != NULL)) {
        timing_client_sent(c, t->w);
    }
}

void timing_defer(struct client *c, struct worker *w)
{
    must_be_worker(w);
    if (w->insight.on != 0 && c->since_ns == 0) {
        c->since_ns = insight_readable_ns(w);
    }
}

void timing_client_sent(struct client *c, struct worker *w)
{
    must_be_worker(w);
    if (!has_all(c)) {
        return;
    }
    if (w->insight.on != 0) {
        count(w, c->timed);
    }
    mem_free(c->timed);
    c->timed = NULL;
}
