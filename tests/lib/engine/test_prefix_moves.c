/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix: slots move from shard to shard, and there come to be more shards, while a prefix is
 * flushed, or when the command has come to one of two shards only.
 */
#include "lib/engine/prefix.h"

#include "lib/base/mem.h"
#include "lib/engine/grow.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "tests/lib/engine/prefix_walk.h"
#include "tests/lib/fixture.h"

static struct fixture f;

static void start(void)
{
    fixture_start_sized(&f, 2, 32 * MIB);
}

TEST_FIXTURE(start, NULL)

#define MOVED 600u

static void set_some(unsigned from, unsigned step, size_t len)
{
    for (unsigned i = from; i < MOVED; i += step) {
        fixture_set(&f, fixture_key("p:", i), i % 50 == 0 ? 100000 : len);
    }
}

static void check_some(unsigned step)
{
    for (unsigned i = 0; i < MOVED; i++) {
        ck_assert_int_eq(fixture_has(&f, fixture_key("p:", i)), i % step == 0);
    }
}

/* Half of the slots go there and back, and what is new goes with them. */
TEST_LOOP(slots_move_meanwhile, 3)
{
    set_some(0, 1, 10);
    fixture_flush_prefix(&f, "p:");
    for (int i = 0; i < _i; i++) {
        (void)prefix_slice(&f, (uint32_t)i % 2);
    }
    set_some(0, 3, 20);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS / 2, 1), MF_OK);
    check_some(3);
    set_some(0, 2, 20);
    for (unsigned i = 3; i < MOVED; i += 6) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("p:", i)), OUT_DELETED);
    }
    check_some(2);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 0), MF_OK);
    check_some(2);
    prefix_end_flushes(&f);
    check_some(2);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), MOVED / 2);
}

/* Slots are on their way, and writers take over what they meet. */
TEST(writers_take_nothing_over_that_was_flushed)
{
    set_some(0, 1, 10);
    fixture_begin_move(&f);
    set_some(0, 4, 30);
    fixture_flush_prefix(&f, "p:");
    for (unsigned i = 0; i < MOVED; i++) {
        ck_assert(!fixture_has(&f, fixture_key("p:", i)));
    }
    for (unsigned i = 0; i < MOVED; i += 3) {
        struct put append = {
            .mode = STORE_APPEND, .key = fixture_key("p:", i), .ptr = "x", .len = 1};

        ck_assert_int_eq(fixture_store(&f, &append, NULL), OUT_NOT_STORED);
        fixture_set(&f, fixture_key("p:", i), 10);
    }
    check_some(3);
    prefix_end_flushes(&f);
    check_some(3);
}

static void release_set(struct retired *r)
{
    mem_free(r);
}

/* A command that has come to one shard only, as its first half does. */
static void begin_in(uint32_t shard, const char *prefix)
{
    struct prefixes *set = mem_zalloc(sizeof(*set) + sizeof(set->at[0]));

    ck_assert(shard_prefix_prepare(f.engine.shards[0]));
    ck_assert(shard_prefix_prepare(f.engine.shards[1]));
    set->retired.fn = release_set;
    set->count = 1;
    set->at[0] = (struct prefix){.id = 1, .len = (uint32_t)strlen(prefix)};
    memcpy(set->at[0].text, prefix, strlen(prefix));
    f.engine.group.prefixes = set;
    f.engine.prefix_id = 1;
    rcu_begin();
    shard_enter(f.engine.shards[shard]);
    shard_prefix_begin(f.engine.shards[shard], 1);
    shard_leave(f.engine.shards[shard]);
    rcu_end();
}

static void begin_in_both(void)
{
    rcu_begin();
    for (uint32_t i = 0; i < 2; i++) {
        shard_enter(f.engine.shards[i]);
        shard_prefix_begin(f.engine.shards[i], 1);
        shard_leave(f.engine.shards[i]);
    }
    rcu_end();
}

/*
 * A writer, or a mover, that comes between the two halves of a command brings it to the other
 * shard: nothing old gets into the clean one, and nothing new is taken for old.
 */
TEST_LOOP(between_the_halves_of_a_command_both_shards_know_it, 4)
{
    const uint32_t first = (uint32_t)_i % 2;
    struct put append = {.mode = STORE_APPEND, .ptr = "x", .len = 1};
    unsigned appended = 0;

    set_some(0, 1, 10);
    if (_i < 2) {
        fixture_begin_move(&f);
    }
    begin_in(first, "p:");
    if (_i >= 2) {
        ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS / 2, 1), MF_OK);
        ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 0), MF_OK);
    }
    for (unsigned i = 0; i < MOVED; i++) {
        append.key = fixture_key("p:", i);
        appended += fixture_store(&f, &append, NULL) == OUT_STORED;
    }
    /* Only what is in the other shard for good may be met by a writer as it was. */
    ck_assert_uint_le(appended, first == 0 && _i < 2 ? MOVED : 0);
    ck_assert_uint_eq(f.engine.shards[0]->prefix_id, 1);
    ck_assert_uint_eq(f.engine.shards[1]->prefix_id, 1);
    begin_in_both();
    set_some(0, 3, 20);
    check_some(3);
    prefix_end_flushes(&f);
    check_some(3);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), MOVED / 3);
}

/* A further shard has nothing that was flushed, and gets nothing. */
TEST_LOOP(shards_are_added_meanwhile, 2)
{
    set_some(0, 1, 10);
    fixture_flush_prefix(&f, "p:");
    ck_assert_int_eq(engine_add_shards(&f.engine, f.engine.shard_count + 1), MF_OK);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS / 2, 2), MF_OK);
    set_some(0, 3, 20);
    if (_i == 1) {
        fixture_flush_prefix(&f, "p:1");
        fixture_flush_prefix(&f, "p:");
        for (unsigned i = 0; i < MOVED; i++) {
            ck_assert(!fixture_has(&f, fixture_key("p:", i)));
        }
        set_some(0, 3, 20);
    }
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 1), MF_OK);
    check_some(3);
    prefix_end_flushes(&f);
    check_some(3);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), MOVED / 3);
}
