/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evict and ghost: the verdicts of the policy, its cap, and what the ghost remembers, each
 * alone; then both in a shard: promotion, return through the ghost, the cap when the main chain
 * is hot.
 */
#include "lib/memory/evict.h"

#include <stdio.h>

#include "lib/memory/ghost.h"
#include "tests/common/unit.h"
#include "tests/lib/fixture.h"

/* ---- verdicts ---------------------------------------------------------------------------- */

static struct item make_item(uint8_t heat)
{
    struct item it;

    memset(&it, 0, sizeof(it));
    it.key_len = 1;
    atomic_store(&it.heat, heat);
    atomic_store(&it.shape, 128); /* 1024 bytes */
    return it;
}

TEST(small_promotes_what_was_used)
{
    struct evict_pass pass = {CHAIN_SMALL, false, 0, 0};

    for (uint8_t heat = 1; heat <= HEAT_MAX; heat++) {
        struct item it = make_item(heat);

        ck_assert_int_eq(evict_s3fifo.judge(&pass, &it), VERDICT_PROMOTE);
    }
    struct item cold = make_item(0);
    struct item fetched_once = make_item(HEAT_FETCHED);

    ck_assert_int_eq(evict_s3fifo.judge(&pass, &cold), VERDICT_EVICT);
    ck_assert_int_eq(evict_s3fifo.judge(&pass, &fetched_once), VERDICT_EVICT);
    pass.is_young = true;
    ck_assert_int_eq(evict_s3fifo.judge(&pass, &cold), VERDICT_YOUNG);
}

TEST(main_keeps_what_was_used_up_to_its_cap)
{
    struct item hot = make_item(1);
    struct item cold = make_item(0);
    struct evict_pass pass = {CHAIN_MAIN, false, 0, 0};

    ck_assert_int_eq(evict_s3fifo.judge(&pass, &hot), VERDICT_KEEP);
    ck_assert_int_eq(evict_s3fifo.judge(&pass, &cold), VERDICT_EVICT);
    pass.is_young = true;
    ck_assert_int_eq(evict_s3fifo.judge(&pass, &cold), VERDICT_YOUNG);
    pass.is_young = false;

    /* All items are hot: of a long pass four fifths stay, and a little more at its start. */
    for (pass.scanned = 0; pass.scanned < 1024 * 1024; pass.scanned += 1024) {
        if (evict_s3fifo.judge(&pass, &hot) == VERDICT_KEEP) {
            pass.kept += 1024;
        }
    }
    ck_assert_uint_le(pass.kept, pass.scanned * 80 / 100 + 16384);
    ck_assert_uint_ge(pass.kept, pass.scanned * 79 / 100);
}

/* ---- the ghost --------------------------------------------------------------------------- */

TEST(no_ghost_remembers_nothing)
{
    struct ghost g = {NULL, 0};

    ghost_add(&g, 77);
    ghost_prefetch(&g, 77);
    ck_assert(!ghost_take(&g, 77));
    ck_assert_uint_eq(ghost_capacity(&g), 0);
}

TEST(it_remembers_once_and_counts_its_memory)
{
    struct budget budget = {0};
    struct ghost g;

    ck_assert(ghost_create(&g, 1000, &budget));
    ck_assert_uint_ge(ghost_capacity(&g), 1000);
    ck_assert_int_eq(atomic_load(&budget.used_bytes),
                     (int64_t)(g.count * sizeof(struct ghost_bucket)));
    for (uint64_t i = 1; i <= 200; i++) {
        ghost_add(&g, hash_key(1, &i, sizeof(i)));
    }
    for (uint64_t i = 1; i <= 400; i++) {
        ck_assert(ghost_take(&g, hash_key(1, &i, sizeof(i))) == (i <= 200));
    }
    for (uint64_t i = 1; i <= 200; i++) {
        ck_assert(!ghost_take(&g, hash_key(1, &i, sizeof(i))));
    }
    ghost_destroy(&g, &budget);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 0);
    ck_assert(!ghost_take(&g, 1));
}

TEST(a_full_bucket_forgets_the_oldest)
{
    struct budget budget = {0};
    struct ghost g;

    ck_assert(ghost_create(&g, 1, &budget));
    ck_assert_uint_eq(g.count, 1);
    for (uint64_t i = 0; i < GHOST_WAYS + 5; i++) {
        ghost_add(&g, i << 14);
    }
    for (uint64_t i = 0; i < GHOST_WAYS + 5; i++) {
        ck_assert(ghost_take(&g, i << 14) == (i >= 5));
    }
    ghost_destroy(&g, &budget);
}

/* ---- at work ----------------------------------------------------------------------------- */

#define LEN 500

/* Store keys that are never read until `count` more items were evicted. */
static unsigned push_out(struct fixture *f, unsigned from, uint64_t evictions)
{
    uint64_t until = fixture_counter(f, CTR_evictions) + evictions;

    while (fixture_counter(f, CTR_evictions) < until) {
        fixture_set(f, fixture_key("cold-", from++), LEN);
        if (from % 16 == 0) {
            fixture_grace(f);
        }
    }
    return from;
}

TEST(what_was_used_goes_to_main_and_outlives_a_scan)
{
    struct fixture f;

    fixture_start(&f, NULL);
    for (unsigned i = 0; i < 500; i++) {
        fixture_set(&f, fixture_key("hot-", i), LEN);
    }
    ck_assert_int_eq(fixture_use(&f, fixture_key("hot-", 3), 2).chain, CHAIN_SMALL);
    for (unsigned i = 0; i < 500; i++) {
        ck_assert(fixture_use(&f, fixture_key("hot-", i), 1).is_hit);
    }
    for (unsigned i = 500; i < 1000; i++) {
        fixture_set(&f, fixture_key("hot-", i), LEN); /* never used */
    }
    /* Four times as much as fits is stored. */
    (void)push_out(&f, 0, 60000);
    for (unsigned i = 0; i < 500; i++) {
        struct got got = fixture_get(&f, fixture_key("hot-", i));

        ck_assert_msg(got.is_hit, "hot key %u was evicted", i);
        ck_assert_int_eq(got.chain, CHAIN_MAIN);
    }
    for (unsigned i = 500; i < 1000; i++) {
        ck_assert(!fixture_has(&f, fixture_key("hot-", i)));
    }
    ck_assert_uint_ge(fixture_counter(&f, CTR_moves_to_main), 500);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_active), 0);
    fixture_verify(&f);
    fixture_stop(&f);
}

TEST(what_comes_back_goes_straight_to_main)
{
    struct fixture f;
    unsigned next;
    unsigned remembered = 0;

    fixture_start(&f, NULL);
    next = push_out(&f, 0, 200); /* so that the ghost is in use */
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("back-", i), LEN);
    }
    /* Only until the last of them was evicted. */
    while (fixture_has(&f, fixture_key("back-", 99))) {
        next = push_out(&f, next, 50);
    }
    for (unsigned i = 0; i < 100; i++) {
        ck_assert(!fixture_has(&f, fixture_key("back-", i)));
        fixture_set(&f, fixture_key("back-", i), LEN);
        remembered += fixture_get(&f, fixture_key("back-", i)).chain == CHAIN_MAIN;
    }
    ck_assert_uint_ge(remembered, 95);
    fixture_set(&f, fixture_key("new-", 1), LEN);
    ck_assert_int_eq(fixture_get(&f, fixture_key("new-", 1)).chain, CHAIN_SMALL);
    fixture_verify(&f);
    fixture_stop(&f);
}

/* Everything is hot: puts still find victims, and the bytes copied for each are bounded. */
TEST(a_cache_in_which_all_is_hot_still_takes_puts)
{
    struct fixture f;
    uint64_t moved;
    uint64_t put = 0;
    unsigned n = 0;

    fixture_start(&f, NULL);
    while (fixture_counter(&f, CTR_evictions) == 0 && n < 30000) {
        fixture_set(&f, fixture_key("all-", n), LEN);
        (void)fixture_use(&f, fixture_key("all-", n++), 3);
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 0);
    moved = fixture_counter(&f, CTR_cursor_moved_bytes);
    for (unsigned i = 0; i < 2000; i++, put += LEN) {
        fixture_set(&f, fixture_key("all-", n), LEN);
        (void)fixture_use(&f, fixture_key("all-", n++), 3);
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
    moved = fixture_counter(&f, CTR_cursor_moved_bytes) - moved;
    /* Keeping four fifths moves four bytes for each one gained; promotions are extra. */
    ck_assert_uint_le(moved, put * 12);
    fixture_verify(&f);
    fixture_stop(&f);
}

/*
 * An item that was stored in a hole of an old segment has not had its time yet: it is moved,
 * not evicted. Also when the segment was sealed within the same second.
 */
TEST_LOOP(the_young_in_old_segments_are_spared, 2)
{
    struct fixture f;
    unsigned n = 0;

    fixture_start(&f, NULL);
    while (fixture_avail(&f) > 8) {
        fixture_set(&f, fixture_key("old-", n++), LEN);
    }
    clock_advance(&f.engine.clock, _i == 0 ? 5000 : 0);
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("old-", i)), OUT_DELETED);
    }
    fixture_grace(&f);
    for (unsigned i = 0; i < 20; i++) {
        fixture_set(&f, fixture_key("yng-", i), LEN);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 20);
    (void)push_out(&f, 0, 200); /* the first segments are emptied */
    ck_assert(!fixture_has(&f, fixture_key("old-", 30)));
    for (unsigned i = 0; i < 20; i++) {
        ck_assert(fixture_has(&f, fixture_key("yng-", i)));
    }
    fixture_stop(&f);
}
