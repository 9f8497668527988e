/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evict and ghost: the verdicts of the policy, its cap, and what the ghost remembers, each
 * alone; then both in a shard: promotion, return through the ghost, the cap when the main chain
 * is hot.
 */
#include "lib/memory/evict.h"

#include "lib/memory/chains.h"
#include "lib/memory/ghost.h"
#include "tests/lib/fixture.h"

/* ---- verdicts ---------------------------------------------------------------------------- */

static struct fixture f;

static struct item make_item(uint8_t heat)
{
    struct item it;

    memset(&it, 0, sizeof(it));
    it.key_len = 1;
    atomic_store(&it.heat, heat);
    atomic_store(&it.shape, 128); /* 1024 bytes */
    return it;
}

static enum verdict judge(const struct evict_pass *pass, struct item it, uint8_t *heat)
{
    *heat = 0xff;
    return evict_density.judge(pass, &it, heat);
}

/* At the end of small and big, where the mean item has a kilobyte as those judged. */
TEST(newcomers_of_the_mean_size_need_a_hit)
{
    struct evict_pass pass = {.mean_bytes = KIB};
    const enum chain_id chains[] = {CHAIN_SMALL, CHAIN_BIG};
    uint8_t heat;

    for (int i = 0; i < 2; i++) {
        pass.chain = chains[i];
        for (uint8_t hits = 1; hits <= HEAT_MAX; hits++) {
            ck_assert_int_eq(judge(&pass, make_item(hits | HEAT_FETCHED), &heat),
                             VERDICT_PROMOTE);
            ck_assert_uint_eq(heat, HEAT_FETCHED | HEAT_JUDGED); /* it starts over */
        }
        ck_assert_int_eq(judge(&pass, make_item(0), &heat), VERDICT_EVICT);
        ck_assert_int_eq(judge(&pass, make_item(HEAT_FETCHED), &heat), VERDICT_EVICT);
        pass.is_young = true;
        ck_assert_int_eq(judge(&pass, make_item(0), &heat), VERDICT_YOUNG);
        pass.is_young = false;
    }
}

/* The smaller an item is, the fewer hits it needs. */
TEST(newcomers_are_judged_by_hits_per_byte)
{
    static const struct {
        uint64_t mean_bytes;
        uint8_t hits_needed; /* never more than readers count */
    } rows[] = {{KIB / 8, 3},     {KIB / 4, 2}, {KIB / 2, 1},         {KIB, 1},     {0, 1},
                {KIB * 3 / 2, 1}, {KIB * 2, 0}, {KIB / 16, HEAT_MAX}, {1, HEAT_MAX}};
    struct evict_pass pass = {.chain = CHAIN_SMALL};
    uint8_t heat;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pass.mean_bytes = rows[i].mean_bytes;
        for (uint8_t hits = 0; hits <= HEAT_MAX; hits++) {
            ck_assert_msg(judge(&pass, make_item(hits), &heat) ==
                              (hits >= rows[i].hits_needed ? VERDICT_PROMOTE : VERDICT_EVICT),
                          "mean %u, hits %u", (unsigned)rows[i].mean_bytes, hits);
        }
    }
}

/* Rounds for which an item with this number of hits stays in main without further ones. */
static unsigned rounds_in_main(uint8_t before, uint8_t hits, uint64_t mean_bytes)
{
    struct evict_pass pass = {.chain = CHAIN_MAIN, .mean_bytes = mean_bytes};
    uint8_t heat = (uint8_t)(hits | before);
    unsigned rounds = 0;

    while (judge(&pass, make_item(heat), &heat) == VERDICT_KEEP) {
        ck_assert_uint_eq(heat & HEAT_COUNT, 0);
        ck_assert_uint_lt(++rounds, 10);
    }
    return rounds;
}

/* A round costs half a hit of the mean size; at most seven quarters are kept. */
TEST(what_is_in_main_lives_on_its_hits)
{
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 0, KIB), 0);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 1, KIB), 2);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 2, KIB), 4);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 3, KIB), 4);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 0, 16 * KIB), 0); /* no hit is no hit */
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 1, KIB / 2), 1);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 1, KIB / 4), 0);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 2, KIB / 4), 1);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 1, 4 * KIB), 4);
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 2, 1), 0); /* the largest live on three */
    ck_assert_uint_eq(rounds_in_main(HEAT_JUDGED, 3, 1), 1);
}

/* What came back through the ghost has a hit, and has paid half of one of the mean size. */
TEST(what_came_back_has_a_hit)
{
    ck_assert_uint_eq(rounds_in_main(0, 0, KIB), 1);
    ck_assert_uint_eq(rounds_in_main(0, 1, KIB), 3);
    ck_assert_uint_eq(rounds_in_main(0, 0, KIB / 2), 0);
    ck_assert_uint_eq(rounds_in_main(0, 0, 2 * KIB), 2);
}

/* The value counts, not the block that names its segments. */
TEST(a_large_item_weighs_what_its_value_does)
{
    struct evict_pass pass = {.chain = CHAIN_MAIN, .mean_bytes = KIB};
    struct {
        struct item it;
        struct item_wide wide;
    } x = {.it = make_item(HEAT_JUDGED | 1), .wide = {.len_high = (100 * KIB) >> LEN_BITS}};
    uint8_t heat;

    atomic_store(&x.it.shape, 128 | SHAPE_WIDE);
    ck_assert_int_eq(evict_density.judge(&pass, &x.it, &heat), VERDICT_KEEP);
    x.wide.far_large = WIDE_LARGE;
    ck_assert_int_eq(evict_density.judge(&pass, &x.it, &heat), VERDICT_EVICT);
}

TEST(main_keeps_what_was_used_up_to_its_cap)
{
    struct item hot = make_item(HEAT_JUDGED | 1);
    struct item cold = make_item(HEAT_JUDGED);
    struct evict_pass pass = {.chain = CHAIN_MAIN, .mean_bytes = KIB};
    uint8_t heat;

    ck_assert_int_eq(judge(&pass, cold, &heat), VERDICT_EVICT);
    pass.is_young = true;
    ck_assert_int_eq(judge(&pass, cold, &heat), VERDICT_YOUNG);
    pass.is_young = false;

    /* All items are hot: of a long pass 85 % stay, and a little more at its start. */
    for (pass.scanned = 0; pass.scanned < 1024 * KIB; pass.scanned += KIB) {
        if (judge(&pass, hot, &heat) == VERDICT_KEEP) {
            pass.kept += KIB;
        }
    }
    ck_assert_uint_le(pass.kept, pass.scanned * 85 / 100 + 16384);
    ck_assert_uint_ge(pass.kept, pass.scanned * 84 / 100);
    /* The item counts, too: an item of a kilobyte fits, or would exceed the cap by a byte. */
    pass.scanned = 100 * KIB;
    pass.kept = 85 * KIB + 16384 - KIB;
    ck_assert_int_eq(judge(&pass, hot, &heat), VERDICT_KEEP);
    pass.kept++;
    ck_assert_int_eq(judge(&pass, hot, &heat), VERDICT_EVICT);
}

/* Without a past a key begins in small; later a large one begins in big, known or not. */
TEST(newcomers_begin_where_their_size_belongs)
{
    struct budget budget = {0};
    void *past = evict_density.past_create(1000, &budget);

    ck_assert_ptr_nonnull(past);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, KIB, KIB), CHAIN_SMALL);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, 2 * KIB, KIB), CHAIN_SMALL);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, 3 * KIB, KIB), CHAIN_BIG);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, 1 << 30, KIB), CHAIN_BIG);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, 3 * KIB, 0), CHAIN_SMALL);
    evict_density.past_add(past, CHAIN_MAIN, 1 << 20);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, KIB, KIB), CHAIN_SMALL);
    evict_density.past_add(past, CHAIN_BIG, 1 << 20);
    evict_density.past_add(past, CHAIN_SMALL, 2 << 20);
    evict_density.past_add(past, CHAIN_SMALL, 3 << 20);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, KIB, KIB), CHAIN_MAIN);
    ck_assert_int_eq(evict_density.past_chain(past, 1 << 20, KIB, KIB), CHAIN_SMALL);
    ck_assert_int_eq(evict_density.past_chain(past, 2 << 20, 100, KIB), CHAIN_MAIN);
    ck_assert_int_eq(evict_density.past_chain(past, 3 << 20, 3 * KIB, KIB), CHAIN_BIG);
    evict_density.past_destroy(past, &budget);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 0);
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

/* The fingerprint 0 means an empty way, so no key has it. */
TEST(every_fingerprint_can_be_remembered)
{
    struct budget budget = {0};
    struct ghost g;

    ck_assert(ghost_create(&g, 1, &budget));
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert(!ghost_take(&g, i << 29));
        ghost_add(&g, i << 29);
        ck_assert(ghost_take(&g, i << 29));
    }
    ghost_destroy(&g, &budget);
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

TEST(few_keys_are_taken_for_others)
{
    struct budget budget = {0};
    struct ghost g;
    uint64_t remembered = 0;
    uint64_t mistaken = 0;

    ck_assert(ghost_create(&g, 10000, &budget));
    ck_assert_int_le(atomic_load(&budget.used_bytes), 10000 * 22 / 10);
    for (uint64_t i = 0; i < 30000; i++) {
        ghost_add(&g, hash_key(1, &i, sizeof(i)));
    }
    for (uint64_t i = 100000; i < 200000; i++) {
        mistaken += ghost_take(&g, hash_key(1, &i, sizeof(i)));
    }
    for (uint64_t i = 22000; i < 30000; i++) {
        remembered += ghost_take(&g, hash_key(1, &i, sizeof(i)));
    }
    ck_assert_uint_lt(mistaken, 100);
    ck_assert_uint_gt(remembered, 7000);
    ghost_destroy(&g, &budget);
}

/* ---- at work ----------------------------------------------------------------------------- */

#define LEN 500

/* Store keys that are never read until `count` more items were evicted. */
static unsigned push_out(unsigned from, uint64_t evictions)
{
    uint64_t until = fixture_counter(&f, CTR_evictions) + evictions;

    while (fixture_counter(&f, CTR_evictions) < until) {
        fixture_set(&f, fixture_key("cold-", from++), LEN);
        if (from % 16 == 0) {
            fixture_grace(&f);
        }
    }
    return from;
}

TEST(what_was_used_goes_to_main_and_outlives_a_scan)
{
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
    (void)push_out(0, 60000);
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
}

/* When values grow, small ones that nobody reads leave main, where they came without a hit. */
TEST(values_that_have_grown_get_the_room_of_the_small)
{
    uint64_t large = 0;

    fixture_start(&f, NULL);
    for (unsigned i = 0; i < 80000; i++) {
        fixture_set(&f, fixture_key("small-", i), 100);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    /* Twice as much as fits. */
    for (unsigned i = 0; i < 2 * 8 * MIB / 2750; i++) {
        fixture_set(&f, fixture_key("large-", i), 500 + i * 977 % 4500);
        if (i % 8 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < 2 * 8 * MIB / 2750; i++) {
        struct got got = fixture_get(&f, fixture_key("large-", i));

        large += got.is_hit ? got.len : 0;
    }
    ck_assert_uint_gt(large, 8 * MIB * 84 / 100);
}

TEST(what_comes_back_goes_straight_to_main)
{
    unsigned remembered = 0;

    fixture_start(&f, NULL);
    unsigned next = push_out(0, 200); /* so that the ghost is in use */
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("back-", i), LEN);
    }
    /* Only until the last of them was evicted. */
    while (fixture_has(&f, fixture_key("back-", 99))) {
        next = push_out(next, 50);
    }
    for (unsigned i = 0; i < 100; i++) {
        ck_assert(!fixture_has(&f, fixture_key("back-", i)));
        fixture_set(&f, fixture_key("back-", i), LEN);
        remembered += fixture_get(&f, fixture_key("back-", i)).chain == CHAIN_MAIN;
    }
    ck_assert_uint_ge(remembered, 95);
    fixture_set(&f, fixture_key("new-", 1), LEN);
    ck_assert_int_eq(fixture_get(&f, fixture_key("new-", 1)).chain, CHAIN_SMALL);
}

/* Everything is hot: puts still find victims, and the bytes copied for each are bounded. */
TEST(a_cache_in_which_all_is_hot_still_takes_puts)
{
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
    uint64_t moved = fixture_counter(&f, CTR_cursor_moved_bytes);
    for (unsigned i = 0; i < 2000; i++, put += LEN) {
        fixture_set(&f, fixture_key("all-", n), LEN);
        (void)fixture_use(&f, fixture_key("all-", n++), 3);
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
    moved = fixture_counter(&f, CTR_cursor_moved_bytes) - moved;
    /* Keeping 85 % moves six bytes for each one gained; promotions are extra. */
    ck_assert_uint_le(moved, put * 12);
}

/*
 * After a first filling all is in small, and all of it goes to main if it was used, or is small
 * beside what comes now. A store that waits does not wait until there is room, and is not
 * refused.
 */
TEST_LOOP(a_first_filling_that_is_worth_keeping_makes_room, 2)
{
    unsigned n = 0;

    fixture_start_sized(&f, 1, 128 * MIB);
    while (fixture_avail(&f) > 8) {
        fixture_set(&f, fixture_key("first-", n), 100);
        if (_i == 0) {
            (void)fixture_use(&f, fixture_key("first-", n), 3);
        }
        if (n++ % 256 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < 200; i++) {
        uint64_t moved = fixture_counter(&f, CTR_cursor_moved_bytes);

        fixture_set(&f, fixture_key("large-", i), 300 * KIB);
        for (unsigned k = 0; k < 50; k++) {
            fixture_set(&f, fixture_key("small-", 50 * i + k), 2000);
        }
        moved = fixture_counter(&f, CTR_cursor_moved_bytes) - moved;
        ck_assert_msg(moved < 20 * MIB, "%" PRIu64 " bytes moved for large-%u", moved, i);
    }
}

/*
 * An item that was stored in a hole of an old segment has not had its time yet: it is moved,
 * not evicted. Also when the segment was sealed within the same second, or by a clock that was
 * a second ahead.
 */
TEST_LOOP(the_young_in_old_segments_are_spared, 3)
{
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
        struct item *it =
            (struct item *)(uintptr_t)fixture_get(&f, fixture_key("yng-", i)).item;
        item_set_access(it, (uint32_t)(fixture_now(&f) / 1000) - (_i == 2));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 20);
    (void)push_out(0, 200); /* the first segments are emptied */
    ck_assert(!fixture_has(&f, fixture_key("old-", 30)));
    for (unsigned i = 0; i < 20; i++) {
        ck_assert(fixture_has(&f, fixture_key("yng-", i)));
    }
}

/* Within a second the cas tells that it has spent most of its segment's time there. */
TEST(what_came_to_a_hole_long_ago_is_not_young)
{
    unsigned n = 0;
    unsigned left = 0;

    fixture_start(&f, NULL);
    while (n < 500) {
        fixture_set(&f, fixture_key("old-", n++), LEN);
    }
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("old-", i)), OUT_DELETED);
    }
    fixture_grace(&f);
    for (unsigned i = 0; i < 10; i++) {
        fixture_set(&f, fixture_key("hole-", i), LEN);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 10);
    while (fixture_avail(&f) > 8) {
        fixture_set(&f, fixture_key("old-", n++), LEN);
    }
    (void)push_out(0, 200); /* the first segments are emptied */
    ck_assert(!fixture_has(&f, fixture_key("old-", 30)));
    for (unsigned i = 0; i < 10; i++) {
        left += fixture_has(&f, fixture_key("hole-", i));
    }
    ck_assert_uint_eq(left, 0);
}

/* When all that comes is larger than what is there, the old ones go, though they are small. */
TEST(old_small_items_make_way_when_sizes_change)
{
    unsigned large = (unsigned)(4 * 8 * MIB / (8 * LEN));
    unsigned kept = 0;

    fixture_start(&f, NULL);
    (void)push_out(0, 200);
    for (unsigned i = 0; i < large; i++) {
        fixture_set(&f, fixture_key("large-", i), 8 * LEN);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < large; i++) {
        kept += fixture_has(&f, fixture_key("large-", i));
    }
    ck_assert_uint_ge(kept * (uint64_t)(8 * LEN), 8 * MIB / 5); /* it was a fiftieth */
}

/*
 * Large newcomers pass through big, a fiftieth of the memory: in a cache of items that were
 * fetched once these and those in small stay, whatever a scan of large ones stores.
 */
TEST(large_newcomers_cost_few_others_their_place)
{
    unsigned next = 0, kept = 0;

    fixture_start(&f, NULL);
    while (fixture_counter(&f, CTR_evictions) < 200) {
        fixture_set(&f, fixture_key("used-", next), LEN);
        (void)fixture_use(&f, fixture_key("used-", next++), 1);
        if (next % 16 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < 500; i++) {
        fixture_set(&f, fixture_key("mine-", i), LEN);
    }
    for (unsigned i = 0; i < 4000; i++) { /* as much as fits, and more */
        fixture_set(&f, fixture_key("large-", i), 8 * LEN);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < 500; i++) {
        kept += fixture_get(&f, fixture_key("mine-", i)).chain == CHAIN_SMALL;
    }
    ck_assert_uint_eq(kept, 500);
    ck_assert_int_eq(fixture_get(&f, fixture_key("large-", 3999)).chain, CHAIN_BIG);
    ck_assert(!fixture_has(&f, fixture_key("large-", 3000)));
    (void)fixture_use(&f, fixture_key("large-", 3999), 3);
    while (fixture_get(&f, fixture_key("large-", 3999)).chain == CHAIN_BIG) {
        fixture_set(&f, fixture_key("large-", 10000 + next++), 8 * LEN);
        if (next % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_int_eq(fixture_get(&f, fixture_key("large-", 3999)).chain, CHAIN_MAIN);
}

/* ---- which segment goes ------------------------------------------------------------------ */

/* A shard with items in all three chains, small and big above their shares. */
static void fill_chains(void)
{
    fixture_start(&f, NULL);
    struct memory *m = &f.shard->memory;
    unsigned next = push_out(0, 200);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("large-", i), 8 * LEN);
        fixture_set(&f, fixture_key("kept-", i), LEN);
        (void)fixture_use(&f, fixture_key("kept-", i), 3);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    while (m->blocks.chain[CHAIN_MAIN].count < 40) {
        ck_assert_uint_lt(next, 100000);
        next = push_out(next, 100);
    }
    for (unsigned i = 0; m->blocks.chain[CHAIN_BIG].bytes < 6 * segment_bytes(&m->arena); i++) {
        ck_assert_uint_lt(i, 1000);
        fixture_set(&f, fixture_key("last-", i), 8 * LEN);
    }
    m->evict.untried = 0;
    m->evict.was_untried = false;
}

/* The chain of the segment that goes next. */
static enum chain_id pick(struct memory *m)
{
    segment_t n = evict_density.pick(m);

    ck_assert_uint_ne(n, 0);
    return (enum chain_id)m->arena.segments[n].chain;
}

/* Big goes first unless small was sealed earlier, within a second by the cas. */
TEST(the_older_of_small_and_big_goes)
{
    fill_chains();
    struct memory *m = &f.shard->memory;
    shard_enter(f.shard);
    struct segment *small = &m->arena.segments[chains_oldest(m, CHAIN_SMALL)];
    struct segment *big = &m->arena.segments[chains_oldest(m, CHAIN_BIG)];
    ck_assert(small != m->arena.segments && big != m->arena.segments);
    small->sealed_s = big->sealed_s - 1;
    ck_assert_int_eq(pick(m), CHAIN_SMALL);
    small->sealed_s = big->sealed_s + 1;
    ck_assert_int_eq(pick(m), CHAIN_BIG);
    small->sealed_s = big->sealed_s;
    small->sealed_cas = big->sealed_cas - 1;
    ck_assert_int_eq(pick(m), CHAIN_SMALL);
    small->sealed_cas = big->sealed_cas + 1;
    ck_assert_int_eq(pick(m), CHAIN_BIG);
    shard_leave(f.shard);
}

/* While most of main was never hit, every other segment is one of main. */
TEST(untried_items_of_main_are_judged_every_other_time)
{
    uint64_t bytes;

    fill_chains();
    struct memory *m = &f.shard->memory;
    shard_enter(f.shard);
    bytes = m->blocks.chain[CHAIN_MAIN].bytes;
    m->evict.untried = 100 * bytes; /* most of them have died since */
    ck_assert_int_eq(pick(m), CHAIN_MAIN);
    uint64_t left = m->evict.untried;
    ck_assert_uint_lt(left, bytes);
    ck_assert_uint_gt(left, bytes - 2 * segment_bytes(&m->arena));
    ck_assert_int_ne(pick(m), CHAIN_MAIN);
    ck_assert_uint_eq(m->evict.untried, left); /* nothing of main was tried */
    ck_assert_int_eq(pick(m), CHAIN_MAIN);
    ck_assert_uint_lt(m->evict.untried, left);
    m->evict.untried = bytes / 2;
    ck_assert_int_ne(pick(m), CHAIN_MAIN);
    ck_assert_int_ne(pick(m), CHAIN_MAIN);
    shard_leave(f.shard);
}

/*
 * In a shard that holds few segments a share is less than two of them. A chain of one is not
 * emptied first, or what was stored last would be evicted.
 */
TEST(one_segment_is_not_too_many)
{
    fill_chains();
    struct memory *m = &f.shard->memory;
    shard_enter(f.shard);
    uint64_t *big = &m->blocks.chain[CHAIN_BIG].bytes;
    uint64_t all = *big;
    uint32_t held = m->arena.held;

    m->arena.held = 50;
    m->blocks.chain[CHAIN_SMALL].bytes += 1; /* rich in any case */
    m->arena.segments[chains_oldest(m, CHAIN_SMALL)].sealed_s =
        m->arena.segments[chains_oldest(m, CHAIN_BIG)].sealed_s + 1;
    *big = 2 * segment_bytes(&m->arena);
    ck_assert_int_eq(pick(m), CHAIN_BIG);
    *big -= 1;
    ck_assert_int_eq(pick(m), CHAIN_SMALL);
    *big = all;
    m->blocks.chain[CHAIN_SMALL].bytes -= 1;
    m->arena.held = held;
    shard_leave(f.shard);
}

/* ---- the size of the past ---------------------------------------------------------------- */

static bool wants(uint64_t capacity, uint64_t items)
{
    struct evict *ev = &f.shard->memory.evict;
    uint64_t had = ev->past_capacity;

    shard_enter(f.shard);
    ev->past_capacity = capacity;
    ev->past_is_wanted = true;
    bool is_wanted = evict_wants_past(ev, items);
    ev->past_capacity = had;
    ev->past_is_wanted = false;
    shard_leave(f.shard);
    return is_wanted;
}

TEST(the_past_is_replaced_when_it_is_half_or_four_times_the_size)
{
    fixture_start(&f, NULL);
    ck_assert(!wants(500, 1000));
    ck_assert(wants(499, 1000));
    ck_assert(!wants(4 * 1000 + 8192, 1000));
    ck_assert(wants(4 * 1000 + 8193, 1000));
}

/* Another policy does not sort new keys by what density remembers, and adds nothing to it. */
TEST(the_past_of_another_policy_is_not_asked)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_start(&f, &cfg);
    (void)push_out(0, 200);
    struct evict *ev = &f.shard->memory.evict;
    uint64_t hash = fixture_hash(&f, "key");
    shard_enter(f.shard);
    evict_remember(ev, CHAIN_SMALL, hash);
    fixture_policy(CHOICE_ALLKEYS_LRU);
    ck_assert_int_eq(evict_chain(ev, hash, LEN), CHAIN_SMALL);
    ck_assert_int_eq(evict_chain(ev, hash, 100 * LEN), CHAIN_SMALL);
    fixture_policy(CHOICE_DENSITY);
    ck_assert_int_eq(evict_chain(ev, hash, LEN), CHAIN_MAIN);
    fixture_policy(CHOICE_ALLKEYS_LRU);
    evict_remember(ev, CHAIN_SMALL, hash);
    fixture_policy(CHOICE_DENSITY);
    ck_assert_int_eq(evict_chain(ev, hash, LEN), CHAIN_SMALL);
    shard_leave(f.shard);
}
