/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walks that unlink what was flushed by prefix, step by step: what workers do in turn.
 */
#ifndef MAYFLY_TESTS_LIB_ENGINE_PREFIX_WALK_H
#define MAYFLY_TESTS_LIB_ENGINE_PREFIX_WALK_H

#include "lib/engine/prefix.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "tests/lib/fixture.h"

/* Some ranges of a shard. True: there are more. */
static inline bool prefix_slice(struct fixture *f, uint32_t shard)
{
    struct shard *s = f->engine.shards[shard];

    rcu_begin();
    shard_enter(s);
    bool more = shard_prefix_slice(s);
    shard_leave(s);
    rcu_end();
    return more;
}

static inline void prefix_walk(struct fixture *f)
{
    for (uint32_t i = 0; i < f->engine.shard_count; i++) {
        while (prefix_slice(f, i)) {
        }
    }
}

/* The walk, and what the reclaimer does after it. */
static inline void prefix_end_flushes(struct fixture *f)
{
    prefix_walk(f);
    fixture_grace(f);
    ck_assert_uint_eq(engine_prefixes(&f->engine), 0);
}

#endif
