/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stock: puts find resident segments while a memory grows, whichever thread makes them so,
 * and that these are paid for, few, and none where room is short.
 */
#include "lib/memory/stock.h"

#include <sys/mman.h>

#include "lib/memory/room.h"
#include "tests/lib/fixture.h"

#define BYTES 1000u

/* Segments of a memory that is not known to grow yet. */
#define FIRST 9u

static struct fixture f;

static struct arena *arena(void)
{
    return &f.shard->memory.arena;
}

static void start(uint64_t limit)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.limit_bytes = limit;
    cfg.items_hint = 100000; /* so that the index does not grow */
    fixture_start(&f, &cfg);
}

static bool is_resident(segment_t s)
{
    static unsigned char pages[256];
    size_t n = segment_bytes(arena()) / (size_t)sysconf(_SC_PAGESIZE);

    ck_assert_uint_le(n, sizeof(pages));
    ck_assert_int_eq(mincore(segment_ptr(arena(), s), segment_bytes(arena()), pages), 0);
    for (size_t i = 0; i < n; i++) {
        if ((pages[i] & 1) == 0) {
            return false;
        }
    }
    return true;
}

/* All free segments are resident and paid for, and no more than what is kept free anyway. */
static void check_stock(void)
{
    uint32_t count = 0;

    shard_enter(f.shard);
    for (segment_t s = arena()->free; s != 0; s = arena()->segments[s].next) {
        ck_assert(is_resident(s));
        ck_assert(!arena()->segments[s].is_cold);
        count++;
    }
    ck_assert_uint_eq(count, arena()->free_count);
    ck_assert_uint_le(count, room_wanted(&f.shard->memory));
    shard_leave(f.shard);
    ck_assert_int_le(fixture_used(&f), (int64_t)f.engine.config.limit_bytes);
}

/* Fill this number of segments with new items; the reclaimer runs after each. */
static void fill(unsigned segments, bool has_reclaimer)
{
    static unsigned next;
    uint32_t until = arena()->held + segments;

    while (arena()->held < until) {
        uint32_t held = arena()->held;

        fixture_set(&f, fixture_key("k", next++), BYTES);
        if (has_reclaimer && arena()->held != held) {
            fixture_grace(&f);
            check_stock();
        }
    }
}

/* The same until one of them is free. */
static void fill_free(void)
{
    for (unsigned i = 0; arena()->free_count > 1; i++) {
        fixture_set(&f, fixture_key("f", i), BYTES);
    }
}

static uint64_t late(void)
{
    return fixture_counter(&f, CTR_segments_late);
}

/* Small pages, and huge ones. */
static const uint64_t limits[] = {8 * MIB, 64 * MIB, 256 * MIB};

TEST_LOOP(the_reclaimer_makes_segments_resident, 3)
{
    start(limits[_i]);
    fill(60, true);
    ck_assert_uint_eq(late(), FIRST);
    ck_assert_uint_gt(arena()->free_count, 0);
}

/* Also the first ones, and the first use of none is late. */
TEST_LOOP(a_move_fills_a_new_shard, 3)
{
    start(limits[_i]);
    shard_enter(f.shard);
    uint32_t kept = room_wanted(&f.shard->memory);
    shard_leave(f.shard);
    for (unsigned i = 0; i < 10; i++) {
        stock_fill(&f.shard->memory);
        check_stock();
        ck_assert_uint_le(arena()->free_count, kept);
        ck_assert_uint_gt(arena()->free_count, 1);
        fill_free();
    }
    ck_assert_uint_eq(late(), 0);
}

TEST_LOOP(a_put_does_it_if_the_reclaimer_does_not_come, 3)
{
    start(limits[_i]);
    fill(60, false);
    ck_assert_uint_eq(late(), FIRST);
}

TEST(what_was_given_back_is_made_resident_again)
{
    start(8 * MIB);
    fill(60, true);
    fixture_flush(&f, 0);
    fixture_settle(&f);
    while (room_give_back(&f.shard->memory, 8) != 0) {
    }
    ck_assert_uint_ne(arena()->cold, 0);
    uint64_t before = late();
    fill(50, true);
    /* The first finds nothing. What is held is new again. */
    ck_assert_uint_le(late() - before, FIRST);
}

TEST(a_small_memory_has_no_stock)
{
    start(8 * MIB);
    fixture_set(&f, "k", BYTES);
    fixture_grace(&f);
    ck_assert_uint_eq(arena()->held, 1);
    ck_assert_uint_eq(arena()->free_count, 0);
}

TEST(flushes_one_after_the_other_make_no_stock)
{
    start(8 * MIB);
    for (unsigned i = 0; i < 50; i++) {
        fixture_set(&f, "k", BYTES);
        ck_assert(!arena()->wants_stock);
        fixture_flush(&f, 0);
    }
    ck_assert_uint_ge(arena()->held, FIRST);
}

TEST(none_are_made_resident_where_room_is_short)
{
    unsigned seen = 0;

    start(2 * MIB);
    for (unsigned i = 0; fixture_counter(&f, CTR_evictions) == 0; i++) {
        uint32_t held;

        fixture_set(&f, fixture_key("k", i), BYTES);
        shard_enter(f.shard);
        held = arena()->held;
        bool is_short = arena_allowed(arena()) <= (int64_t)room_wanted(&f.shard->memory);
        shard_leave(f.shard);
        fixture_grace(&f);
        if (is_short) {
            ck_assert_uint_eq(arena()->held, held);
            seen++;
        }
        check_stock();
    }
    ck_assert_uint_gt(seen, 0);
}
