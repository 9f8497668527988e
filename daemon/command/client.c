/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client may keep; see client.h.
 */
#include "daemon/command/client.h"

#include "daemon/access/auth_sasl.h"
#include "daemon/options/settings.h"
#include "daemon/worker/watch.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/*
 * What reply bytes may wait in all, and as much again of requests after them, if an eighth of
 * -m is less; divided evenly among the workers.
 */
#define PENDING_MIN_BYTES (64u << 20)

uint64_t client_pending_max(const struct worker *w)
{
    int64_t limit = atomic_load_explicit(&w->engine->budget.limit_bytes, memory_order_relaxed);
    uint64_t eighth = (uint64_t)limit / 8;

    must_be_worker(w);
    return (eighth > PENDING_MIN_BYTES ? eighth : PENDING_MIN_BYTES) / w->settings->threads;
}

bool client_count_output(struct client *c, struct worker *w)
{
    size_t held = outq_held_bytes(&c->outq);
    bool grew = held > c->held_bytes;

    must_be_worker(w);
    ctr_add(&w->counters, CTR_out_pending_bytes, (uint64_t)held - (uint64_t)c->held_bytes);
    c->held_bytes = held;
    return !grew || ctr_get(&w->counters, CTR_out_pending_bytes) <= client_pending_max(w);
}

void client_fini(struct client *c, struct worker *w)
{
    must_be_worker(w);
    watch_remove(&c->watcher);
    io_close(&c->io);
    outq_fini(&c->outq);
    (void)client_count_output(c, w);
    exchange_destroy(c->exchange);
    c->exchange = NULL;
    if (c->late != NULL) {
        c->late->client = NULL;
        atomic_store_explicit(&c->late->is_left, true, memory_order_relaxed);
        c->late = NULL;
    }
}
