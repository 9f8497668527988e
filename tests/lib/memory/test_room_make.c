/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room_make: how long a store that finds no room goes on to make some is what eviction_tenacity
 * says.
 */
#include "lib/memory/room_make.h"

#include "tests/common/unit.h"
#include "tests/lib/fixture.h"

#define LEN 500

static struct fixture f;

/*
 * The most slices that one store makes beside its own, in a full shard in which what is evicted
 * waits: no grace period ends.
 */
static uint64_t most_slices(uint32_t tenacity)
{
    struct engine_config cfg;
    uint64_t most = 0;

    fixture_config(&cfg);
    fixture_policy(CHOICE_ALLKEYS_RANDOM);
    atomic_store(&fixture_options.eviction_tenacity, tenacity);
    fixture_start(&f, &cfg);
    for (unsigned i = 0; i < 40000; i++) {
        uint64_t before = fixture_counter(&f, CTR_direct_reclaims);

        fixture_set(&f, fixture_key("k", i), LEN);
        before = fixture_counter(&f, CTR_direct_reclaims) - before;
        most = before > most ? before : most;
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    fixture_stop(&f);
    return most;
}

/* Up to 10 in equal steps, then 15 % more for each; 100 is without a limit. */
TEST(a_store_is_as_tenacious_as_it_is_told)
{
    ck_assert_uint_eq(most_slices(0), 0);
    ck_assert_uint_eq(most_slices(5), 4);
    ck_assert_uint_eq(most_slices(10), 8);
    ck_assert_uint_eq(most_slices(11), 9);
    ck_assert_uint_eq(most_slices(15), 16);
    ck_assert_uint_eq(most_slices(20), 32);
    ck_assert_uint_gt(most_slices(100), 32);
}
