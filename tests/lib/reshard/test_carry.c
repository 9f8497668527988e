/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carry: in a full cache next to nothing is lost, values of all sizes arrive whole, and what
 * was deleted, replaced or flushed while its slot was on the way stays so. Grace periods are
 * waited for, so the reclaimer's thread runs here.
 */
#include "lib/reshard/carry.h"

#include <sched.h>

#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/draw.h"
#include "lib/shard/info.h"
#include "lib/shard/value.h"
#include "tests/lib/fixture.h"

/* Maximum share of lost items, percent. */
#define LOSS_PCT 2

static struct fixture f;

static void start(uint32_t shards, uint64_t limit, enum evict_choice policy)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit;
    fixture_policy(policy);
    fixture_start_threaded(&f, &cfg);
}

static size_t len_of(unsigned i)
{
    return 1500 + i % 7 * 300;
}

/* Set keys until something is evicted, and a fifth more. Returns how many. */
static unsigned fill(size_t (*len)(unsigned i))
{
    unsigned end = UINT32_MAX;
    unsigned n;

    for (n = 0; n < end; n++) {
        fixture_set(&f, fixture_key("key-", n), len(n));
        if (end == UINT32_MAX && fixture_counter(&f, CTR_evictions) != 0) {
            end = n + n / 5;
        }
    }
    /* What was overdrawn by the last of them is paid back. */
    for (unsigned i = 0; i < 50 && budget_left(&f.engine.budget) < 0; i++) {
        clock_advance(&f.engine.clock, 100);
        fixture_settle(&f);
    }
    return n;
}

/* Present items must be complete. Returns how many of the given number of keys exist. */
static unsigned check(unsigned keys, size_t (*len)(unsigned i))
{
    unsigned found = 0;

    for (unsigned i = 0; i < keys; i++) {
        if (fixture_has(&f, fixture_key("key-", i))) {
            fixture_check(&f, fixture_key("key-", i), len(i));
            found++;
        }
    }
    fixture_verify(&f);
    return found;
}

static struct move_info move(const struct move_plan *plan)
{
    const struct move_config cfg = {.plan = plan};
    struct move_info info;

    ck_assert_int_eq(engine_move(&f.engine, &cfg, &info), MF_OK);
    ck_assert_int_eq(info.state, MOVE_DONE);
    ck_assert_uint_eq(info.slots_done, info.slots);
    return info;
}

static void move_all(uint16_t to)
{
    struct move_plan plan;

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = to;
    }
    (void)move(&plan);
}

static uint64_t items_in(uint32_t shard)
{
    return ctr_get(shard_counters(f.engine.shards[shard]), CTR_curr_items);
}

TEST(a_full_cache_is_kept)
{
    struct move_plan plan;

    start(4, 192 * MIB, CHOICE_DENSITY);
    move_plan_even(&plan, &f.engine, 2);
    (void)move(&plan);
    unsigned keys = fill(len_of);
    unsigned had = check(keys, len_of);
    ck_assert_uint_eq(items_in(2) + items_in(3), 0);
    move_plan_even(&plan, &f.engine, 4);
    uint64_t evicted = fixture_counter(&f, CTR_evictions);
    struct move_info info = move(&plan);
    ck_assert_uint_le(info.evicted, fixture_counter(&f, CTR_evictions) - evicted);
    unsigned has = check(keys, len_of);
    ck_assert_uint_le(had - has, had * LOSS_PCT / 100);
    ck_assert_uint_gt(info.items, had * 2 / 5);
    ck_assert_uint_lt(info.items, had * 3 / 5);
    ck_assert_uint_gt(items_in(3), had / 5);

    had = has;
    move_plan_even(&plan, &f.engine, 2);
    (void)move(&plan);
    ck_assert_uint_eq(items_in(2) + items_in(3), 0);
    ck_assert_uint_le(had - check(keys, len_of), had * LOSS_PCT / 100);
}

/* From one shard to several at once, in many runs; what stays closes ranks. */
TEST(runs_go_in_one_pass)
{
    struct move_plan plan;

    start(3, 96 * MIB, CHOICE_DENSITY);
    move_all(0);
    unsigned keys = fill(len_of);
    unsigned had = check(keys, len_of);
    uint64_t all = items_in(0);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = (uint16_t)(i / 16 % 4 % 3);
    }
    (void)move(&plan);
    ck_assert_uint_le(had - check(keys, len_of), had * LOSS_PCT / 100);
    ck_assert_uint_gt(items_in(0), all * 4 / 10);
    ck_assert_uint_gt(items_in(1), all * 2 / 10);
    ck_assert_uint_gt(items_in(2), all * 2 / 10);
}

/* Blocks, values in pieces, in segments, and in both. */
static size_t large_len(unsigned i)
{
    static const size_t len[] = {100, 9000, 20000, 60000, 65536, 70000, 200000, 1000000, 500};

    return len[i % 9] + i % 50;
}

TEST(values_of_all_sizes_arrive_whole)
{
    unsigned keys;

    start(2, 128 * MIB, CHOICE_DENSITY);
    for (keys = 0; keys < 360; keys++) {
        fixture_set(&f, fixture_key("key-", keys), large_len(keys));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    for (uint16_t i = 0; i < 4; i++) {
        move_all(i % 2);
        ck_assert_uint_eq(check(keys, large_len), keys);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    keys = fill(large_len);
    unsigned had = check(keys, large_len);
    move_all(0);
    /* Of the largest some must be dropped, to have room for the first. */
    ck_assert_uint_ge(check(keys, large_len), had * 9 / 10);
}

TEST(items_go_in_their_order_and_to_their_chain)
{
    struct chain *chain;
    uint64_t last = 0;
    unsigned n = 0;

    start(2, 64 * MIB, CHOICE_DENSITY);
    move_all(0);
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set(&f, fixture_key("key-", i), 400);
    }
    move_all(1);
    const struct memory *m = &f.engine.shards[1]->memory;
    chain = &f.engine.shards[1]->memory.blocks.chain[CHAIN_SMALL];
    for (segment_t s = chain->head; s != 0; s = m->arena.segments[s].next) {
        for (uint32_t at = 0; at < m->arena.segments[s].fill; n++) {
            const struct item *it =
                (const struct item *)(const void *)(segment_ptr(&m->arena, s) + at);
            uint64_t number = 0;

            for (unsigned i = 4; i < it->key_len; i++) {
                number = number * 10 + (uint64_t)(item_key(it)[i] - '0');
            }
            ck_assert_uint_ge(number, last);
            last = number;
            at += item_bytes(it);
        }
    }
    ck_assert_uint_eq(n, 5000);
}

/*
 * A shard with little room, where nothing may be evicted: some slots stay on the way. Room is
 * only in holes, and what leaves the other shard makes none, however fast it is reclaimed.
 */
static unsigned fill_and_get_stuck(size_t len)
{
    start(2, 32 * MIB, CHOICE_NOEVICTION);
    unsigned n = fixture_fill_up(&f, "key-", len);
    budget_add(&f.engine.budget, LIMIT_TAKEN);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 1), MF_ENOMEM);
    budget_add(&f.engine.budget, -LIMIT_TAKEN);
    for (unsigned i = 0; i < n; i++) {
        fixture_check(&f, fixture_key("key-", i), len);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct arena *a = &f.engine.shards[i]->memory.arena;

        for (segment_t k = 1; k < a->fresh; k++) {
            ck_assert_uint_eq(a->segments[k].busy, 0); /* nothing is kept from the cursor */
        }
    }
    return n;
}

static void nothing_comes_back(size_t len)
{
    unsigned n = fill_and_get_stuck(len);

    for (unsigned i = 0; i < n; i++) {
        if (i % 3 != 0) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("key-", i)), OUT_DELETED);
        } else if (i % 2 != 0) {
            fixture_set(&f, fixture_key("key-", i), 10);
        }
    }
    fixture_settle(&f);
    move_all(1);
    ck_assert_uint_eq(items_in(0), 0);
    for (unsigned i = 0; i < n; i++) {
        if (i % 3 != 0) {
            ck_assert(!fixture_has(&f, fixture_key("key-", i)));
        } else {
            fixture_check(&f, fixture_key("key-", i), i % 2 != 0 ? 10 : len);
        }
    }
    fixture_stop(&f);
}

TEST(without_room_it_ends_and_what_is_deleted_stays_so)
{
    nothing_comes_back(3000);
    nothing_comes_back(100000); /* in segments */
}

TEST(a_flush_on_the_way_takes_all)
{
    unsigned n = fill_and_get_stuck(3000);

    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "after", 50);
    move_all(1);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(!fixture_has(&f, fixture_key("key-", i)));
    }
    fixture_check(&f, "after", 50);
    ck_assert_uint_eq(items_in(0), 0);
}

TEST(what_is_due_stays_behind)
{
    start(2, 64 * MIB, CHOICE_DENSITY);
    engine_hold_sampler(&f.engine, true);
    for (unsigned i = 0; i < 3000; i++) {
        size_t len = i % 100 == 0 ? 80000 : 100;

        fixture_set_until(&f, fixture_key("key-", i), len,
                          i % 2 == 0 ? fixture_now(&f) + 100 : MSEC_NEVER);
    }
    move_all(0);
    clock_advance(&f.engine.clock, 100);
    move_all(1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1500);
    ck_assert_uint_eq(items_in(0), 0);
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert(fixture_has(&f, fixture_key("key-", i)) == (i % 2 != 0));
    }
}

/* Has the mover rest long with its next turn but some. */
static void on_event(void *arg, const struct shard_event *ev)
{
    usec_t start = clock_thread_us();

    while (clock_thread_us() - start < 2000) {
    }
}

static bool has_chain(enum chain_id id)
{
    struct shard *s = f.engine.shards[0];

    shard_enter(s);
    bool has = s->memory.blocks.chain[id].head != 0;
    shard_leave(s);
    return has;
}

/*
 * An item comes to a chain that was searched, and has lost its last segment: before the search
 * goes on, since the mover rests then in one of these rounds.
 */
static void touch_behind(unsigned batches)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan, .cpu_pct = 2};
    struct engine_config engine;
    struct move_info info;
    struct move *m;

    fixture_config(&engine);
    engine.shards = 2;
    engine.limit_bytes = 64 * MIB;
    engine.observer = on_event;
    fixture_policy(CHOICE_VOLATILE_LRU);
    fixture_start_threaded(&f, &engine);
    engine_observe(&f.engine, 1u << SHARD_EXPIRED_LAZY);
    engine_hold_sampler(&f.engine, true);
    move_all(0);
    fixture_set(&f, "stays", 100); /* without a deadline: in another chain */
    for (unsigned i = 0; i < batches * CARRY_BATCH; i++) {
        fixture_set_until(&f, fixture_key("key-", i), 10,
                          fixture_now(&f) + (i == 0 ? 100 : 1000000));
    }
    clock_advance(&f.engine.clock, 100);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = 1;
    }
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK);
    do {
        (void)sched_yield();
        move_info(m, &info);
    } while (has_chain(evict_sorted_chain(true)) && info.state <= MOVE_RUNS);
    ck_assert_int_eq(fixture_touch(&f, "stays", fixture_now(&f) + 500000), OUT_TOUCHED);
    ck_assert_int_eq(move_end(&m), MF_OK);
    ck_assert_uint_eq(items_in(0), 0);
    fixture_check(&f, "stays", 100);
    fixture_stop(&f);
}

TEST(what_comes_where_the_search_was_is_not_left)
{
    for (unsigned batches = 1; batches <= 8; batches++) {
        touch_behind(batches);
    }
}

static unsigned strays;

/* In the search: the last item is put into a chain that was searched, as the cursor may. */
static void put_behind(void *arg, const struct shard_event *ev)
{
    static const char key[] = "key-2999";
    struct shard *s = f.engine.shards[0];
    struct memory *m = &s->memory;
    const struct item *it =
        table_find(&s->table, m->arena.base, fixture_hash(&f, key), key, strlen(key));

    ck_assert_ptr_nonnull(it);
    handle_t from = (handle_t)(((uintptr_t)it - (uintptr_t)m->arena.base) / ITEM_UNIT);
    handle_t to = draw_block(m, CHAIN_SMALL, item_units(it), 0, DRAW_CURSOR);
    ck_assert_uint_ne(to, 0);
    blocks_copy(memory_item(m, to), it);
    m->ops->moved(m->owner, from, to);
    blocks_kill(m, from);
    strays++;
}

/* The chain was empty when its turn came, or lost its only segment by the search. */
TEST_LOOP(what_is_put_behind_the_search_is_searched_for, 2)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 64 * MIB;
    cfg.observer = put_behind;
    fixture_policy(CHOICE_VOLATILE_LRU);
    fixture_start_threaded(&f, &cfg);
    engine_observe(&f.engine, 1u << SHARD_EXPIRED_LAZY);
    engine_hold_sampler(&f.engine, true);
    move_all(0);
    if (_i == 1) {
        fixture_set_until(&f, "first", 100, fixture_now(&f) + 100000);
    }
    /* Without a deadline it goes to main, and what takes its place stays there. */
    fixture_set(&f, "key-0", 100);
    fixture_policy(CHOICE_DENSITY);
    fixture_set_until(&f, "key-0", 100, fixture_now(&f) + 100);
    fixture_policy(CHOICE_VOLATILE_LRU);
    for (unsigned i = 1; i < 3000; i++) {
        fixture_set(&f, fixture_key("key-", i), 100);
    }
    ck_assert_int_eq(fixture_get(&f, "key-0").chain, CHAIN_MAIN);
    ck_assert(has_chain(CHAIN_SMALL) == (_i == 1));
    clock_advance(&f.engine.clock, 100);
    strays = 0;
    move_all(1);
    ck_assert_uint_eq(strays, 1);
    ck_assert_uint_eq(items_in(0), 0);
    ck_assert_uint_eq(items_in(1), _i == 0 ? 2999 : 3000);
    fixture_check(&f, "key-2999", 100);
}

/* Of little that leaves nothing closes ranks, but what has nothing left in it is freed. */
TEST(a_segment_that_leaves_as_a_whole_is_freed)
{
    const uint32_t slots = ROUTE_SLOTS / 16;
    uint32_t generation;
    unsigned n = 0;

    start(2, 32 * MIB, CHOICE_DENSITY);
    move_all(0);
    const struct memory *m = &f.engine.shards[0]->memory;
    for (unsigned i = 0; n < 2 * segment_bytes(&m->arena) / 1000; i++) {
        const char *key = fixture_key("key-", i);

        if (fixture_hash(&f, key) >> (64 - ROUTE_SLOT_BITS) < slots) {
            fixture_set(&f, key, 1000);
            n++;
        }
    }
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set(&f, fixture_key("other-", i), 1000);
    }
    segment_t first = m->blocks.chain[CHAIN_SMALL].head;
    generation = m->arena.segments[first].generation;
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, slots, 1), MF_OK);
    ck_assert_uint_ge(items_in(1), n);
    ck_assert_uint_ne(m->blocks.chain[CHAIN_SMALL].head, first);
    ck_assert_uint_ne(m->arena.segments[first].generation, generation);
}

#define PINNED_LEN 1000000

struct reader {
    struct value_walk walk;
    struct value_pin pin;
};

/* As a connection reads that is slow. False: not that as well. */
static bool may_read(struct reader *r, const char *key)
{
    rcu_begin();
    struct found found = engine_find(router_read(&f.engine.router), fixture_hash(&f, key), key,
                                     strlen(key), fixture_now(&f));
    value_walk_begin(&r->walk, found.shard, found.item);
    bool may = value_may_pin(&r->walk);
    if (may) {
        r->pin = value_pin(&r->walk);
    }
    rcu_end();
    return may;
}

/* They have all that may be pinned, and go on reading. */
TEST(slow_readers_do_not_stop_it)
{
    struct reader r[32];
    unsigned pinned = 0;
    unsigned keys;

    start(2, 64 * MIB, CHOICE_DENSITY);
    move_all(0);
    for (keys = 0; keys < 30; keys++) {
        fixture_set(&f, fixture_key("key-", keys), PINNED_LEN);
    }
    while (pinned < keys && may_read(&r[pinned], fixture_key("key-", pinned))) {
        pinned++;
    }
    ck_assert_uint_lt(pinned, keys);
    move_all(1);
    ck_assert_uint_eq(items_in(0), 0);
    for (unsigned i = 0; i < keys; i++) {
        fixture_check(&f, fixture_key("key-", i), PINNED_LEN);
    }
    for (unsigned i = 0; i < pinned; i++) {
        const char *value = fixture_get(&f, fixture_key("key-", i)).value;
        struct span part;
        size_t done = 0;

        while (value_walk_has_segments(&r[i].walk) && value_walk_next(&r[i].walk, &part)) {
            ck_assert(memcmp(part.ptr, value + done, part.len) == 0);
            done += part.len;
        }
        ck_assert_uint_gt(done, PINNED_LEN / 2);
        value_unpin(&r[i].pin);
    }
}

/* The system, or a full file system, gives a shard no more: that is not paid for by others. */
TEST(nothing_is_evicted_for_a_shard_that_can_have_no_more)
{
    start(2, 64 * MIB, CHOICE_DENSITY);
    move_all(0);
    unsigned keys = fill(len_of);
    unsigned had = check(keys, len_of);
    struct memory *m = &f.engine.shards[1]->memory;
    lock_take(m->lock);
    m->arena.held_max = m->arena.held;
    lock_give(m->lock);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 1), MF_ENOMEM);
    ck_assert_uint_le(had - check(keys, len_of), had * LOSS_PCT / 100);

    lock_take(m->lock);
    arena_range_retry(&m->arena);
    lock_give(m->lock);
    move_all(1);
    ck_assert_uint_eq(items_in(0), 0);
    ck_assert_uint_le(had - check(keys, len_of), had * LOSS_PCT / 100);
}
