/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many shards a limit bears: see share.h.
 */
#include "lib/engine/share.h"

#include "lib/memory/arena.h"

/* The least share in segments, which are as large as for the shard's first share. */
#define SHARE_MIN_SEGMENTS 8

/*
 * No more shards are made at the start than have this share each. What an empty shard takes
 * (the first index, the wheel, ring and holes: about 100 KiB) and what it keeps open or free (8
 * segments of 32 KiB) is a tenth of it, and the limit may still be lowered to a quarter.
 */
#define SHARE_START_BYTES (UINT64_C(4) << 20)

uint32_t share_shards_least(uint64_t limit_bytes)
{
    return (uint32_t)((limit_bytes + ARENA_RANGE_MAX - 1) / ARENA_RANGE_MAX);
}

uint32_t share_shards_for(uint32_t threads, uint64_t limit_bytes)
{
    const uint64_t most = limit_bytes / SHARE_START_BYTES;
    const uint32_t least = share_shards_least(limit_bytes);

    return most < threads ? (most > 1 ? (uint32_t)most : 1) : threads > least ? threads : least;
}

uint32_t share_shards_most(uint64_t limit_bytes, uint32_t shift)
{
    const uint64_t segments = (uint64_t)SHARE_MIN_SEGMENTS << shift;
    const uint64_t most =
        limit_bytes / (segments > SHARE_MIN_BYTES ? segments : SHARE_MIN_BYTES);

    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

uint32_t share_shards_most_new(uint64_t limit_bytes)
{
    return share_shards_most(limit_bytes, arena_shift_for(SHARE_MIN_BYTES));
}

bool share_fits(uint64_t limit_bytes, uint32_t shards, uint64_t range_bytes, uint32_t shift)
{
    return shards <= share_shards_most(limit_bytes, shift) &&
           limit_bytes / shards <= range_bytes;
}

bool share_suits(const struct share_size *old, uint64_t limit_bytes, uint32_t shards)
{
    return share_fits(limit_bytes, old->shards, old->range_bytes, old->shift) ||
           (shards < old->shards &&
            share_fits(limit_bytes, shards, old->range_bytes, old->shift));
}
