/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tidy: that memory follows the data after a mass death, that what puts are about to reuse
 * stays, and that a home worker is woken once and its work ends.
 */

#include "lib/memory/cursor.h"
#include "lib/memory/room.h"
#include "lib/memory/tidy.h"
#include "lib/shard/upkeep.h"
#include "tests/lib/fixture.h"

#define ITEMS 8000u
#define BYTES 500u

static struct fixture f;

static const struct cycle_config cap = {
    .effort = 1, .hz = 10, .slice_us = 1000000, .cpu_pct = 100};

static void start_full(void)
{
    fixture_start(&f, NULL);
    for (unsigned i = 0; i < ITEMS; i++) {
        fixture_set(&f, fixture_key("k", i), BYTES);
    }
}

/* Delete all but every n-th item. */
static void delete_but(unsigned n)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        if (i % n != 0) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
        }
    }
    fixture_grace(&f);
}

/* One call of a home worker, whose timer is over. */
static uint32_t look(void)
{
    clock_advance(&f.engine.clock, TIDY_LOOK_MS);
    return shard_tidy(f.shard, &cap, fixture_now(&f));
}

static void tidy_to_the_end(void)
{
    unsigned calls = 0;

    while (look() != SHARD_TIDY) {
        fixture_grace(&f);
        ck_assert_uint_lt(++calls, 10000);
    }
}

static uint64_t filled(void)
{
    shard_enter(f.shard);
    uint64_t bytes = chains_filled(&f.shard->memory);
    shard_leave(f.shard);
    return bytes;
}

TEST_LOOP(memory_follows_the_data, 3)
{
    static const unsigned kept[] = {2, 10, ITEMS};

    start_full();
    uint64_t seg = segment_bytes(&f.shard->memory.arena);
    ck_assert(!shard_wants_tidy(f.shard));
    delete_but(kept[_i]);
    ck_assert(shard_wants_tidy(f.shard));
    tidy_to_the_end();
    ck_assert(!shard_wants_tidy(f.shard));
    uint64_t live = fixture_counter(&f, CTR_item_bytes);
    /* A sixteenth of it may be dead, and two segments; three are open. */
    ck_assert_uint_le(filled() * 15 / 16, live + 5 * seg);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), (ITEMS - 1) / kept[_i] + 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

TEST(what_puts_are_about_to_reuse_stays)
{
    start_full();
    delete_but(4);
    (void)look();
    uint64_t before = filled();
    for (unsigned round = 0; round < 4; round++) {
        /* A tenth of what is dead in each second: in ten seconds all of it. */
        for (unsigned i = 0; i < ITEMS * 3 / 4 / 40; i++) {
            fixture_set(&f, fixture_key(round % 2 != 0 ? "a" : "b", i), BYTES + 200);
        }
        fixture_grace(&f);
        ck_assert_uint_eq(look(), TIDY_LOOK_MS);
        /* A quarter is spared at most. The rest may be cleaned, and is copied. */
        ck_assert_uint_ge(filled(), before / 3);
    }
    ck_assert(shard_wants_tidy(f.shard));
    before = filled();
    tidy_to_the_end();
    ck_assert_uint_lt(filled(), before);
}

TEST(a_small_share_of_dead_is_no_work)
{
    start_full();
    for (unsigned i = 0; i < ITEMS; i += 40) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    ck_assert(!shard_wants_tidy(f.shard));
}

/* A segment with nothing alive is worth no copying: it goes even if little is dead in all. */
TEST(what_is_wholly_dead_goes_at_once)
{
    start_full();
    uint32_t a_segment = segment_bytes(&f.shard->memory.arena) / BYTES;
    for (unsigned i = 0; i < 3 * a_segment; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_grace(&f);
    ck_assert(shard_wants_tidy(f.shard));
    tidy_to_the_end();
    ck_assert_uint_ge(fixture_counter(&f, CTR_cursor_cleaned), 2);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
}

TEST(an_empty_ring_gives_its_pages_back)
{
    start_full();
    delete_but(ITEMS);
    ck_assert_uint_gt(f.shard->memory.blocks.ring_tail, 1024);
    tidy_to_the_end();
    ck_assert_uint_eq(f.shard->memory.blocks.ring_tail, 0);
}

TEST(nothing_is_cleaned_when_the_share_of_the_cpu_is_spent)
{
    const struct cycle_config none = {.effort = 1, .hz = 10, .slice_us = 250, .cpu_pct = 1};
    uint32_t again;
    usec_t began;

    start_full();
    struct cycle *c = &f.shard->cycle;
    delete_but(10);
    (void)look();
    do {
        /* Again, if the window of a second may have ended meanwhile. */
        clock_advance(&f.engine.clock, TIDY_LOOK_MS);
        began = clock_mono_us();
        cycle_spend(c, 2000000, began);
        again = shard_tidy(f.shard, &none, fixture_now(&f));
    } while (clock_mono_us() - began > 900000);
    ck_assert_uint_eq(again, TIDY_LOOK_MS);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_cleaned), 0);
}

/* What is put within ten seconds at the pace of the last look may go into what is dead. */
TEST(the_pace_of_puts_is_measured)
{
    start_full();
    struct memory *m = &f.shard->memory;
    (void)look(); /* begins to measure */
    uint64_t put = m->blocks.put_bytes;
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("new", i), BYTES);
    }
    put = m->blocks.put_bytes - put;
    shard_enter(f.shard);
    m->tidy.is_measured = true;
    (void)tidy_look(m, fixture_now(&f) + 2000);
    shard_leave(f.shard);
    ck_assert_uint_eq(m->tidy.spare_bytes, put * 5);
}

/* After its work ended, the next dead block wakes the home worker again. */
TEST(the_end_is_not_the_last)
{
    start_full();
    for (unsigned round = 1; round <= 3; round++) {
        delete_but(8 << round);
        ck_assert(shard_wants_tidy(f.shard));
        ck_assert(f.shard->memory.tidy.is_watched);
        tidy_to_the_end();
        ck_assert(!shard_wants_tidy(f.shard));
        ck_assert(!f.shard->memory.tidy.is_watched);
        ck_assert(!f.shard->memory.tidy.is_measured);
        for (unsigned i = 0; i < ITEMS; i++) {
            fixture_set(&f, fixture_key("k", i), BYTES);
        }
    }
}

/* ---- what a look finds ------------------------------------------------------------------- */

/* A full shard with a known rate of puts: `bytes` are likely to be reused. */
static struct memory *start_measured(uint64_t spare)
{
    start_full();
    struct memory *m = &f.shard->memory;
    m->tidy = (struct tidy){.is_measured = true,
                            .looked = fixture_now(&f),
                            .put_bytes_seen = m->blocks.put_bytes,
                            .spare_bytes = spare};
    return m;
}

static enum tidy_next look_now(void)
{
    shard_enter(f.shard);
    enum tidy_next next = tidy_look(&f.shard->memory, fixture_now(&f));
    shard_leave(f.shard);
    return next;
}

static void delete_first(unsigned items)
{
    for (unsigned i = 0; i < items; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
}

/* They may be reused when their period is over, so they are waited for. */
TEST(what_has_just_died_is_no_work_yet)
{
    const struct memory *m = start_measured(0);

    delete_first(1000);
    ck_assert_uint_gt(m->blocks.ring_bytes, 0);
    ck_assert_int_eq(look_now(), TIDY_LATER);
    fixture_grace(&f);
    ck_assert_int_eq(look_now(), TIDY_NOW);
}

TEST(a_single_death_is_waited_for)
{
    (void)start_measured(0);
    delete_first(1);
    ck_assert_int_eq(look_now(), TIDY_LATER);
    fixture_settle(&f);
    ck_assert_int_eq(look_now(), TIDY_DONE);
}

/* However much is put: three quarters are dead, and no more than one is spared. */
TEST(puts_spare_a_quarter_at_most)
{
    struct memory *m = start_measured(0);

    delete_but(4);
    fixture_settle(&f);
    m->tidy.spare_bytes = UINT64_MAX / 2;
    ck_assert_int_eq(look_now(), TIDY_NOW);
}

/* Of two segments without anything alive, puts are likely to take one and a half. */
TEST(less_than_a_segment_is_spared)
{
    struct memory *m = start_measured(0);
    uint64_t segment = segment_bytes(&m->arena);

    delete_first((unsigned)(3 * segment / BYTES));
    fixture_settle(&f);
    ck_assert_uint_gt(m->blocks.dead_bytes, 2 * segment);
    m->tidy.spare_bytes = m->blocks.dead_bytes - segment / 2;
    ck_assert_int_eq(look_now(), TIDY_LATER);
    m->tidy.spare_bytes = m->blocks.dead_bytes - 3 * segment / 2;
    ck_assert_int_eq(look_now(), TIDY_NOW);
}

/* What was begun is brought to its end, though nothing would be begun for it. */
TEST(a_cleaning_that_was_begun_is_work)
{
    struct memory *m = start_measured(0);
    int64_t work = 5;

    delete_first(40);
    fixture_settle(&f);
    m->tidy.is_measured = true;
    ck_assert_int_eq(look_now(), TIDY_DONE);
    m->tidy.is_measured = true;
    shard_enter(f.shard);
    ck_assert(cursor_clean(m, m->blocks.chain[CHAIN_SMALL].head, &work, fixture_now(&f)));
    ck_assert(cursor_is_cleaning(m));
    shard_leave(f.shard);
    ck_assert_int_eq(look_now(), TIDY_NOW);
    shard_enter(f.shard);
    ck_assert(!tidy_slice(m, 100000, fixture_now(&f)));
    ck_assert_uint_eq(m->cursor.segment, 0);
    shard_leave(f.shard);
}

TEST(a_clock_that_goes_back_is_measured_anew)
{
    struct memory *m = start_measured(7);

    m->tidy.looked = fixture_now(&f) + 100000;
    (void)look_now();
    ck_assert_int_eq(m->tidy.looked, fixture_now(&f));
    ck_assert_uint_eq(m->tidy.spare_bytes, 0);
}

/* Then the cursor has other work; the end is not known before it is done. */
TEST(where_room_is_short_it_looks_again)
{
    start_full();
    for (unsigned i = 0; fixture_avail(&f) > 20; i++) {
        fixture_set(&f, fixture_key("more", i), BYTES);
    }
    struct memory *m = &f.shard->memory;
    m->tidy = (struct tidy){
        .is_measured = true, .looked = fixture_now(&f), .put_bytes_seen = m->blocks.put_bytes};
    m->line.wanted = LINE_MOST;
    ck_assert_int_eq(look_now(), TIDY_LATER);
    m->line.wanted = 0;
    ck_assert_int_eq(look_now(), TIDY_DONE);
}

TEST(a_ring_in_use_keeps_its_pages)
{
    const struct memory *m = start_measured(0);

    delete_first(2000);
    ck_assert_uint_ge(m->blocks.ring_tail, 1024);
    shard_enter(f.shard);
    ck_assert(!tidy_wants_ring(m));
    shard_leave(f.shard);
    fixture_settle(&f);
    shard_enter(f.shard);
    ck_assert(tidy_wants_ring(m));
    shard_leave(f.shard);
}

/* What is free then is for the cursor, which cleans by itself what is worth it. */
TEST(where_room_is_short_nothing_is_tidied)
{
    start_full();
    for (unsigned i = 0; fixture_avail(&f) > 20; i++) {
        fixture_set(&f, fixture_key("more", i), BYTES);
    }
    delete_but(4);
    fixture_settle(&f);
    struct memory *m = &f.shard->memory;
    m->line.wanted = LINE_MOST;
    shard_enter(f.shard);
    ck_assert(room_is_short(m));
    ck_assert(!tidy_slice(m, 1000, fixture_now(&f)));
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_cleaned), 0);
    m->line.wanted = 0;
    (void)tidy_slice(m, 1000, fixture_now(&f));
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_cleaned), 0);
    shard_leave(f.shard);
}
