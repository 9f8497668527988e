/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client may keep; see client.h.
 */
#include "daemon/command/client.h"

#include "daemon/access/auth_sasl.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/watch.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "lib/engine/guarding.h"

/* It keeps so much of both now. */
static bool count(struct client *c, struct worker *w, size_t in_bytes, size_t out_bytes)
{
    size_t before = c->holder.bytes;

    c->out_bytes = out_bytes;
    holder_set(w, &c->holder, in_bytes, out_bytes);
    return c->holder.bytes <= before || !holder_has_too_much(w, &c->holder);
}

bool client_count_output(struct client *c, struct worker *w)
{
    size_t in_bytes = c->holder.bytes - c->out_bytes;
    size_t held = outq_held_bytes(&c->outq);

    must_be_worker(w);
    ctr_add(&w->counters, CTR_out_pending_bytes, (uint64_t)held - (uint64_t)c->out_bytes);
    return count(c, w, in_bytes, held);
}

bool client_count_input(struct client *c, struct worker *w, size_t bytes)
{
    size_t before = c->holder.bytes - c->out_bytes;

    must_be_worker(w);
    ctr_add(&w->counters, CTR_in_pending_bytes, (uint64_t)bytes - (uint64_t)before);
    return count(c, w, bytes, c->out_bytes);
}

bool client_restores(const struct client *c, const struct worker *w)
{
    must_be_worker(w);
    return atomic_load_explicit(&w->crew->restorer, memory_order_relaxed) == c;
}

void client_end_restore(const struct client *c, struct worker *w)
{
    must_be_worker(w);
    if (client_restores(c, w)) {
        atomic_store_explicit(&w->crew->restorer, NULL, memory_order_relaxed);
        guarding_end(w->engine, &w->crew->restored);
    }
}

void client_fini(struct client *c, struct worker *w)
{
    must_be_worker(w);
    watch_remove(&c->watcher);
    client_end_restore(c, w);
    io_close(&c->io);
    outq_fini(&c->outq);
    (void)client_count_output(c, w);
    (void)client_count_input(c, w, 0);
    mem_free(c->timed);
    c->timed = NULL;
    exchange_destroy(c->exchange);
    c->exchange = NULL;
    mem_free(c->user);
    c->user = NULL;
    if (c->late != NULL) {
        c->late->client = NULL;
        atomic_store_explicit(&c->late->is_left, true, memory_order_relaxed);
        client_has_taken(c); /* or never will */
        c->late = NULL;
    }
}
