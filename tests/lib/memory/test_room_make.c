/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room_make: how long a store that finds no room goes on to make some is what eviction_tenacity
 * says. room: how much is kept free.
 */
#include "lib/memory/room_make.h"

#include "lib/memory/room.h"
#include "tests/lib/fixture.h"

#define LEN 500

FIXTURE_OF_EACH_TEST(f)

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

/* ---- grace periods that are put off ------------------------------------------------------ */

/* Nobody is hurried before the section ends; then a period ends, and what it frees is free. */
TEST(a_hurry_is_put_off_to_the_end_of_the_section)
{
    uint32_t completed;

    struct arena *a = &f.shard->memory.arena;
    room_defer();
    for (unsigned i = 0; i < 40000 && room_deferral.owed == NULL; i++) {
        fixture_set(&f, fixture_key("k", i), LEN);
    }
    ck_assert_ptr_eq(room_deferral.owed, &f.shard->memory);
    ck_assert(!grace_is_asked(a->grace, GRACE_HURRY));
    completed = atomic_load(&a->grace->completed);
    shard_enter(f.shard);
    uint32_t waiting = arena_waiting(a);
    shard_leave(f.shard);
    ck_assert_uint_gt(waiting, 0);
    ck_assert(room_settle());
    ck_assert_ptr_null(room_deferral.owed);
    ck_assert_uint_ne(atomic_load(&a->grace->completed), completed);
    shard_enter(f.shard);
    ck_assert_uint_eq(arena_waiting(a), waiting > 16 ? waiting - 16 : 0);
    shard_leave(f.shard);
    ck_assert(!room_settle());
}

/* ---- large values ------------------------------------------------------------------------ */

static segment_t taken[1024];
static unsigned taken_count;

/* Take segments for a large value until there are none. */
static void take_all(void)
{
    enum outcome out = OUT_OK;

    for (unsigned misses = 0; out == OUT_OK || (out == OUT_MISS && misses < 100);) {
        segment_t n;

        memory_grow(&f.shard->memory);
        shard_enter(f.shard);
        out = room_take_whole(&f.shard->memory, NULL, 1, fixture_now(&f), &n);
        shard_leave(f.shard);
        misses += out == OUT_MISS;
        if (out == OUT_OK) {
            ck_assert_uint_lt(taken_count, 1024);
            taken[taken_count++] = n;
        }
    }
}

/* Segments that wait for a grace period are lent to large values: a sixteenth of the limit. */
TEST(large_values_overdraw_while_segments_wait)
{
    const int64_t limit = 8 * (int64_t)MIB;

    struct arena *a = &f.shard->memory.arena;
    taken_count = 0;
    take_all();
    ck_assert_uint_gt(taken_count, 100);
    ck_assert_int_le(fixture_used(&f), limit);
    shard_enter(f.shard);
    for (unsigned i = 0; i < 5; i++) {
        segment_t n = taken[--taken_count];

        arena_link_value(a, n, n, 1);
        arena_retire_value(a, n, RUN_DIRECT);
    }
    shard_leave(f.shard);
    take_all();
    int64_t kept = (ROOM_RESERVE + 1) * (int64_t)segment_bytes(a);
    ck_assert_int_gt(fixture_used(&f), limit + limit / 16 - kept);
    ck_assert_int_le(fixture_used(&f), limit + limit / 16);
    shard_enter(f.shard);
    while (taken_count > 0) {
        taken_count--;
        arena_give_whole(a, taken[taken_count], taken[taken_count], 1);
    }
    shard_leave(f.shard);
}

/* ---- how much is kept free --------------------------------------------------------------- */

static uint32_t wanted(void)
{
    shard_enter(f.shard);
    uint32_t n = room_wanted(&f.shard->memory);
    shard_leave(f.shard);
    return n;
}

/* Segments that the budget is overdrawn by. */
static void overdraw(int64_t segments)
{
    struct budget *b = f.shard->memory.arena.budget;
    int64_t bytes = segments << f.shard->memory.arena.shift;

    budget_add(b, budget_left_soon(b) + bytes);
}

TEST(room_is_kept_for_what_comes_and_who_waits)
{
    uint32_t shift;

    struct memory *m = &f.shard->memory;
    shift = m->arena.shift;
    m->blocks.put_per_grace = 0;
    uint32_t least = wanted();
    m->line.wanted = 3;
    ck_assert_uint_eq(wanted(), least + 3);
    m->line.wanted = LINE_MOST + 1;
    ck_assert_uint_eq(wanted(), least + LINE_MOST);
    m->line.wanted = 0;
    /* Up to a part of the limit. */
    m->blocks.put_per_grace = 1 << shift;
    ck_assert_uint_eq(wanted(), least + 1);
    m->blocks.put_per_grace = 1000u << shift;
    ck_assert_uint_eq(wanted(), least + (8 * MIB / 256 >> shift));
    m->blocks.put_per_grace = 0;
}

/* An overdraft is paid back, but not by a shard that holds next to nothing. */
TEST(an_overdraft_is_wanted_back)
{
    struct budget *b = f.shard->memory.arena.budget;
    int64_t used = atomic_load(&b->used_bytes);
    uint32_t least = wanted();
    overdraw(3);
    ck_assert_uint_eq(wanted(), least);
    budget_add(b, used - atomic_load(&b->used_bytes));
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set(&f, fixture_key("k", i), LEN);
    }
    f.shard->memory.blocks.put_per_grace = 0;
    least = wanted();
    used = atomic_load(&b->used_bytes);
    overdraw(0);
    ck_assert_uint_eq(wanted(), least);
    overdraw(3);
    ck_assert_uint_eq(wanted(), least + 4);
    budget_add(b, used - atomic_load(&b->used_bytes));
}

/* Of what was put since the last period only the part counts that came within one. */
TEST_LOOP(a_long_time_without_a_period_foresees_little, 2)
{
    const msec_t passed = _i == 0 ? 8 : 80;

    struct memory *m = &f.shard->memory;
    fixture_grace(&f);
    shard_enter(f.shard);
    room_grace_ended(m);
    shard_leave(f.shard);
    uint64_t put = m->blocks.put_bytes;
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set(&f, fixture_key("k", i), LEN);
    }
    put = m->blocks.put_bytes - put;
    clock_advance(&f.engine.clock, passed);
    shard_enter(f.shard);
    room_grace_ended(m);
    shard_leave(f.shard);
    ck_assert_uint_eq(m->blocks.put_per_grace, _i == 0 ? put : put / 10);
    ck_assert_uint_ge(m->blocks.put_peak, m->blocks.put_per_grace);
}

/* While nobody stores nothing is foreseen, and what a burst took is kept less and less. */
TEST(what_is_kept_for_a_burst_fades)
{
    const uint64_t segment = 32 * KIB;

    struct memory *m = &f.shard->memory;
    for (unsigned i = 0; i < 4000; i++) {
        fixture_set(&f, fixture_key("k", i), LEN);
    }
    fixture_flush(&f, fixture_now(&f));
    fixture_settle(&f);
    m->blocks.put_peak = 16 * segment;
    for (unsigned i = 0; i < 100 && m->blocks.put_peak == 16 * segment; i++) {
        m->blocks.put_per_grace = 5 * segment;
        clock_advance(&f.engine.clock,
                      (msec_t)atomic_load(&fixture_options.idle_trim_ms) + 1000);
        fixture_grace(&f);
    }
    ck_assert_uint_eq(m->blocks.put_per_grace, 0);
    ck_assert_uint_eq(m->blocks.put_peak, 8 * segment);
}
