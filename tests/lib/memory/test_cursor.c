/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cursor: when it cleans and when it evicts, that due items go before live ones, that cleaning
 * keeps the order of age, and that a slice is bounded.
 */

#include "lib/memory/chains.h"
#include "lib/memory/cursor.h"
#include "lib/memory/room.h"
#include "lib/shard/info.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static const char *name(const char *kind, unsigned i)
{
    static char key[32];

    (void)snprintf(key, sizeof(key), "%s%05u", kind, i);
    return key;
}

/* Set keys until little room is left; returns how many. */
static unsigned fill(const char *kind, size_t len, msec_t deadline, unsigned every)
{
    unsigned n = 0;

    while (fixture_avail(&f) > 8) {
        fixture_set_until(&f, name(kind, n), len, n % every == 0 ? deadline : MSEC_NEVER);
        n++;
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    return n;
}

TEST(what_is_dead_is_cleaned_before_anything_is_evicted)
{
    uint64_t put = 0;

    unsigned n = fill("k", 200, MSEC_NEVER, 1);
    for (unsigned i = 0; i < n; i++) {
        if (i % 5 < 2) {
            ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
        }
    }
    /* Larger than any hole: only cleaning makes room. */
    for (unsigned i = 0; put < 2 * MIB; i++) {
        fixture_set(&f, name("large", i), 1500);
        put += 1500;
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_cleaned), 0);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(fixture_has(&f, name("k", i)) == (i % 5 >= 2));
    }
}

TEST(what_it_lets_go_it_may_choose_again)
{
    int64_t work = 20;

    unsigned keys = fill("k", 200, MSEC_NEVER, 1);
    for (unsigned i = 0; i < 300; i++) {
        if (i % 2 == 0) {
            ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
        }
    }
    struct memory *m = &f.shard->memory;
    shard_enter(f.shard);
    segment_t n = cursor_emptiest(m);
    ck_assert_uint_ne(n, 0);
    ck_assert(cursor_clean(m, n, &work, fixture_now(&f)));
    ck_assert_uint_eq(m->cursor.segment, n);
    ck_assert_uint_ne(cursor_emptiest(m), n);
    cursor_let_go(m);
    ck_assert_uint_eq(m->cursor.segment, 0);
    ck_assert_uint_eq(cursor_emptiest(m), n);
    cursor_let_go(m);
    shard_leave(f.shard);
    for (unsigned i = 0; i < keys; i++) {
        ck_assert(fixture_has(&f, name("k", i)) == (i >= 300 || i % 2 != 0));
    }
}

/*
 * Very many fall due in the same second, one here and one there. No segment is worth cleaning
 * for long, yet a store that is pressed does not wait until all of them were dropped.
 */
TEST(a_storm_of_deadlines_leaves_work_for_making_room)
{
    struct engine_config cfg;
    segment_t taken[64];
    unsigned slices = 0;
    unsigned n = 0;
    unsigned keys;

    fixture_config(&cfg);
    /* So large that cleaning is far away also after a whole segment has been evicted. */
    cfg.limit_bytes = 40 * MIB;
    fixture_start(&f, &cfg);
    struct memory *m = &f.shard->memory;
    for (keys = 0; fixture_avail(&f) > 16; keys++) {
        /* Neighbours fall due in different milliseconds. */
        fixture_set_until(&f, name("k", keys), 40, fixture_now(&f) + 60000 + keys % 997);
        if (keys % 4096 == 0) {
            fixture_settle(&f);
        }
    }
    clock_advance(&f.engine.clock, 62000);
    shard_enter(f.shard);
    while (arena_avail(&m->arena) > ROOM_RESERVE) {
        ck_assert_uint_lt(n, 64);
        taken[n++] = arena_take(&m->arena, SEG_WHOLE, 0);
    }
    while (memory_waiting(m) == 0) {
        ck_assert(cursor_slice(m, 512, fixture_now(&f)));
        ck_assert_uint_lt(++slices, 100);
    }
    ck_assert_uint_lt(fixture_counter(&f, CTR_expired_reclaim), keys / 8);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    while (n > 0) {
        n--;
        arena_give_whole(&m->arena, taken[n], taken[n], 1);
    }
    shard_leave(f.shard);
}

TEST(without_dead_ones_the_oldest_are_evicted)
{
    unsigned n = fill("k", 200, MSEC_NEVER, 1);
    for (unsigned i = 0; fixture_counter(&f, CTR_evictions) < 500; i++) {
        fixture_set(&f, name("new", i), 200);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        ck_assert(fixture_has(&f, name("k", i)) == (i >= fixture_counter(&f, CTR_evictions)));
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_evicted), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_cleaned), 0);
}

TEST(what_is_due_dies_before_anything_alive)
{
    msec_t due = fixture_now(&f) + 60000;
    unsigned n = fill("k", 200, due, 3);
    unsigned volatile_keys = (n + 2) / 3;
    clock_advance(&f.engine.clock, 60000);
    for (unsigned i = 0; fixture_counter(&f, CTR_evictions) == 0; i++) {
        struct shard_info info;

        fixture_set(&f, name("large", i), 1900);
        shard_info(f.shard, fixture_now(&f), &info);
        ck_assert_msg(fixture_counter(&f, CTR_evictions) == 0 || info.volatile_keys == 0,
                      "something alive was evicted while %u keys were due",
                      (unsigned)info.volatile_keys);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_reclaim), volatile_keys);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_unfetched), volatile_keys);
}

/* An eviction was interrupted when items fall due elsewhere: they die before it goes on. */
TEST(what_falls_due_amid_an_eviction_dies_before_the_rest_of_it)
{
    struct memory *m = &f.shard->memory;
    unsigned n = fill("k", 200, fixture_now(&f) + 1000, 3);
    shard_enter(f.shard);
    while (fixture_counter(&f, CTR_evictions) < 5) {
        ck_assert(cursor_slice(m, 1, fixture_now(&f)));
    }
    ck_assert_uint_ne(m->cursor.segment, 0);
    ck_assert_int_eq(m->cursor.mode, CURSOR_EVICT);
    uint64_t evicted = fixture_counter(&f, CTR_evictions);
    clock_advance(&f.engine.clock, 1000);
    while (fixture_counter(&f, CTR_curr_items) > n - n / 3) {
        ck_assert(cursor_slice(m, 512, fixture_now(&f)));
        ck_assert_msg(fixture_counter(&f, CTR_evictions) == evicted ||
                          fixture_counter(&f, CTR_expired_reclaim) >= n / 3 - evicted,
                      "something alive was evicted after %u of %u due keys",
                      (unsigned)fixture_counter(&f, CTR_expired_reclaim), n / 3);
        room_release(m);
    }
    shard_leave(f.shard);
}

TEST(age_order_survives_cleaning)
{
    unsigned gone = 0;
    unsigned early = 0;

    unsigned n = fill("k", 200, MSEC_NEVER, 1);
    for (unsigned i = 0; i < n; i += 2) {
        ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
    }
    for (unsigned i = 0; fixture_counter(&f, CTR_evictions) < 2000; i++) {
        fixture_set(&f, name("large", i), 1500);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_cleaned), 20);
    /*
     * The live items of several victims share a segment, so that a few are evicted with older
     * ones.
     */
    for (unsigned i = 1; i < n; i += 2) {
        if (!fixture_has(&f, name("k", i))) {
            gone++;
            early += i > 2 * 2000 + 1000;
        }
    }
    ck_assert_msg(early * 20 <= gone, "%u of %u evicted keys were not old", early, gone);
}

TEST(cleaning_drops_what_is_due_and_moves_the_rest_unchanged)
{
    unsigned was_due = 0;
    unsigned was_deleted = 0;
    uint64_t dropped;

    unsigned n = fill("k", 300, fixture_now(&f) + 1000, 4);
    fixture_set_until(&f, "ttl", 300, fixture_now(&f) + 99999);
    struct got before = fixture_use(&f, "ttl", 2);
    for (unsigned i = 1; i < n; i += 4) {
        ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
    }
    clock_advance(&f.engine.clock, 1000);
    shard_enter(f.shard);
    for (int i = 0; i < 30; i++) {
        if (f.shard->memory.blocks.bin_bits >> 2 == 0) {
            break; /* no segment is dead enough any more */
        }
        (void)cursor_slice(&f.shard->memory, 2000, fixture_now(&f));
        room_release(&f.shard->memory);
    }
    shard_leave(f.shard);
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_cleaned), 0);
    /*
     * No request named them: the ones that are gone were dropped by the cursor because they
     * were due.
     */
    for (unsigned i = 0; i < n; i += 4) {
        was_due++;
    }
    for (unsigned i = 1; i < n; i += 4) {
        was_deleted++;
    }
    dropped = fixture_counter(&f, CTR_expired_reclaim);
    ck_assert_uint_gt(dropped, was_due / 2);
    ck_assert_uint_le(dropped, was_due);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), n + 1 - was_deleted - dropped);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 0);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(fixture_has(&f, name("k", i)) == (i % 4 > 1));
    }
    for (unsigned i = 2; i < n; i += 4) {
        fixture_check(&f, name("k", i), 300);
    }
    fixture_check(&f, "ttl", 300);
    ck_assert_uint_eq(fixture_get(&f, "ttl").cas, before.cas);
    ck_assert_int_eq(fixture_get(&f, "ttl").deadline, before.deadline);
}

/* The cursor has begun with a segment when items of it fall due: these are not moved. */
TEST(what_falls_due_amid_a_segment_is_dropped)
{
    struct cursor *c = &f.shard->memory.cursor;
    for (unsigned i = 1, n = fill("k", 300, fixture_now(&f) + 1000, 4); i < n; i += 4) {
        ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
    }
    shard_enter(f.shard);
    while (fixture_counter(&f, CTR_cursor_moved_bytes) == 0) {
        ck_assert(cursor_slice(&f.shard->memory, 1, fixture_now(&f)));
    }
    segment_t begun = c->segment;
    ck_assert_uint_ne(begun, 0);
    clock_advance(&f.engine.clock, 1000);
    while (fixture_counter(&f, CTR_expired_reclaim) == 0 && c->segment == begun) {
        ck_assert(cursor_slice(&f.shard->memory, 1, fixture_now(&f)));
    }
    ck_assert_uint_eq(c->segment, begun);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_reclaim), 1);
    room_release(&f.shard->memory);
    shard_leave(f.shard);
}

/* One slice exceeds its work by one block at most, however much there is to do. */
TEST(a_slice_is_bounded)
{
    unsigned n = fill("k", 100, MSEC_NEVER, 1);
    ck_assert_uint_gt(n, 10000);
    for (int i = 0; i < 200; i++) {
        uint64_t before = fixture_counter(&f, CTR_evictions);

        shard_enter(f.shard);
        ck_assert(cursor_slice(&f.shard->memory, 64, fixture_now(&f)));
        room_release(&f.shard->memory);
        shard_leave(f.shard);
        ck_assert_uint_le(fixture_counter(&f, CTR_evictions) - before, 64 / 4 + 1);
        fixture_grace(&f);
    }
}

TEST(where_nothing_may_be_evicted_it_only_cleans)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_policy(CHOICE_NOEVICTION);
    fixture_start(&f, &cfg);
    shard_enter(f.shard);
    ck_assert(!cursor_slice(&f.shard->memory, 1000, fixture_now(&f)));
    shard_leave(f.shard);
    unsigned n = fill("k", 200, MSEC_NEVER, 1);
    shard_enter(f.shard);
    ck_assert(!cursor_slice(&f.shard->memory, 1000, fixture_now(&f)));
    shard_leave(f.shard);
    for (unsigned i = 0; i < n; i += 3) {
        ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
    }
    shard_enter(f.shard);
    ck_assert(cursor_slice(&f.shard->memory, 1000, fixture_now(&f)));
    while (cursor_slice(&f.shard->memory, 1000, fixture_now(&f))) {
    }
    shard_leave(f.shard);
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_cleaned), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(fixture_has(&f, name("k", i)) == (i % 3 != 0));
    }
}

/* Keeps an item that a reader uses just then, with the heat that it had before. */
static enum verdict judge_while_used(const struct evict_pass *pass, const struct item *it,
                                     uint8_t *heat)
{
    *heat = it->heat;
    rcu_begin();
    item_mark_used(it, (uint32_t)(fixture_now(&f) / 1000), &f.heat);
    rcu_end();
    return VERDICT_KEEP;
}

/* Readers write heat without the lock: that an item was fetched must not be lost. */
TEST(a_reader_that_comes_during_the_verdict_is_remembered)
{
    struct evict_policy policy = evict_density;
    const struct evict_policy *const policies[] = {&policy};

    (void)fill("k", 200, MSEC_NEVER, 1);
    policy.judge = judge_while_used;
    shard_enter(f.shard);
    f.shard->memory.evict.policies = policies;
    while (fixture_counter(&f, CTR_moves_within) == 0) {
        ck_assert(cursor_slice(&f.shard->memory, 1, fixture_now(&f)));
    }
    f.shard->memory.evict.policies = evict_policies;
    shard_leave(f.shard);
    unsigned kept = (unsigned)fixture_counter(&f, CTR_moves_within);
    for (unsigned i = 0; i < kept; i++) {
        ck_assert_uint_eq(fixture_get(&f, name("k", i)).item->heat, HEAT_FETCHED);
    }
}

/*
 * While more is due than one slice drops, what is half dead is cleaned, however little is dead
 * in all.
 */
TEST(while_items_are_due_what_is_half_dead_is_cleaned)
{
    struct memory *m = &f.shard->memory;
    for (unsigned i = 0; i < 32; i++) {
        fixture_set(&f, name("first", i), 950);
    }
    (void)fill("k", 200, fixture_now(&f) + 1000, 1);
    for (unsigned i = 0; i < 24; i++) {
        ck_assert_int_eq(fixture_delete(&f, name("first", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    clock_advance(&f.engine.clock, 1000);
    segment_t first = m->blocks.chain[CHAIN_SMALL].head;
    shard_enter(f.shard);
    ck_assert(cursor_slice(m, 100, fixture_now(&f)));
    ck_assert_uint_eq(m->cursor.segment, first);
    ck_assert_int_eq(m->cursor.mode, CURSOR_CLEAN);
    ck_assert(m->cursor.is_due_left);
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

/*
 * What is due goes first: by a policy that evicts items however pressed a store is, by one that
 * empties segments unless it is.
 */
TEST_LOOP(due_items_spread_over_all_go_before_live_ones, 2)
{
    struct engine_config cfg;
    segment_t taken[64];
    unsigned n = 0;

    fixture_config(&cfg);
    cfg.limit_bytes = 28 * MIB;
    fixture_policy(_i == 0 ? CHOICE_DENSITY : CHOICE_ALLKEYS_RANDOM);
    fixture_start(&f, &cfg);
    struct memory *m = &f.shard->memory;
    for (unsigned i = 0; fixture_avail(&f) > 16; i++) {
        fixture_set_until(&f, name("k", i), 1000,
                          i % 2 == 0 ? fixture_now(&f) + 1000 : MSEC_NEVER);
    }
    clock_advance(&f.engine.clock, 1000);
    shard_enter(f.shard);
    while (_i == 1 && arena_avail(&m->arena) > ROOM_RESERVE) {
        ck_assert_uint_lt(n, 64);
        taken[n++] = arena_take(&m->arena, SEG_WHOLE, 0);
    }
    (void)cursor_slice_beyond(m, 400, fixture_now(&f), 1000);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_reclaim), 100);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_eq(m->cursor.segment, 0);
    while (n > 0) {
        n--;
        arena_give_whole(&m->arena, taken[n], taken[n], 1);
    }
    shard_leave(f.shard);
}

/* As many segments as are asked for beyond what the shard wants for itself, and no more. */
TEST(it_makes_as_much_room_as_is_asked_for)
{
    (void)fill("k", 200, MSEC_NEVER, 1);
    struct memory *m = &f.shard->memory;
    m->blocks.put_per_grace = 0;
    shard_enter(f.shard);
    uint32_t more = arena_avail(&m->arena) + 3 - room_wanted(m);
    ck_assert(cursor_slice_beyond(m, 1000000, fixture_now(&f), more));
    ck_assert_uint_eq(arena_avail(&m->arena) + memory_waiting(m), room_wanted(m) + more);
    shard_leave(f.shard);
}

/* A policy of single items evicts no more of them than are needed. */
TEST(no_item_is_evicted_once_there_is_room)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_policy(CHOICE_ALLKEYS_RANDOM);
    fixture_start(&f, &cfg);
    (void)fill("k", 200, MSEC_NEVER, 1);
    struct memory *m = &f.shard->memory;
    m->blocks.put_per_grace = 0;
    shard_enter(f.shard);
    ck_assert(!room_is_short(m));
    ck_assert(cursor_slice(m, 1000, fixture_now(&f)));
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 1);
}

/* ---- an eviction is interrupted ---------------------------------------------------------- */

static segment_t oldest(void)
{
    return f.shard->memory.blocks.chain[CHAIN_SMALL].head;
}

/* Cleaning continues with the segment that is being emptied, and evicts nothing. */
TEST(cleaning_keeps_the_rest_of_an_eviction)
{
    int64_t work = 100000;

    (void)fill("k", 200, MSEC_NEVER, 1);
    struct memory *m = &f.shard->memory;
    segment_t n = oldest();
    shard_enter(f.shard);
    (void)cursor_slice(m, 40, fixture_now(&f));
    ck_assert_uint_eq(m->cursor.segment, n);
    uint64_t evicted = fixture_counter(&f, CTR_evictions);
    ck_assert_uint_gt(evicted, 0);
    ck_assert(cursor_clean(m, oldest(), &work, fixture_now(&f)));
    ck_assert_uint_eq(m->cursor.segment, 0);
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), evicted);
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
}

/* An eviction goes on as such, unless enough has died meanwhile. */
TEST(an_eviction_becomes_a_cleaning_when_enough_is_dead)
{
    struct memory *m = &f.shard->memory;
    unsigned keys = fill("k", 200, MSEC_NEVER, 1);
    fixture_set_until(&f, "soon", 200, fixture_now(&f) + 1000);
    fixture_set_until(&f, "later", 200, fixture_now(&f) + 2000);
    segment_t n = oldest();
    shard_enter(f.shard);
    (void)cursor_slice(m, 40, fixture_now(&f));
    ck_assert_uint_eq(m->cursor.segment, n);
    clock_advance(&f.engine.clock, 1000);
    (void)cursor_slice(m, 10, fixture_now(&f));
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_reclaim), 1);
    ck_assert_uint_eq(m->cursor.segment, n);
    ck_assert_int_eq(m->cursor.mode, CURSOR_EVICT);
    shard_leave(f.shard);
    for (unsigned i = keys / 2; i < keys; i += 2) {
        ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
    }
    clock_advance(&f.engine.clock, 1000);
    shard_enter(f.shard);
    (void)cursor_slice(m, 10, fixture_now(&f));
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_reclaim), 2);
    ck_assert_uint_eq(m->cursor.segment, n);
    ck_assert_int_eq(m->cursor.mode, CURSOR_CLEAN);
    shard_leave(f.shard);
}

/* What was kept and promoted is counted over the last megabytes. */
TEST(counts_of_what_was_kept_age)
{
    int64_t work = 1;

    (void)fill("k", 200, MSEC_NEVER, 1);
    struct cursor *c = &f.shard->memory.cursor;
    shard_enter(f.shard);
    *c =
        (struct cursor){.kept = 600000, .scanned = (1 << 20) + 1, .promoted = 70, .passed = 77};
    (void)cursor_clean(&f.shard->memory, oldest(), &work, fixture_now(&f));
    ck_assert_uint_eq(c->kept, 300000);
    ck_assert_uint_eq(c->scanned, 1 << 19);
    ck_assert_uint_eq(c->promoted, 70);
    ck_assert_uint_eq(c->passed, 77);
    cursor_let_go(&f.shard->memory);
    c->promoted = 3000000;
    c->passed = (4 << 20) + 1;
    work = 1;
    (void)cursor_clean(&f.shard->memory, oldest(), &work, fixture_now(&f));
    ck_assert_uint_eq(c->promoted, 1500000);
    ck_assert_uint_eq(c->passed, 2 << 20);
    ck_assert_uint_eq(c->kept, 300000);
    shard_leave(f.shard);
}

/* A policy that keeps items without a deadline apart does so where it cleans. */
TEST(cleaning_sorts_what_another_policy_left)
{
    int64_t work = 100000;

    (void)fill("k", 200, fixture_now(&f) + 1000000, 2);
    ck_assert_int_eq(fixture_get(&f, name("k", 1)).chain, CHAIN_SMALL);
    fixture_policy(CHOICE_VOLATILE_LRU);
    struct memory *m = &f.shard->memory;
    shard_enter(f.shard);
    ck_assert(cursor_clean(m, oldest(), &work, fixture_now(&f)));
    shard_leave(f.shard);
    ck_assert_int_eq(fixture_get(&f, name("k", 0)).chain, CHAIN_SMALL);
    ck_assert_int_eq(fixture_get(&f, name("k", 1)).chain, CHAIN_MAIN);
}
