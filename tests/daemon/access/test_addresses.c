/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addresses: the limit, and that the table forgets closed connections, compared with an array.
 */
#include "daemon/access/access.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

static struct addresses addresses;

static void setup(void)
{
    addresses_init(&addresses);
}

static void teardown(void)
{
    addresses_fini(&addresses);
}

TEST_FIXTURE(setup, teardown)

TEST(an_address_has_as_many_as_it_may)
{
    ck_assert_int_eq(addresses_enter(&addresses, 7, 2), ADDRESS_IN);
    ck_assert_int_eq(addresses_enter(&addresses, 7, 2), ADDRESS_IN);
    ck_assert_int_eq(addresses_enter(&addresses, 7, 2), ADDRESS_FULL);
    ck_assert_int_eq(addresses_enter(&addresses, 8, 2), ADDRESS_IN);
    ck_assert_int_eq(addresses_enter(&addresses, 7, 0), ADDRESS_IN); /* no limit */
    ck_assert_int_eq(addresses_enter(&addresses, 7, 3), ADDRESS_FULL);
    addresses_leave(&addresses, 7);
    ck_assert_int_eq(addresses_enter(&addresses, 7, 2), ADDRESS_FULL);
    addresses_leave(&addresses, 7);
    ck_assert_int_eq(addresses_enter(&addresses, 7, 2), ADDRESS_IN);
}

#define IDS 700u

/* Counts are right at any time, and the table has the size of the open connections. */
TEST(counts_survive_growth_and_gaps)
{
    static uint32_t counts[IDS];
    struct rng rng;
    uint32_t present = 0;

    memset(counts, 0, sizeof(counts));
    rng_init(&rng, rng_seed());
    for (unsigned step = 0; step < 60000; step++) {
        /* It fills in the first half and empties in the second. */
        const uint32_t id = (uint32_t)rng_below(&rng, IDS);
        const bool enters = rng_below(&rng, 100) < (step < 30000 ? 60u : 20u);

        if (enters) {
            const bool fits = counts[id] < 3;

            ck_assert_int_eq(addresses_enter(&addresses, id, 3),
                             fits ? ADDRESS_IN : ADDRESS_FULL);
            present += counts[id] == 0;
            counts[id] += fits;
        } else if (counts[id] > 0) {
            addresses_leave(&addresses, id);
            counts[id]--;
            present -= counts[id] == 0;
        }
        ck_assert_uint_eq(addresses.counts.used, present);
        ck_assert(addresses.counts.cap == 0 || present * 2 <= addresses.counts.cap + 1);
    }
    for (uint32_t id = 0; id < IDS; id++) {
        counts[id]++;
        ck_assert_int_eq(addresses_enter(&addresses, id, counts[id]), ADDRESS_IN);
        ck_assert_int_eq(addresses_enter(&addresses, id, counts[id]), ADDRESS_FULL);
        while (counts[id] > 0) {
            addresses_leave(&addresses, id);
            counts[id]--;
        }
    }
    ck_assert_uint_eq(addresses.counts.used, 0);
    ck_assert_uint_le(addresses.counts.cap, 64);
}
