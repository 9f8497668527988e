/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items that a replica lacks: see role.h.
 */
#include "daemon/replica/follower_parts.h"

#include "lib/engine/engine.h"

uint64_t follower_count_not_stored(const struct follower *f)
{
    struct apply_counts counts = {.refused = 0};

    if (f->applier != NULL) {
        applier_counts(f->applier, &counts);
    }
    return counts.refused;
}

/* Items that were dropped, or not taken, for want of room, since the applier was made. */
static uint64_t count_lost(const struct follower *f)
{
    return follower_count_not_stored(f) + engine_counter(follower_engine(f), CTR_repl_evicted);
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
