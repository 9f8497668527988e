/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena: segments alone, with grace numbers that the test counts itself: taking and paying,
 * runs that wait and are released as one, pins, giving segments back to the system and taking
 * them again.
 */
#include "lib/memory/arena.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/common/unit.h"

#define KIB   1024u
#define MIB   (1024u * KIB)
#define LIMIT (16 * MIB)

static struct budget budget;
static struct grace grace;
static struct arena a;

/* What is asked of the system about the range, by kind of advice. */
static unsigned discards, small_pages;

int madvise(void *p, size_t n, int advice)
{
    if (a.base != NULL && (char *)p >= a.base && (char *)p < a.base + a.map_bytes) {
        discards += advice == MADV_DONTNEED;
        small_pages += advice == MADV_NOHUGEPAGE;
    }
    return (int)syscall(SYS_madvise, p, n, advice);
}

static void stop(void)
{
    arena_fini(&a);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 0);
}

static void start(uint64_t limit, uint64_t share)
{
    const struct arena_shape shape = arena_shape_for(share, NULL, true);

    memset(&budget, 0, sizeof(budget));
    budget_set_limit(&budget, (int64_t)limit);
    grace_init(&grace);
    ck_assert(arena_init(&a, arena_range_for(limit), &shape, NULL, &budget, &grace, NULL));
    unit_at_end(stop);
}

/* Let the range grow if it wants to, as memory_grow() does. */
static void grow(bool is_granted)
{
    uint32_t from = arena_range_begin(&a);

    if (from != 0) {
        arena_range_end(&a, from, is_granted && arena_range_commit(&a, from));
    }
}

/* Take a segment; the range grows when it has to. */
static segment_t take(enum segment_state state, int64_t overdraw)
{
    segment_t n = arena_take(&a, state, overdraw);

    grow(true);
    return n;
}

static void end_grace(void)
{
    uint32_t number = atomic_load(&grace.begun) + 1;

    atomic_store(&grace.begun, number);
    atomic_store(&grace.completed, number);
}

/* A list of `count` whole segments. */
static segment_t take_list(uint32_t count, segment_t *last)
{
    segment_t first = 0;

    for (uint32_t i = 0; i < count; i++) {
        segment_t n = take(SEG_WHOLE, 0);

        ck_assert_uint_ne(n, 0);
        if (first == 0) {
            first = n;
        } else {
            a.segments[*last].next = n;
        }
        *last = n;
    }
    return first;
}

static void check_held(void)
{
    ck_assert_int_eq(atomic_load(&budget.used_bytes), (int64_t)a.held << a.shift);
}

static const struct {
    uint64_t share;
    uint32_t bytes;
} shares[] = {{1 * MIB, 32 * KIB},        {16 * MIB - 1, 32 * KIB}, {16 * MIB, 64 * KIB},
              {128u * MIB - 1, 64 * KIB}, {128u * MIB, 256 * KIB},  {1024u * MIB, 256 * KIB}};

TEST_LOOP(segments_suit_the_share, sizeof(shares) / sizeof(shares[0]))
{
    start(shares[_i].share, shares[_i].share);
    ck_assert_uint_eq(segment_bytes(&a), shares[_i].bytes);
    ck_assert_uint_ge(a.map_bytes, shares[_i].share);
    for (segment_t n = 1; n < 5; n++) {
        handle_t h = segment_handle(&a, n);

        ck_assert_ptr_eq(segment_ptr(&a, n), (char *)arena_item(&a, h));
        ck_assert_uint_eq(segment_of(&a, h), n);
        ck_assert_uint_eq(segment_of(&a, h + shares[_i].bytes / ITEM_UNIT - 1), n);
        ck_assert_uint_eq(segment_of(&a, h + shares[_i].bytes / ITEM_UNIT), n + 1);
    }
}

TEST(the_limit_is_kept_and_overdrawn_only_as_told)
{
    uint32_t count = LIMIT / (64 * KIB);

    start(LIMIT, LIMIT);
    ck_assert_uint_eq(arena_avail(&a), count);
    for (uint32_t i = 0; i < count; i++) {
        segment_t n = take(SEG_OPEN, 0);

        ck_assert_uint_ne(n, 0);
        ck_assert_uint_eq(a.segments[n].state, SEG_OPEN);
        check_held();
    }
    ck_assert_uint_eq(arena_avail(&a), 0);
    ck_assert_uint_eq(take(SEG_OPEN, 0), 0);
    ck_assert_uint_eq(take(SEG_OPEN, 64 * KIB - 1), 0);
    ck_assert_uint_ne(take(SEG_OPEN, 64 * KIB), 0);
    ck_assert_uint_eq(take(SEG_OPEN, 64 * KIB), 0);
    ck_assert_int_lt(budget_left(&budget), 0);
    ck_assert_uint_eq(arena_avail(&a), 0);
}

/* ---- the range --------------------------------------------------------------------------- */

TEST(the_range_grows_before_it_is_needed)
{
    start(LIMIT, LIMIT);
    ck_assert_uint_eq(arena_range_begin(&a), 0);
    for (uint32_t i = 0; i < LIMIT / (64 * KIB); i++) {
        segment_t n = arena_take(&a, SEG_OPEN, 0);

        ck_assert_uint_ne(n, 0);
        memset(segment_ptr(&a, n), 1, segment_bytes(&a));
        ck_assert(!arena_needs_range(&a));
        grow(true);
    }
    ck_assert_uint_gt(a.committed, a.step_segments);
}

TEST(nothing_is_taken_from_a_step_that_is_not_committed)
{
    uint32_t taken = 0;

    start(LIMIT, LIMIT);
    while (arena_take(&a, SEG_OPEN, 0) != 0) {
        taken++;
    }
    ck_assert_uint_eq(taken, a.step_segments - 1);
    /* There is room nevertheless: in the range, and in the budget. */
    ck_assert(arena_needs_range(&a));
    ck_assert_uint_eq(arena_avail(&a), LIMIT / (64 * KIB) - taken);
    grow(true);
    ck_assert(!arena_needs_range(&a));
    ck_assert_uint_ne(arena_take(&a, SEG_OPEN, 0), 0);
}

TEST(where_the_system_refuses_the_range_ends)
{
    start(LIMIT, LIMIT);
    while (arena_take(&a, SEG_OPEN, 0) != 0) {
    }
    grow(false);
    ck_assert(!arena_needs_range(&a));
    ck_assert_uint_eq(arena_unheld(&a), 0);
    ck_assert_uint_eq(arena_avail(&a), 0);
    ck_assert_uint_eq(arena_take(&a, SEG_OPEN, 0), 0);
    ck_assert_uint_eq(arena_range_begin(&a), 0);
    arena_range_retry(&a);
    ck_assert_uint_eq(arena_take(&a, SEG_OPEN, 0), 0);
    grow(true);
    ck_assert_uint_ne(arena_take(&a, SEG_OPEN, 0), 0);
}

/* Two threads ask for the same step, and the system has memory for the second one. */
TEST(a_range_that_grows_is_not_cut)
{
    start(LIMIT, LIMIT);
    while (arena_take(&a, SEG_OPEN, 0) != 0) {
    }
    uint32_t from = arena_range_begin(&a);
    ck_assert_uint_ne(from, 0);
    arena_range_end(&a, from, false);
    arena_range_end(&a, from, arena_range_commit(&a, from));
    ck_assert(!arena_range_is_cut(&a));
    ck_assert_uint_ne(arena_take(&a, SEG_OPEN, 0), 0);
    ck_assert_uint_lt(arena_unheld(&a), a.map_bytes >> a.shift);
}

TEST(a_range_without_steps_is_committed_at_the_start)
{
    const struct arena_shape shape = arena_shape_for(LIMIT, NULL, false);
    segment_t n;
    uint32_t taken = 0;

    memset(&budget, 0, sizeof(budget));
    budget_set_limit(&budget, (int64_t)(2 * LIMIT));
    grace_init(&grace);
    ck_assert(arena_init(&a, LIMIT + 1, &shape, NULL, &budget, &grace, NULL));
    ck_assert_uint_eq(a.map_bytes, LIMIT);
    while ((n = arena_take(&a, SEG_OPEN, 0)) != 0) {
        memset(segment_ptr(&a, n), 1, segment_bytes(&a));
        ck_assert_uint_eq(arena_range_begin(&a), 0);
        taken++;
    }
    ck_assert_uint_eq(taken, LIMIT / (64 * KIB) - 1);
    ck_assert(!arena_needs_range(&a));
    ck_assert_uint_eq(arena_unheld(&a), 0);
    stop();
    ck_assert(!arena_init(&a, 100, &shape, NULL, &budget, &grace, NULL));
}

/* A range that is shorter than the limit. */
TEST(room_knows_where_the_range_ends)
{
    const struct arena_shape shape = arena_shape_for(LIMIT, NULL, true);
    uint32_t taken = 0;

    memset(&budget, 0, sizeof(budget));
    budget_set_limit(&budget, (int64_t)(4 * LIMIT));
    grace_init(&grace);
    ck_assert(arena_init(&a, LIMIT, &shape, NULL, &budget, &grace, NULL));
    ck_assert_uint_eq(arena_avail(&a), LIMIT / (64 * KIB) - 1);
    while (take(SEG_OPEN, 0) != 0) {
        taken++;
    }
    ck_assert_uint_eq(taken, LIMIT / (64 * KIB) - 1);
    ck_assert_uint_eq(arena_avail(&a), 0);
    ck_assert_int_gt(budget_left(&budget), 0);
}

TEST(ranges_suit_the_limit)
{
    ck_assert_uint_eq(arena_range_for(1 * MIB), 4096ull * MIB);
    ck_assert_uint_eq(arena_range_for(1024ull * MIB), 8192ull * MIB);
    ck_assert_uint_eq(arena_range_for(4096ull * MIB), 32768ull * MIB);
    ck_assert_uint_eq(arena_range_for(UINT64_MAX), 32768ull * MIB);
    ck_assert_uint_eq(ARENA_RANGE_MAX, 32768ull * MIB);
}

/* ---- runs -------------------------------------------------------------------------------- */

TEST(what_nobody_saw_is_free_at_once)
{
    segment_t last = 0;

    start(LIMIT, LIMIT);
    segment_t first = take_list(5, &last);
    ck_assert_uint_eq(a.whole, 5);
    arena_give_whole(&a, first, last, 5);
    ck_assert_uint_eq(a.whole, 0);
    ck_assert_uint_eq(a.free_count, 5);
    ck_assert_uint_eq(a.held, 5);
    ck_assert_uint_eq(take_list(5, &last), first);
    ck_assert_uint_eq(a.held, 5);
    check_held();
}

TEST(a_run_waits_for_its_grace_period)
{
    struct run_released r = {0};
    segment_t last = 0;
    uint32_t generation;

    start(LIMIT, LIMIT);
    segment_t first = take_list(100, &last);
    generation = a.segments[first].generation;
    arena_link_value(&a, first, last, 100);
    ck_assert_uint_eq(a.values.segments, 100);
    arena_retire_value(&a, first, RUN_DIRECT);
    ck_assert_uint_eq(a.values.segments, 0);
    ck_assert_uint_eq(arena_waiting(&a), 100);
    ck_assert(!arena_release(&a, RUN_DIRECT, 10, &r));
    ck_assert_uint_eq(a.free_count, 0);

    /* A period that began before the unlink does not count. */
    atomic_store(&grace.completed, atomic_load(&grace.begun));
    ck_assert(!arena_release(&a, RUN_DIRECT, 10, &r));
    ck_assert_uint_eq(a.free_count, 0);
    end_grace();
    ck_assert(!arena_release(&a, RUN_LAZY, 10, &r)); /* it is not in this queue */
    ck_assert_uint_eq(a.free_count, 0);
    ck_assert(!arena_release(&a, RUN_DIRECT, 10, &r));
    ck_assert_uint_eq(a.free_count, 100);
    ck_assert_uint_eq(arena_waiting(&a), 0);
    ck_assert_uint_eq(r.lazy_runs, 0);
    ck_assert_uint_eq(r.pinned_segments, 0);
    first = take(SEG_OPEN, 0);
    ck_assert_uint_gt(a.segments[first].generation, generation);
    check_held();
}

TEST(release_is_bounded_and_in_order)
{
    struct run_released r = {0};
    segment_t run[4];
    segment_t last = 0;

    start(LIMIT, LIMIT);
    for (int i = 0; i < 4; i++) {
        run[i] = take_list(2, &last);
        arena_link_value(&a, run[i], last, 2);
    }
    /* First from the middle, then from both ends. */
    arena_retire_value(&a, run[1], RUN_LAZY);
    arena_retire_value(&a, run[0], RUN_LAZY);
    end_grace();
    arena_retire_value(&a, run[3], RUN_LAZY);
    arena_retire_value(&a, run[2], RUN_LAZY);
    ck_assert_uint_eq(a.values.head, 0);
    ck_assert_uint_eq(a.values.tail, 0);
    ck_assert(arena_release(&a, RUN_LAZY, 1, &r)); /* one more grace period is over */
    ck_assert_uint_eq(r.lazy_runs, 1);
    ck_assert(!arena_release(&a, RUN_LAZY, 10, &r)); /* two are not */
    ck_assert_uint_eq(r.lazy_runs, 2);
    ck_assert_uint_eq(r.lazy_segments, 4);
    ck_assert_uint_eq(a.lazy.segments, 4);
    end_grace();
    ck_assert(!arena_release(&a, RUN_LAZY, 10, &r));
    ck_assert_uint_eq(r.lazy_segments, 8);
    ck_assert_uint_eq(a.free_count, 8);
}

/*
 * A flush gives all values the stamp of the first; values retired before and after it have
 * their own.
 */
TEST(a_flush_retires_all_values_in_one_step)
{
    struct run_released r = {0};
    segment_t last = 0;

    start(LIMIT, LIMIT);
    segment_t first = take_list(3, &last);
    arena_link_value(&a, first, last, 3);
    for (uint32_t i = 0; i < 20; i++) {
        segment_t n = take_list(2, &last);

        arena_link_value(&a, n, last, 2);
    }
    arena_retire_value(&a, first, RUN_LAZY);
    end_grace();
    arena_retire_values(&a, RUN_LAZY);
    arena_retire_values(&a, RUN_LAZY); /* there is nothing: nothing happens */
    ck_assert_uint_eq(a.whole, 0);
    ck_assert_uint_eq(a.lazy.segments, 43);
    first = take_list(1, &last);
    arena_link_value(&a, first, last, 1);
    ck_assert(!arena_release(&a, RUN_LAZY, 100, &r));
    ck_assert_uint_eq(a.free_count, 3);
    end_grace();
    arena_retire_value(&a, first, RUN_LAZY);
    ck_assert(arena_release(&a, RUN_LAZY, 7, &r));
    ck_assert(!arena_release(&a, RUN_LAZY, 100, &r));
    ck_assert_uint_eq(a.free_count, 43);
    ck_assert_uint_eq(r.lazy_runs, 21);
    ck_assert_uint_eq(a.lazy.segments, 1);
    end_grace();
    ck_assert(!arena_release(&a, RUN_LAZY, 100, &r));
    ck_assert_uint_eq(a.free_count, 44);
    check_held();
}

TEST(a_pinned_run_waits_for_its_reader)
{
    struct run_released r = {0};
    segment_t last = 0;

    start(LIMIT, LIMIT);
    segment_t pinned = take_list(4, &last);
    arena_link_value(&a, pinned, last, 4);
    segment_t other = take_list(2, &last);
    arena_link_value(&a, other, last, 2);
    atomic_fetch_add(&a.segments[pinned].pins, 2);
    arena_retire_value(&a, pinned, RUN_DIRECT);
    arena_retire_value(&a, other, RUN_DIRECT);
    ck_assert_uint_eq(atomic_load(&a.segments[pinned].pins), PIN_DEAD | 2);
    end_grace();
    ck_assert(!arena_release(&a, RUN_DIRECT, 10, &r));
    ck_assert_uint_eq(r.pinned_segments, 4);
    ck_assert_uint_eq(a.free_count, 2);
    ck_assert_uint_eq(a.pinned.segments, 4);
    ck_assert_uint_eq(arena_waiting(&a), 0);
    arena_release_pinned(&a, 10, &r);
    atomic_fetch_sub(&a.segments[pinned].pins, 1);
    arena_release_pinned(&a, 10, &r);
    ck_assert_uint_eq(r.unpinned_segments, 0);
    atomic_fetch_sub(&a.segments[pinned].pins, 1);
    arena_release_pinned(&a, 10, &r);
    ck_assert_uint_eq(r.unpinned_segments, 4);
    ck_assert_uint_eq(a.free_count, 6);
    ck_assert_uint_eq(a.pinned.segments, 0);
    check_held();
}

/* A unit of which a part was given back gets no huge page until all of it is held again. */
TEST(units_with_holes_have_small_pages)
{
    segment_t last = 0;
    segment_t list = 0;

    start(1024 * MIB, 1024 * MIB);
    ck_assert_uint_eq(a.unit_segments, 8);
    segment_t first = take_list(40, &last);
    ck_assert_uint_eq(arena_unit_whole(&a), 0);
    arena_give_whole(&a, first, last, 40);
    uint32_t n = arena_trim_take(&a, 3, &list);
    ck_assert_uint_eq(arena_unit_whole(&a), 0);
    arena_trim_discard(&a, list);
    arena_trim_done(&a, list, n);
    ck_assert_uint_ge(a.small_units, 1);
    n = a.small_units;
    ck_assert_uint_eq(arena_unit_whole(&a), 0);
    while (a.free != 0 || a.cold != 0) {
        (void)take(SEG_WHOLE, 0);
    }
    while (n-- > 0) {
        segment_t in = arena_unit_whole(&a);

        ck_assert_uint_ne(in, 0);
        ck_assert(!a.segments[in / 8 * 8].is_small);
        arena_unit_use_huge(&a, in);
    }
    ck_assert_uint_eq(a.small_units, 0);
    ck_assert_uint_eq(arena_unit_whole(&a), 0);
}

/* The system is asked once for a run of neighbours, and once for a unit. */
TEST(giving_back_takes_few_system_calls)
{
    segment_t last = 0;
    segment_t list = 0;
    segment_t first;

    start(1024 * MIB, 1024 * MIB);
    first = take_list(39, &last); /* the first 40 segments are five units */
    arena_give_whole(&a, first, last, 39);
    discards = 0;
    small_pages = 0;
    for (int i = 0; i < 13; i++) {
        ck_assert_uint_eq(arena_trim_take(&a, 3, &list), 3);
        arena_trim_discard(&a, list);
        arena_trim_done(&a, list, 3);
    }
    ck_assert_uint_eq(small_pages, 5);
    ck_assert_uint_eq(discards, 13);
}

static size_t resident_bytes(segment_t first, uint32_t count)
{
    static unsigned char pages[1024];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = (size_t)count * segment_bytes(&a);
    size_t resident = 0;

    ck_assert_uint_le(n / page, sizeof(pages));
    ck_assert_int_eq(mincore(segment_ptr(&a, first), n, pages), 0);
    for (size_t i = 0; i < n / page; i++) {
        resident += (pages[i] & 1) * page;
    }
    return resident;
}

/* A huge page makes more resident than is held. When memory shrinks, that goes as well. */
TEST(trimming_gives_the_unused_part_of_a_unit_back)
{
    segment_t last = 0;
    segment_t list = 0;

    start(256u * MIB, 256u * MIB);
    segment_t first = take_list(3, &last);
    memset(segment_ptr(&a, first), 1, 3 * segment_bytes(&a));
    uint32_t n = a.segments[first].next;
    arena_give_whole(&a, first, first, 1);
    first = n;
    n = arena_trim_take(&a, 8, &list);
    /* Of the first unit number 0 is never used, and 4 to 7 were not. */
    ck_assert_uint_eq(n, 1 + 4);
    ck_assert_uint_eq(a.fresh, 8);
    check_held();
    arena_trim_discard(&a, list);
    arena_trim_done(&a, list, n);
    ck_assert_uint_eq(a.held, 2);
    check_held();
    ck_assert_uint_eq(resident_bytes(1, 7), 2 * segment_bytes(&a));
    /* They are used again, and no others before them. */
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_lt(take(SEG_OPEN, 0), 8);
    }
    ck_assert_uint_eq(take(SEG_OPEN, 0), 8);
}

TEST(trimming_pays_back_and_cold_ones_read_as_zero)
{
    segment_t last = 0;
    segment_t list = 0;

    start(LIMIT, LIMIT);
    segment_t first = take_list(10, &last);
    memset(segment_ptr(&a, first), 0xa5, segment_bytes(&a));
    arena_give_whole(&a, first, last, 10);
    uint32_t n = arena_trim_take(&a, 4, &list);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(a.trimming, 4);
    ck_assert_uint_eq(a.free_count, 6);
    ck_assert_uint_eq(a.held, 10);
    arena_trim_discard(&a, list);
    check_held(); /* paid for until that is done */
    arena_trim_done(&a, list, n);
    ck_assert_uint_eq(a.held, 6);
    ck_assert_uint_eq(a.trimming, 0);
    check_held();
    ck_assert_uint_eq(arena_trim_take(&a, 100, &list), 6);
    arena_trim_discard(&a, list);
    arena_trim_done(&a, list, 6);
    ck_assert_uint_eq(a.held, 0);
    ck_assert_uint_eq(arena_trim_take(&a, 100, &list), 0);
    ck_assert_uint_eq(list, 0);
    /* Cold segments are taken before fresh ones. */
    for (int i = 0; i < 10; i++) {
        segment_t s = take(SEG_WHOLE, 0);

        ck_assert_uint_le(s, 10);
        ck_assert_int_eq(segment_ptr(&a, s)[100], 0);
    }
    ck_assert_uint_eq(take(SEG_WHOLE, 0), 11);
    check_held();
}

TEST(one_that_holds_nothing_begins_again)
{
    segment_t last = 0;
    segment_t list = 0;
    uint32_t committed;

    start(LIMIT, LIMIT);
    segment_t first = take_list(10, &last);
    memset(segment_ptr(&a, first), 0xa5, segment_bytes(&a));
    ck_assert(!arena_reset(&a));
    arena_give_whole(&a, first, last, 10);
    ck_assert(!arena_reset(&a));
    uint32_t n = arena_trim_take(&a, 100, &list);
    arena_trim_discard(&a, list);
    ck_assert(!arena_reset(&a));
    arena_trim_done(&a, list, n);
    committed = a.committed;
    ck_assert(arena_reset(&a));
    ck_assert_uint_eq(a.committed, committed);
    ck_assert_uint_eq(a.fresh, 1);
    ck_assert_uint_eq(a.cold, 0);
    ck_assert_uint_eq(a.small_units, 0);
    check_held();
    for (uint32_t i = 1; i <= 10; i++) {
        segment_t s = take(SEG_WHOLE, 0);

        ck_assert_uint_eq(s, i);
        ck_assert_uint_eq(a.segments[s].generation, 1);
        ck_assert_int_eq(segment_ptr(&a, s)[100], 0);
    }
    check_held();
}
