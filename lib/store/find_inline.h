/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_find() of find.h, inlined into the gets of each protocol, which saves a call with
 * seven arguments and a result in memory.
 */
#ifndef MAYFLY_LIB_STORE_FIND_INLINE_H
#define MAYFLY_LIB_STORE_FIND_INLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/router.h"
#include "lib/index/table_inline.h"
#include "lib/memory/item.h"
#include "lib/shard/shard.h"
#include "lib/store/find.h"

/* All of engine_find(), including the rare cases. Context: read side. */
struct found engine_find_slowly(const struct route *rt, uint64_t hash, const char *key,
                                size_t key_len, msec_t now);

/* engine_find(). Context: read side. */
static MF_INLINE struct found engine_find_inline(const struct route *rt, uint64_t hash,
                                                 const char *key, size_t key_len, msec_t now)
{
    const struct route_slot *rs = route_slot(rt, hash);
    struct shard *s = rt->shards[rs->from];

    must_be_reading();
    /* Acquire: a thread that sees the flush over sees the new index too. */
    if (MF_LIKELY(now < atomic_load_explicit(&s->gate_at, memory_order_acquire))) {
        bool is_sure;
        const struct item *it =
            table_find_home(&s->table, s->memory.arena.base, hash, key, key_len, &is_sure);

        if (MF_LIKELY(is_sure) &&
            (it != NULL ? MF_LIKELY(!item_is_due(it, now)) : !route_is_moving(rs))) {
            return (struct found){it, s, MISS_ABSENT};
        }
    }
    return engine_find_slowly(rt, hash, key, key_len, now);
}

#endif
