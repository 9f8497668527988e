/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trim: what the reclaimer does for a memory when a grace period ends, by itself and again
 * after some time.
 */
#include "lib/memory/evict.h"

#include "lib/memory/line.h"
#include "lib/memory/room.h"
#include "tests/lib/fixture.h"

static struct fixture f;

/* Make free segments: store this number of values of a megabyte, and delete them. */
static void start_with_free(uint32_t shards, unsigned values)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = 16 * MIB;
    cfg.item_size_max = 2 * MIB;
    fixture_start(&f, &cfg);
    for (unsigned i = 0; i < values; i++) {
        fixture_set(&f, fixture_key("k", i), MIB);
    }
    for (unsigned i = 0; i < values; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_settle(&f);
}

/* Until the lower limit is reached, free memory is returned at once: the clock is frozen. */
TEST(an_overdraft_of_a_lower_limit_is_paid_at_once)
{
    start_with_free(1, 12);
    ck_assert_int_gt(fixture_used(&f), 12 * (int64_t)MIB);
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    clock_advance(&f.engine.clock, 2 * TRIM_HASTY_MS);
    f.shard->memory.trim.looked = fixture_now(&f);
    for (unsigned i = 0; i < 100; i++) {
        fixture_grace(&f);
    }
    ck_assert_int_le(fixture_used(&f), 8 * (int64_t)MIB);
}

/* Otherwise with what stayed free for a while, and by all shards in equal parts. */
TEST(an_overdraft_is_paid_in_equal_parts)
{
    start_with_free(2, 12);
    struct budget *b = &f.engine.budget;
    for (unsigned i = 0; i < 2; i++) {
        struct memory *m = &f.engine.shards[i]->memory;

        ck_assert_uint_gt(m->arena.free_count, 40);
        m->trim.hasty_until = 0;
        m->trim.looked = fixture_now(&f);
        m->arena.free_low = m->arena.free_count;
    }
    int64_t added = budget_left(b) + ((int64_t)8 << f.shard->memory.arena.shift);
    budget_add(b, added);
    clock_advance(&f.engine.clock, 50);
    fixture_grace(&f);
    ck_assert_uint_ge(fixture_counter(&f, CTR_segments_discarded), 5);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_le(ctr_get(&f.engine.shards[i]->counters, CTR_segments_discarded), 5);
    }
    budget_add(b, -added);
}

/* However many values died, with nobody to store anything. */
TEST(what_has_died_is_released_after_its_period)
{
    const size_t len = 100 * KIB;

    fixture_start_sized(&f, 1, 16 * MIB);
    struct memory *m = &f.shard->memory;
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("k", i), len);
    }
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_grace(&f);
    for (unsigned i = 0; i < 100 && trim_burst(m) == 0; i++) {
    }
    shard_enter(f.shard);
    ck_assert_uint_eq(arena_waiting(&m->arena), 0);
    shard_leave(f.shard);
}

/* What the system refused is asked for again after ten seconds, and not before. */
TEST(a_range_that_was_cut_is_tried_again)
{
    fixture_start(&f, NULL);
    struct memory *m = &f.shard->memory;
    shard_enter(f.shard);
    m->arena.held_max = m->arena.held;
    shard_leave(f.shard);
    ck_assert(arena_range_is_cut(&m->arena));
    fixture_grace(&f);
    fixture_grace(&f);
    clock_advance(&f.engine.clock, 9999);
    fixture_grace(&f);
    ck_assert(arena_range_is_cut(&m->arena));
    clock_advance(&f.engine.clock, 1);
    fixture_grace(&f);
    ck_assert(!arena_range_is_cut(&m->arena));
}

/* While nobody stores, nobody else makes holes of what has died. */
TEST(what_has_died_becomes_a_hole_without_a_put)
{
    fixture_start(&f, NULL);
    const struct blocks *b = &f.shard->memory.blocks;
    for (unsigned i = 0; i < 10; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    fixture_grace(&f);
    ck_assert_int_eq(fixture_delete(&f, "k3"), OUT_DELETED);
    fixture_grace(&f);
    fixture_grace(&f);
    ck_assert_uint_gt(b->hole_bytes, 0);
    ck_assert_uint_eq(b->ring_head, b->ring_tail);
}

static unsigned calls;

static void count_call(struct waiter *w)
{
    calls++;
}

/* The first waiter checks after each period, whichever thread ended it. */
TEST(the_first_that_waits_is_called)
{
    struct waiter w = {.wake = count_call};

    fixture_start(&f, NULL);
    calls = 0;
    shard_enter(f.shard);
    line_join(&f.shard->memory, &w, 1000000); /* more than there will ever be */
    shard_leave(f.shard);
    ck_assert_uint_eq(calls, 0);
    fixture_grace(&f);
    ck_assert_uint_eq(calls, 1);
    line_leave(&w);
}

/* What recent bursts took stays free, beside what is wanted. */
TEST(what_a_burst_took_is_kept_at_first)
{
    const uint32_t peak = 64;

    start_with_free(1, 12);
    struct memory *m = &f.shard->memory;
    for (unsigned i = 0; i < 100; i++) {
        m->blocks.put_peak = (uint64_t)peak << m->arena.shift;
        clock_advance(&f.engine.clock, atomic_load(&fixture_options.idle_trim_ms));
        fixture_grace(&f);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_segments_discarded), 0);
    ck_assert_uint_ge(m->arena.free_count, peak);
    ck_assert_uint_lt(m->arena.free_count, 2 * peak);
}
