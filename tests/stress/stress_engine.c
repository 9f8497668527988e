/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once on the engine, without sockets: readers, writers, large values, expiry,
 * flushes, eviction under a small and changing limit, an index that grows and shrinks, slots
 * that move. First with room for everything, so that every answer can be predicted except for
 * flushes; then with so little room that any key may be evicted at any time.
 *
 * MAYFLY_STRESS_SECONDS sets how long it runs (default 5), MAYFLY_SEED the random numbers.
 */
#include "tests/stress/world.h"

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    struct scenario roomy = {
        .name = "flushes with room for everything",
        .shards = 3,
        .readers = 1,
        .limit_bytes = 256ULL << 20,
        .item_size_max = 1ULL << 20,
        .seed = rng_seed(),
        .seconds = stress_seconds() * 0.3,
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
    };
    struct scenario tight = roomy;

    puts("1..2");
    world_run(&roomy);
    tight.name = "everything at once in little room";
    tight.shards = 4;
    tight.readers = 2;
    tight.limit_bytes = 12ULL << 20;
    tight.seconds = stress_seconds() * 0.7;
    tight.large_bytes_max = 200000;
    tight.keys[KIND_VALUE] = 4000;
    tight.keys[KIND_LARGE] = 20;
    tight.keys[KIND_CHURN] = 12000;
    tight.evicts = true;
    tight.changes_limit = true;
    tight.ring_bytes = 1ULL << 20;
    world_run(&tight);
    return EXIT_SUCCESS;
}
