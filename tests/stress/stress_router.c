/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routing table is replaced under load without a wrong answer: slots move between shards
 * all the time while workers write, and only a deadline may remove a key. Every miss, every old
 * version, every lost addition and every cas that was won twice is an error.
 *
 * MAYFLY_STRESS_SECONDS sets how long it runs (default 3), MAYFLY_SEED the random numbers.
 */
#include "tests/stress/world.h"

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    struct scenario many = {
        .name = "slots with many keys move",
        .shards = 4,
        .readers = 2,
        .limit_bytes = 512ULL << 20,
        .item_size_max = 1ULL << 20,
        .seed = rng_seed() + 1,
        .seconds = stress_seconds() / 2,
        .large_bytes_max = 700000,
        .keys = {[KIND_VALUE] = 1500,
                 [KIND_STAY] = 500,
                 [KIND_TOUCH] = 300,
                 [KIND_LARGE] = 10,
                 [KIND_CHURN] = 10000,
                 [KIND_NUMBER] = 150,
                 [KIND_LOG] = 80,
                 [KIND_SHARED_NUMBER] = 48,
                 [KIND_SHARED_LOG] = 48,
                 [KIND_SHARED_VALUE] = 48},
        .moves_slots = true,
        .mover_rest_us = 500,
    };
    struct scenario few = many;

    puts("1..2");
    world_run(&many);
    /* Few keys and no rest between moves: the states of a slot change as fast as they can. */
    few.name = "slots with few keys move";
    few.mover_rest_us = 0;
    few.keys[KIND_VALUE] = 100;
    few.keys[KIND_STAY] = 100;
    few.keys[KIND_TOUCH] = 50;
    few.keys[KIND_LARGE] = 2;
    few.keys[KIND_CHURN] = 64;
    few.keys[KIND_NUMBER] = 50;
    few.keys[KIND_LOG] = 20;
    world_run(&few);
    return EXIT_SUCCESS;
}
