/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items that a replica lacks: see follower.h.
 */
#include "daemon/worker/follower_parts.h"

#include "daemon/worker/crew.h"
#include "lib/base/counters.h"
#include "lib/engine/engine.h"
#include "lib/shard/shard.h"

/* Items that were dropped, or not taken, for want of room, since the applier was made. */
static uint64_t count_lost(const struct follower *f)
{
    const struct engine *e = follower_engine(f);
    struct apply_counts counts = {.refused = 0};
    uint64_t n = 0;

    if (f->applier != NULL) {
        applier_counts(f->applier, &counts);
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        n += ctr_get(&e->shards[i]->counters, CTR_repl_evicted);
    }
    return n + counts.refused;
}

bool follower_has_lost(const struct follower *f)
{
    return atomic_load(&f->has_lost) || count_lost(f) != atomic_load(&f->lost_before);
}

void follower_note_lost(struct follower *f)
{
    atomic_store(&f->has_lost, true);
}

void follower_begin_whole(struct follower *f)
{
    atomic_store(&f->has_lost, false);
    atomic_store(&f->lost_before, count_lost(f));
}
