/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once on the engine, without sockets: readers, writers, large values, expiry,
 * flushes, eviction under a small and changing limit, an index that grows and shrinks, further
 * shards, slots that move. First with room for everything, so that every answer can be
 * predicted except for flushes; then with so little room that any key may be evicted at any
 * time; then with values of which few fit into a segment, of 32 and of 64 KiB, so that the
 * cursor evicts from it in place.
 *
 * MAYFLY_STRESS_SECONDS sets how long it runs (default 3), MAYFLY_SEED the random numbers.
 */
#include "tests/stress/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Four values of `bytes` fit into a segment. There are keys for three times the room. */
static void few_a_segment(const struct scenario *like, uint32_t shards, uint64_t limit,
                          uint32_t bytes)
{
    uint32_t keys = (uint32_t)(3 * limit / bytes / shards);
    struct scenario few = *like;
    char name[64];

    (void)snprintf(name, sizeof(name), "values of %" PRIu32 " bytes, few a segment", bytes);
    few.name = name;
    few.shards = shards;
    few.shards_max = shards + 2;
    few.limit_bytes = limit;
    few.seconds = stress_seconds() * 0.2;
    few.value_bytes = bytes;
    few.large_bytes_max = 80000;
    few.keys[KIND_VALUE] = keys / 4;
    few.keys[KIND_STAY] = keys / 4;
    few.keys[KIND_TOUCH] = keys / 6;
    few.keys[KIND_LARGE] = 50;
    few.keys[KIND_CHURN] = keys / 3;
    few.keys[KIND_NUMBER] = 10;
    few.keys[KIND_LOG] = 5;
    world_run(&few);
}

int main(void)
{
    struct scenario roomy = {
        .name = "flushes with room for everything",
        .shards = 3,
        .shards_max = 10,
        .readers = 1,
        .limit_bytes = 256ULL << 20,
        .item_size_max = 1ULL << 20,
        .seed = rng_seed(),
        .seconds = stress_seconds() * 0.25,
        .large_bytes_max = 300000,
        .keys = {[KIND_VALUE] = 1000,
                 [KIND_STAY] = 300,
                 [KIND_TOUCH] = 200,
                 [KIND_LARGE] = 10,
                 [KIND_CHURN] = 8000,
                 [KIND_NUMBER] = 100,
                 [KIND_LOG] = 50,
                 [KIND_SHARED_NUMBER] = 32,
                 [KIND_SHARED_LOG] = 32,
                 [KIND_SHARED_VALUE] = 32},
        .flushes = true,
        .moves_slots = true,
        .mover_rest_us = 500,
        .ring_bytes = 4ULL << 20,
        .follows = true,
    };
    struct scenario tight = roomy;

    puts("1..4");
    world_run(&roomy);
    tight.name = "everything at once in little room";
    tight.shards = 4;
    tight.shards_max = 6;
    tight.readers = 2;
    tight.limit_bytes = 12ULL << 20;
    tight.seconds = stress_seconds() * 0.35;
    tight.large_bytes_max = 200000;
    tight.keys[KIND_VALUE] = 4000;
    tight.keys[KIND_LARGE] = 20;
    tight.keys[KIND_CHURN] = 12000;
    tight.evicts = true;
    tight.changes_limit = true;
    tight.ring_bytes = 1ULL << 20;
    world_run(&tight);
    few_a_segment(&tight, 4, 16ULL << 20, 8000);
    few_a_segment(&tight, 2, 32ULL << 20, 16000);
    return EXIT_SUCCESS;
}
