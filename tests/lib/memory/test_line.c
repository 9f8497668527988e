/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line: waiters for whole segments of a shard get them in order, and a new one is
 * behind. The shard is empty, so there is no room but what the test gives back.
 */
#include "lib/memory/line.h"

#include "lib/memory/chains.h"
#include "lib/memory/room_make.h"
#include "lib/store/body.h"
#include "tests/lib/fixture.h"

#define WAITERS 4

static struct fixture f;
static struct memory *m;

static struct waiter waiters[WAITERS];

/* The woken waiters, in order. */
static unsigned woken[64];
static unsigned woken_count;

static void wake(struct waiter *w)
{
    ck_assert_uint_lt(woken_count, 64);
    woken[woken_count++] = (unsigned)(w - waiters);
}

/* All segments that puts may have, in the test's hands. */
static segment_t hoard[4096];
static uint32_t hoarded;

static enum outcome take(struct waiter *w, uint32_t want)
{
    segment_t n = 0;

    shard_enter(f.shard);
    enum outcome out = room_take_whole(m, w, want, fixture_now(&f), &n);
    shard_leave(f.shard);
    if (out == OUT_OK) {
        ck_assert_uint_lt(hoarded, 4096);
        hoard[hoarded++] = n;
    }
    return out;
}

static void give(uint32_t count)
{
    shard_enter(f.shard);
    while (count-- > 0) {
        segment_t n = hoard[--hoarded];

        arena_give_whole(&m->arena, n, n, 1);
    }
    line_settle(m);
    shard_leave(f.shard);
}

static bool is_called(unsigned i)
{
    return atomic_load(&waiters[i].is_called);
}

static void setup(void)
{
    fixture_start(&f, NULL);
    m = &f.shard->memory;
    memset(waiters, 0, sizeof(waiters));
    for (unsigned i = 0; i < WAITERS; i++) {
        waiters[i].wake = wake;
    }
    woken_count = 0;
    hoarded = 0;
    do {
        memory_grow(m);
        while (take(NULL, 1) == OUT_OK) {
        }
    } while (m->arena.wants_range);
    ck_assert_uint_gt(hoarded, 100);
}

static void teardown(void)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        line_leave(&waiters[i]);
    }
    give(hoarded);
    ck_assert(m->line.first == NULL);
    ck_assert_uint_eq(m->line.wanted, 0);
    ck_assert_uint_eq(m->line.promised, 0);
    fixture_stop(&f);
}

TEST_FIXTURE(setup, teardown)

TEST(segments_go_to_those_that_wait_in_their_order)
{
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_ne(take(&waiters[i], 1), OUT_OK);
        ck_assert(waiters[i].memory == m);
    }
    /* The first has to make room itself: nothing is about to come. */
    ck_assert(is_called(0) && !is_called(1) && !is_called(2));
    give(1);
    ck_assert(!is_called(1));
    ck_assert_int_eq(take(&waiters[2], 1), OUT_WAIT);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_WAIT);
    ck_assert_int_ne(take(NULL, 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[3], 1), OUT_WAIT); /* it comes new, and goes to the end */
    ck_assert_int_eq(take(&waiters[0], 1), OUT_OK);
    ck_assert(waiters[0].memory == NULL);
    give(2);
    ck_assert(is_called(1) && is_called(2) && !is_called(3));
    ck_assert_int_eq(take(&waiters[3], 1), OUT_WAIT);
    ck_assert_int_eq(take(&waiters[2], 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_OK);
    ck_assert(is_called(3));
    ck_assert_uint_eq(woken_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_eq(woken[i], i);
    }
}

TEST(with_room_for_all_nobody_waits)
{
    ck_assert_int_ne(take(&waiters[0], 1), OUT_OK);
    ck_assert_int_ne(take(&waiters[1], 1), OUT_OK);
    give(3);
    ck_assert_int_eq(take(&waiters[2], 1),
                     OUT_OK); /* the other two are left for those before */
    ck_assert(waiters[2].memory == NULL);
    ck_assert_int_eq(take(&waiters[3], 1), OUT_WAIT);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[0], 1), OUT_OK);
}

TEST(who_wants_several_is_called_when_all_are_there)
{
    ck_assert_int_ne(take(&waiters[0], 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[1], 3), OUT_WAIT);
    ck_assert_int_eq(take(&waiters[2], 1), OUT_WAIT);
    give(3);
    ck_assert(!is_called(1) && !is_called(2)); /* one is for the first */
    give(1);
    ck_assert(is_called(1) && !is_called(2));
    for (uint32_t left = 3; left > 0; left--) {
        ck_assert(waiters[1].memory == m);
        ck_assert_int_eq(take(&waiters[1], left), OUT_OK);
    }
    ck_assert(waiters[1].memory == NULL);
    ck_assert_int_eq(take(&waiters[2], 1), OUT_WAIT);
    ck_assert_int_eq(take(&waiters[0], 1), OUT_OK);
}

TEST(who_gives_up_gives_its_turn_to_the_next)
{
    ck_assert_int_ne(take(&waiters[0], 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_WAIT);
    give(1);
    ck_assert(!is_called(1));
    line_leave(&waiters[0]);
    ck_assert(!is_called(0) && is_called(1));
    ck_assert_int_eq(take(&waiters[1], 1), OUT_OK);
}

/* Instead of the hoard small items, which may be evicted. */
static void fill_with_items(void)
{
    give(hoarded);
    for (unsigned i = 0; i < 60000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    fixture_settle(&f);
    while (take(NULL, 1) == OUT_OK) {
    }
}

/* A called waiter makes room for later ones as well: they do not wait for a period each. */
TEST(one_period_is_enough_for_all_that_wait)
{
    enum outcome out = OUT_MISS;

    fill_with_items();
    for (unsigned i = 0; i < WAITERS; i++) {
        ck_assert_int_ne(take(&waiters[i], 7), OUT_OK);
    }
    for (unsigned i = 0; i < 10000 && out != OUT_WAIT; i++) {
        out = take(&waiters[0], 7);
        ck_assert_int_ne(out, OUT_OK); /* no period has ended */
    }
    ck_assert_int_eq(out, OUT_WAIT);
    ck_assert(!is_called(0));
    fixture_grace(&f);
    for (unsigned i = 0; i < WAITERS; i++) {
        ck_assert(is_called(i));
        for (uint32_t left = 7; left > 0; left--) {
            ck_assert_int_eq(take(&waiters[i], left), OUT_OK);
        }
    }
}

/* All but what is kept and one goes elsewhere, and nothing waits for a period. */
static void take_away(void)
{
    bool is_waiting = true;

    while (is_waiting) {
        fixture_grace(&f);
        shard_enter(f.shard);
        is_waiting = memory_waiting(m) != 0;
        while (arena_avail(&m->arena) > ROOM_RESERVE + 1) {
            hoard[hoarded] = arena_take(&m->arena, SEG_WHOLE, 0);
            ck_assert_uint_ne(hoard[hoarded++], 0);
        }
        shard_leave(f.shard);
    }
}

/* What was promised may be given back to the system, and an index that shrinks takes long. */
TEST(nobody_waits_for_room_that_comes_later)
{
    unsigned served = 0;

    fill_with_items();
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_ne(take(&waiters[i], 1), OUT_OK);
    }
    give(3);
    ck_assert(is_called(0) && is_called(1) && is_called(2));
    take_away();
    budget_count(&f.engine.budget, BUDGET_LEAVING, (int64_t)(64 * MIB));
    for (unsigned turns = 0; served < 3; turns++) {
        ck_assert_uint_lt(turns, 1000);
        for (unsigned i = 0; i < 3; i++) {
            served += waiters[i].memory != NULL && take(&waiters[i], 1) == OUT_OK;
        }
        fixture_grace(&f);
    }
    budget_count(&f.engine.budget, BUDGET_LEAVING, -(int64_t)(64 * MIB));
}

TEST(a_block_that_waits_has_a_segment_before_the_line)
{
    ck_assert_int_ne(take(&waiters[0], 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_WAIT);
    shard_enter(f.shard);
    line_note_blocks(m, false);
    shard_leave(f.shard);
    give(2);
    ck_assert(is_called(0) && !is_called(1));
    fixture_set(&f, "block", 100);
    give(1);
    ck_assert(is_called(1));
}

TEST(a_body_takes_its_place_with_it)
{
    size_t n;
    char *p;

    rcu_begin();
    struct body *b = body_begin(&f.engine, fixture_hash(&f, "k"), MIB);
    rcu_end();
    body_wait_in_line(b, &waiters[0], false);
    ck_assert_int_ne(body_room(b, true, &p, &n), OUT_OK);
    ck_assert(waiters[0].memory == m);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_WAIT);
    give(1);
    body_abort(&b);
    ck_assert(waiters[0].memory == NULL);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_OK);
}

static uint32_t ahead_of(unsigned i)
{
    shard_enter(f.shard);
    uint32_t n = line_ahead(m, &waiters[i]);
    shard_leave(f.shard);
    return n;
}

/* A waiter is not ahead of itself; called ones precede all that were not called. */
TEST(others_are_ahead)
{
    ck_assert_uint_eq(ahead_of(0), 0);
    ck_assert_int_ne(take(&waiters[0], 3), OUT_OK);
    ck_assert(is_called(0));
    ck_assert_int_eq(take(&waiters[1], 2), OUT_WAIT);
    ck_assert_uint_eq(ahead_of(0), 0);
    ck_assert_uint_eq(ahead_of(1), 3);
    ck_assert_uint_eq(ahead_of(2), 5);
    give(5);
    ck_assert(is_called(1));
    ck_assert_uint_eq(ahead_of(0), 2);
    ck_assert_uint_eq(ahead_of(1), 3);
    for (uint32_t left = 2; left > 0; left--) {
        ck_assert_int_eq(take(&waiters[1], left), OUT_OK);
    }
    ck_assert_uint_eq(ahead_of(0), 0);
}

/* A body may have given back what it had: then it wants more than before. */
TEST(who_comes_again_may_want_more)
{
    ck_assert_int_ne(take(&waiters[0], 1), OUT_OK);
    ck_assert_int_eq(take(&waiters[1], 1), OUT_WAIT);
    ck_assert_int_eq(take(&waiters[1], 4), OUT_WAIT);
    ck_assert_uint_eq(m->line.wanted, 5);
    give(1);
    ck_assert_int_eq(take(&waiters[0], 2), OUT_OK); /* one of two */
    ck_assert_uint_eq(m->line.wanted, 5);
    ck_assert(waiters[0].memory == m);
}

/* Whole segments count in what is put, by which room is foreseen. */
TEST(a_segment_that_is_taken_was_put)
{
    uint64_t before = m->blocks.put_bytes;

    ck_assert_int_ne(take(&waiters[0], 1), OUT_OK);
    ck_assert_uint_eq(m->blocks.put_bytes, before);
    give(1);
    ck_assert_int_eq(take(&waiters[0], 1), OUT_OK);
    ck_assert_uint_eq(m->blocks.put_bytes, before + segment_bytes(&m->arena));
}

/* While blocks wait one segment is left for them, until they have room. */
TEST(the_last_segment_is_left_for_blocks)
{
    shard_enter(f.shard);
    line_note_blocks(m, false);
    shard_leave(f.shard);
    give(1);
    ck_assert_int_ne(take(NULL, 1), OUT_OK);
    give(1);
    ck_assert_int_eq(take(NULL, 1), OUT_OK);
    ck_assert_int_ne(take(NULL, 1), OUT_OK);
    shard_enter(f.shard);
    line_note_blocks(m, true);
    shard_leave(f.shard);
    ck_assert_int_eq(take(NULL, 1), OUT_OK);
}
