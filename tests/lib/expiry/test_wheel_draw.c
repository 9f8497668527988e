/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items drawn from the wheel for an eviction: every one has the same chance, what has left
 * never comes, and the earliest is found where its bucket is not too large to look at.
 */
#include "tests/common/rng.h"
#include "tests/lib/expiry/one_wheel.h"

#define HOUR      ((msec_t)3600000)
#define ITEMS_MAX 20000u

static bool is_in[ITEMS_MAX];
static struct rng rng;

static uint32_t index_of(handle_t h)
{
    ck_assert(h % UNITS == 0);
    return h / UNITS - 1;
}

static void add(uint32_t i, msec_t deadline)
{
    add_item(i, deadline);
    is_in[i] = true;
}

static void take_out(uint32_t i)
{
    wheel_remove(wheel, handle_of(i));
    is_in[i] = false;
}

static void start(void)
{
    rng_init(&rng, 77);
    memset(is_in, 0, sizeof(is_in));
    start_wheel(ITEMS_MAX, 1000000);
}

TEST_FIXTURE(start, NULL)

/* ---- at random --------------------------------------------------------------------------- */

/*
 * Enough draws for 100 of each item on average: with a standard deviation of 10 none is
 * more than 65 off. What is not in the wheel never comes.
 */
static void check_draws(uint32_t items)
{
    static uint32_t count[ITEMS_MAX];
    uint64_t random = 5;
    uint64_t in = 0;
    uint64_t drawn = 0;
    handle_t out[8];

    memset(count, 0, sizeof(count));
    for (uint32_t i = 0; i < items; i++) {
        in += is_in[i];
    }
    ck_assert_uint_eq(in, wheel_count(wheel));
    while (drawn < in * 100) {
        unsigned n = wheel_draw(wheel, &random, out, 8);

        ck_assert(n >= 1);
        for (unsigned j = 0; j < n; j++) {
            ck_assert(is_in[index_of(out[j])]);
            count[index_of(out[j])]++;
        }
        drawn += n;
    }
    for (uint32_t i = 0; i < items; i++) {
        if (is_in[i] && (count[i] <= 35 || count[i] >= 165)) {
            ck_abort_msg("item %u of %u came %u times", i, items, count[i]);
        }
    }
}

/* Some numbers of items leave a slab with few nodes in use. */
static const uint32_t numbers[] = {1000, 3570, 3700, 7200};

TEST_LOOP(every_item_is_drawn_as_often_as_any_other, 4)
{
    for (uint32_t i = 0; i < numbers[_i]; i++) {
        add(i, now + 10 * HOUR);
    }
    check_draws(numbers[_i]);
}

/* In many buckets, of which each has a node that is not full, and after many have left. */
TEST_LOOP(what_has_left_is_not_drawn, 4)
{
    for (uint32_t i = 0; i < numbers[_i]; i++) {
        add(i, now + (msec_t)rng_below(&rng, (uint64_t)(5 * HOUR)));
    }
    for (uint32_t i = 0; i < numbers[_i]; i++) {
        if (rng_below(&rng, 3) == 0) {
            take_out(i);
        }
    }
    check_draws(numbers[_i]);
}

/* ---- the earliest ------------------------------------------------------------------------ */

#define FEW 400u

/* The earliest deadline of those in out[], or of the first items if that is NULL. */
static msec_t earliest(const handle_t *out, unsigned n)
{
    msec_t first = MSEC_NEVER;

    for (uint32_t i = 0; i < (out != NULL ? n : FEW); i++) {
        uint32_t at = out != NULL ? index_of(out[i]) : i;

        if (is_in[at] && item_deadline(item_of(at)) < first) {
            first = item_deadline(item_of(at));
        }
    }
    return first;
}

/* While time passes, so that buckets are half refined, and items come and go. */
TEST(the_earliest_is_found_in_a_bucket_that_is_not_too_large)
{
    static const msec_t spread[] = {500, 60000, 3600000, 36000000, 500000000, 5000000000};
    handle_t out[512];

    for (unsigned round = 0; round < 6000; round++) {
        uint32_t i = (uint32_t)rng_below(&rng, FEW);
        unsigned n;

        if (is_in[i]) {
            take_out(i);
        } else {
            add(i, now + 1 + (msec_t)rng_below(&rng, (uint64_t)spread[round / 1000]));
        }
        if (round % 8 == 0) {
            unsigned sampled;

            now += (msec_t)rng_below(&rng, (uint64_t)spread[round / 1000] / 20 + 1);
            n = wheel_sample(wheel, now, out, 20, &sampled);
            for (unsigned j = 0; j < n; j++) {
                take_out(index_of(out[j]));
            }
        }
        n = wheel_soonest(wheel, out, 512);
        ck_assert_int_eq(earliest(out, n), earliest(NULL, 0));
    }
}

/* Of a larger bucket, other items come at each call, until all have come. */
TEST(all_of_a_large_bucket_are_looked_at_in_turn)
{
    static bool came[ITEMS_MAX];
    handle_t out[512];
    unsigned count = 0;

    memset(came, 0, sizeof(came));
    for (uint32_t i = 0; i < ITEMS_MAX; i++) {
        add(i, now + 10 * HOUR);
    }
    for (unsigned calls = 0; calls < ITEMS_MAX / 300; calls++) {
        unsigned n = wheel_soonest(wheel, out, 512);

        ck_assert_uint_ge(n, 500);
        for (unsigned j = 0; j < n; j++) {
            count += !came[index_of(out[j])];
            came[index_of(out[j])] = true;
        }
    }
    ck_assert_uint_ge(count, ITEMS_MAX * 95 / 100);
}

TEST(nothing_is_drawn_of_nothing_and_one_of_one)
{
    uint64_t random = 1;
    handle_t out[8];

    ck_assert_uint_eq(wheel_draw(wheel, &random, out, 8), 0);
    ck_assert_uint_eq(wheel_soonest(wheel, out, 8), 0);
    add(17, now + HOUR);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_ge(wheel_draw(wheel, &random, out, 8), 1);
        ck_assert_uint_eq(index_of(out[0]), 17);
        ck_assert_uint_eq(wheel_soonest(wheel, out, 8), 1);
        ck_assert_uint_eq(index_of(out[0]), 17);
    }
}
