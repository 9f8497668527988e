/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading older items into an engine that is used: see guarding.h.
 */
#include "lib/engine/guarding.h"

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/shard/shard.h"

static void give(struct engine *e, struct guard *g)
{
    pthread_mutex_lock(&e->flush_lock); /* a further shard has it from another */
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        e->shards[i]->guard = g;
        shard_leave(e->shards[i]);
    }
    pthread_mutex_unlock(&e->flush_lock);
}

enum guarding guarding_begin(struct engine *e, struct guard *g, uint64_t items, bool may_wait)
{
    bool is_taken = false;

    must_not_be_reading();
    if (!atomic_compare_exchange_strong(&e->is_guarded, &is_taken, true)) {
        return GUARDING_BUSY;
    }
    /* A burst of loads has to wait for the reclaimer, as one of flushes has (flush.c). */
    if (may_wait &&
        budget_part(&e->budget, BUDGET_RETIRED) > memory_overdraw(&e->shards[0]->memory)) {
        atomic_store(&e->is_guarded, false);
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        return GUARDING_WAIT;
    }
    if (!guard_init(g, items, &e->budget)) {
        atomic_store(&e->is_guarded, false);
        return GUARDING_NO_MEMORY;
    }
    give(e, g);
    return GUARDING_ON;
}

void guarding_end(struct engine *e, struct guard *g)
{
    must_not_be_reading();
    give(e, NULL);
    guard_retire(g, e->reclaimer);
    atomic_store(&e->is_guarded, false);
}
