/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Divides the memory limit among the shards: how many shards a limit allows.
 */
#ifndef MAYFLY_LIB_ENGINE_SHARE_H
#define MAYFLY_LIB_ENGINE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* The least share, in bytes, that a shard can work with. */
#define SHARE_MIN_BYTES (UINT64_C(1) << 20)

/*
 * How many shards suit a number of threads and a limit: one for each thread, but fewer if their
 * shares of the limit would be too small to work with, and more if they could not hold the
 * limit. At least 1. Context: any thread.
 */
uint32_t share_shards_for(uint32_t threads, uint64_t limit_bytes);

/* The least number of shards that can hold a limit. Context: any thread. */
uint32_t share_shards_least(uint64_t limit_bytes);

/*
 * The largest number of shards that a limit allows. The first function is for segments of 1 <<
 * shift; the second for a new engine, whose segments suit their share. Context: any thread.
 */
uint32_t share_shards_most(uint64_t limit_bytes, uint32_t shift);
uint32_t share_shards_most_new(uint64_t limit_bytes);

/*
 * Can a number of shards, with ranges of range_bytes each and segments of 1 << shift, work with
 * a limit? Context: any thread.
 */
bool share_fits(uint64_t limit_bytes, uint32_t shards, uint64_t range_bytes, uint32_t shift);

/* The shards of an engine, whose items another one is to take over. */
struct share_size {
    uint32_t shards;
    uint32_t shift;       /* of their segments */
    uint64_t range_bytes; /* of each */
};

/*
 * Can an engine with this limit take them over? It is to have `shards` shards. A move to fewer
 * may have been interrupted after the limit was lowered to one that is too small for the old
 * number. Then the move can continue under that limit. Context: any thread.
 */
bool share_suits(const struct share_size *old, uint64_t limit_bytes, uint32_t shards);

#endif
