/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * migrate: items keep everything when their slots move, no item is duplicated or comes back,
 * and the cas of a key continues to grow. Moves wait for grace periods, so the reclaimer's
 * thread runs here.
 */
#include "lib/shard/shard.h"

#include "lib/shard/info.h"
#include "lib/shard/keyspace.h"
#include "tests/lib/fixture.h"

#define KEYS 1200

static struct fixture f;

static size_t len_of(unsigned i)
{
    return i % 40 == 0 ? 20000 + i * 50 : i % 7 == 0 ? 2000 + i % 50 : i % 300;
}

static msec_t ttl_of(unsigned i)
{
    return i % 4 == 0 ? 1000 + (msec_t)i : 0;
}

static struct got was[KEYS];

static void start(uint32_t shards)
{
    fixture_start_sized_threaded(&f, shards, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set_until(&f, fixture_key("key-", i), len_of(i),
                          ttl_of(i) != 0 ? fixture_now(&f) + ttl_of(i) : MSEC_NEVER);
        (void)fixture_use(&f, fixture_key("key-", i), i % 4);
        was[i] = fixture_get(&f, fixture_key("key-", i));
    }
}

static void move(uint32_t first, uint32_t count, uint16_t to)
{
    ck_assert_int_eq(engine_move_slots(&f.engine, first, count, to), MF_OK);
}

static void check_all(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        struct got got = fixture_get(&f, fixture_key("key-", i));

        ck_assert_msg(got.is_hit, "%s is lost", fixture_key("key-", i));
        ck_assert_uint_eq(got.cas, was[i].cas);
        ck_assert_uint_eq(got.flags, was[i].flags);
        ck_assert_int_eq(got.deadline, was[i].deadline);
        ck_assert_int_eq(got.chain, was[i].chain);
        ck_assert(got.was_fetched == was[i].was_fetched);
        fixture_check(&f, fixture_key("key-", i), len_of(i));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), KEYS);
    fixture_verify(&f);
}

static uint64_t items_in(uint32_t shard)
{
    return ctr_get(shard_counters(f.engine.shards[shard]), CTR_curr_items);
}

static uint64_t late_in(uint32_t shard)
{
    return ctr_get(shard_counters(f.engine.shards[shard]), CTR_segments_late);
}

/* Pages are not cleared while both shards are entered. */
TEST(the_segments_of_a_new_shard_are_resident_before_they_are_used)
{
    start(2);
    move(0, ROUTE_SLOTS, 0);
    uint64_t late = late_in(1);
    move(0, ROUTE_SLOTS / 2, 1);
    ck_assert_uint_gt(f.engine.shards[1]->memory.arena.held, 12);
    ck_assert_uint_eq(late_in(1), late);
    check_all();
}

TEST(items_keep_everything)
{
    start(4);
    move(0, ROUTE_SLOTS, 0);
    check_all();
    ck_assert_uint_eq(items_in(0), KEYS);
    move(100, 2000, 3);
    check_all();
    ck_assert_uint_eq(items_in(1) + items_in(2), 0);
    ck_assert_uint_gt(items_in(3), KEYS / 4);
    move(0, ROUTE_SLOTS, 2); /* from two shards at once */
    check_all();
    ck_assert_uint_eq(items_in(2), KEYS);
    move(0, ROUTE_SLOTS, 2); /* all of them are there */
    check_all();
}

TEST(deadlines_are_kept_where_they_went)
{
    start(3);
    move(0, ROUTE_SLOTS, 1);
    for (msec_t t = 0; t < 2500; t += 100) {
        for (unsigned i = 0; i < KEYS; i++) {
            ck_assert(fixture_has(&f, fixture_key("key-", i)) ==
                      (ttl_of(i) == 0 || ttl_of(i) > t));
        }
        clock_advance(&f.engine.clock, 100);
        fixture_expire(&f);
    }
    ck_assert_uint_eq(items_in(1), KEYS * 3 / 4);
}

TEST(what_is_due_or_gone_does_not_come_along)
{
    start(2);
    engine_hold_sampler(&f.engine, true);
    for (unsigned i = 1; i < KEYS; i += 4) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("key-", i)), OUT_DELETED);
    }
    clock_advance(&f.engine.clock, 5000);
    move(0, ROUTE_SLOTS, 1);
    ck_assert_uint_eq(items_in(0), 0);
    /* Due items that did not move still wait for the sampler. */
    engine_hold_sampler(&f.engine, false);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_lazy), 0);
    ck_assert_uint_lt(fixture_counter(&f, CTR_expired_lazy), KEYS / 4);
    fixture_expire(&f);
    ck_assert_uint_eq(items_in(1), KEYS / 2);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(fixture_has(&f, fixture_key("key-", i)) == (i % 4 >= 2));
    }
}

TEST(a_cas_grows_from_shard_to_shard)
{
    static uint64_t last[KEYS];

    start(4);
    for (unsigned i = 0; i < KEYS; i++) {
        last[i] = was[i].cas;
    }
    for (unsigned round = 0; round < 6; round++) {
        move(0, ROUTE_SLOTS, (uint16_t)(round * 3 % 4));
        for (unsigned i = round; i < KEYS; i += 5) {
            fixture_set(&f, fixture_key("key-", i), 10);
            ck_assert_uint_gt(fixture_get(&f, fixture_key("key-", i)).cas, last[i]);
            last[i] = fixture_get(&f, fixture_key("key-", i)).cas;
        }
    }
}

/* The shard that items go to may have drawn its cas values long before. */
TEST_LOOP(a_value_stored_after_a_move_has_a_higher_cas, 2)
{
    uint64_t cas;

    fixture_start_sized_threaded(&f, 2, FIXTURE_LIMIT);
    move(0, ROUTE_SLOTS, 0);
    for (unsigned i = 2; i-- > 0;) {
        shard_enter(f.engine.shards[i]);
        keyspace_draw_cas(f.engine.shards[i]);
        shard_leave(f.engine.shards[i]);
    }
    fixture_set(&f, "k", _i == 0 ? 100 : 100000);
    cas = fixture_get(&f, "k").cas;
    ck_assert_uint_gt(cas, f.engine.shards[1]->cas_next);
    move(0, ROUTE_SLOTS, 1);
    fixture_set(&f, "k", 100);
    ck_assert_uint_gt(fixture_get(&f, "k").cas, cas);
}

/* Clients may choose the very one that the other shard would give next. */
TEST_LOOP(a_chosen_cas_is_not_given_again_after_a_move, 2)
{
    struct put p = {.key = "k", .ptr = "v", .len = 1};
    fixture_start_sized_threaded(&f, 2, FIXTURE_LIMIT);
    move(0, ROUTE_SLOTS, 0);
    p.cas_new = atomic_load(&f.engine.group.cas_next) + (uint64_t)_i * 65536;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, p.cas_new);
    move(0, ROUTE_SLOTS, 1);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, p.cas_new);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
    fixture_set(&f, "k", 100);
    ck_assert_uint_gt(fixture_get(&f, "k").cas, p.cas_new);
}

/* Items that were promoted stay so, and a policy that keeps some apart does so there. */
TEST(items_arrive_in_their_chain)
{
    fixture_start_sized_threaded(&f, 2, 32 * MIB);
    move(0, ROUTE_SLOTS, 0);
    fixture_policy(CHOICE_VOLATILE_LRU);
    fixture_set(&f, "stays", 100);
    fixture_set_until(&f, "goes", 100, fixture_now(&f) + 100000);
    fixture_policy(CHOICE_DENSITY);
    ck_assert_int_eq(fixture_get(&f, "stays").chain, CHAIN_MAIN);
    ck_assert_int_eq(fixture_get(&f, "goes").chain, CHAIN_SMALL);
    move(0, ROUTE_SLOTS, 1);
    ck_assert_int_eq(fixture_get(&f, "stays").chain, CHAIN_MAIN);
    ck_assert_int_eq(fixture_get(&f, "goes").chain, CHAIN_SMALL);
    ck_assert_int_eq(fixture_delete(&f, "stays"), OUT_DELETED);
    fixture_set(&f, "stays", 50);
    ck_assert_int_eq(fixture_get(&f, "stays").chain, CHAIN_SMALL);
    fixture_policy(CHOICE_VOLATILE_LRU);
    move(0, ROUTE_SLOTS, 0);
    ck_assert_int_eq(fixture_get(&f, "stays").chain, CHAIN_MAIN);
    ck_assert_int_eq(fixture_get(&f, "goes").chain, CHAIN_SMALL);
}

/* What a move reports: items and their bytes, and what was due. */
TEST(a_move_counts_what_it_does)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    struct engine_config engine;
    struct move_info info;
    uint64_t bytes = 0;

    fixture_config(&engine);
    engine.shards = 2;
    engine.limit_bytes = 64 * MIB;
    fixture_start_threaded(&f, &engine);
    move(0, ROUTE_SLOTS, 0);
    engine_hold_sampler(&f.engine, true);
    for (unsigned i = 0; i < 1000; i++) {
        const char *key = fixture_key("key-", i);

        fixture_set_until(&f, key, len_of(i), i % 4 == 0 ? fixture_now(&f) + 10 : MSEC_NEVER);
        bytes += i % 4 != 0 ? strlen(key) + len_of(i) : 0;
    }
    fixture_set(&f, "wide", 300000);
    bytes += strlen("wide") + 300000;
    clock_advance(&f.engine.clock, 10);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = 1;
    }
    ck_assert_int_eq(engine_move(&f.engine, &cfg, &info), MF_OK);
    ck_assert_int_eq(info.state, MOVE_DONE);
    ck_assert_uint_eq(info.slots, ROUTE_SLOTS);
    ck_assert_uint_eq(info.slots_done, ROUTE_SLOTS);
    ck_assert_uint_eq(info.items, 751);
    ck_assert_uint_eq(info.bytes, bytes);
    ck_assert_uint_eq(info.expired, 250);
    ck_assert_uint_eq(info.evicted, 0);
    ck_assert_uint_eq(info.items_all, 1001);
    /* Of half of the slots about half of the items. */
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = i % 2 == 0 ? 0 : MOVE_STAYS;
    }
    ck_assert_int_eq(engine_move(&f.engine, &cfg, &info), MF_OK);
    ck_assert_uint_eq(info.items_all, 375);
    ck_assert_uint_eq(info.slots, ROUTE_SLOTS / 2);
}

TEST(a_flush_holds_after_a_move)
{
    start(3);
    msec_t at = fixture_now(&f) + 100;

    fixture_flush(&f, at);
    move(0, ROUTE_SLOTS / 2, 2);
    check_all();
    clock_advance(&f.engine.clock, 100);
    move(0, ROUTE_SLOTS, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(!fixture_has(&f, fixture_key("key-", i)));
    }
    fixture_set(&f, "k", 10);
    move(0, ROUTE_SLOTS, 1);
    fixture_check(&f, "k", 10);
}

TEST(what_is_out_of_range_is_refused)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    struct move *m;

    start(2);
    move_plan_init(&plan);
    plan.to[7] = 2;
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_EINVAL);
    ck_assert_ptr_null(m);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, 1, 2), MF_EINVAL);
    ck_assert_int_eq(engine_move_slots(&f.engine, ROUTE_SLOTS, 1, 1), MF_EINVAL);
    ck_assert_int_eq(engine_move_slots(&f.engine, 1, ROUTE_SLOTS, 1), MF_EINVAL);
    ck_assert_int_eq(engine_move_slots(&f.engine, UINT32_MAX, 2, 1), MF_EINVAL);
    ck_assert_int_eq(engine_move_slots(&f.engine, ROUTE_SLOTS, 0, 1), MF_OK);
    ck_assert_int_eq(engine_move_slots(&f.engine, 1, ROUTE_SLOTS - 1, 1), MF_OK);
    move(0, ROUTE_SLOTS, 0);
    move(ROUTE_SLOTS / 2, ROUTE_SLOTS / 2, 1);
    check_all();
}

/* As few slots as possible change their shard, and what has a shard too many is dealt. */
TEST(an_even_plan_moves_what_it_must)
{
    struct move_plan plan;
    unsigned n[3] = {0};

    start(3);
    move_plan_even(&plan, &f.engine, 3);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        ck_assert_uint_eq(plan.to[i], i * 3 / ROUTE_SLOTS);
    }
    move_plan_even(&plan, &f.engine, 2);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        n[plan.to[i]]++;
        ck_assert(plan.to[i] == i * 3 / ROUTE_SLOTS || i * 3 / ROUTE_SLOTS == 2);
    }
    ck_assert_uint_eq(n[0], ROUTE_SLOTS / 2);
    ck_assert_uint_eq(n[1], ROUTE_SLOTS / 2);
}

/* Start a move, and cancel it after this number of items. Nothing is lost. */
static void cancel_after(const struct move_plan *plan, uint64_t items)
{
    fixture_cancel_move(&f, plan, items);
    check_all();
}

/* Wherever it is cancelled, nothing is lost, and the same plan goes on. */
TEST(a_move_can_be_cancelled_and_goes_on)
{
    struct move_plan plan;

    start(4);
    for (unsigned round = 0; round < 20; round++) {
        uint16_t to = (uint16_t)(round % 4);

        for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
            plan.to[i] = to;
        }
        cancel_after(&plan, round * 20);
        move(0, ROUTE_SLOTS, to);
        ck_assert_uint_eq(items_in(to), KEYS);
    }
}

/* Whatever was on its way arrives, and goes on from there. */
TEST(a_cancelled_move_can_be_replaced_by_another)
{
    struct move_plan plan;

    start(4);
    for (unsigned round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
            plan.to[i] = (uint16_t)((i + i / 7 + round) % 4);
        }
        cancel_after(&plan, round * 20);
        if (round % 4 == 3) {
            move(0, ROUTE_SLOTS, (uint16_t)(round / 4 % 4));
            ck_assert_uint_eq(items_in((uint16_t)(round / 4 % 4)), KEYS);
        }
    }
}

/* A plan of one slot leaves those alone that an earlier move has left on their way. */
TEST(slots_on_their_way_stay_so)
{
    unsigned moving = 0;

    fixture_start_sized_threaded(&f, 2, FIXTURE_LIMIT);
    fixture_begin_move(&f);
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        moving += route_is_moving(&router_read(&f.engine.router)->slot[i]);
    }
    rcu_end();
    ck_assert_uint_eq(moving, ROUTE_SLOTS / 2);
    rcu_begin();
    uint32_t slot = 0;
    while (route_is_moving(&router_read(&f.engine.router)->slot[slot])) {
        slot++;
    }
    rcu_end();
    move(slot, 1, 0);
    move(slot, 1, 1);
    rcu_begin();
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        moving -= route_is_moving(&router_read(&f.engine.router)->slot[i]);
    }
    rcu_end();
    ck_assert_uint_eq(moving, 0);
}

TEST(a_move_waits_for_walks_and_can_be_cancelled_then)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    struct move_info info;
    struct move *second;
    struct move *m;

    start(2);
    ck_assert(moves_begin_walk(&f.engine.moves, NULL));
    move_plan_even(&plan, &f.engine, 1);
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK);
    move_info(m, &info);
    ck_assert_int_eq(info.state, MOVE_WAITS);
    ck_assert_int_eq(move_start(&second, &f.engine, &cfg), MF_EBUSY);
    ck_assert_ptr_null(second);
    move_cancel(m);
    ck_assert_int_eq(move_end(&m), MF_OK);
    ck_assert_uint_gt(items_in(1), 0);
    moves_end_walk(&f.engine.moves);
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK);
    ck_assert_int_eq(move_end(&m), MF_OK);
    ck_assert_uint_eq(items_in(0), KEYS);
    check_all();
}

/* Where nothing may be evicted an item may find no room. The move ends, and can go on later. */
TEST(a_move_without_room_ends_and_can_go_on)
{
    struct engine_config cfg;
    unsigned n = 0;

    fixture_config(&cfg);
    cfg.shards = 2;
    fixture_policy(CHOICE_NOEVICTION);
    fixture_start_threaded(&f, &cfg);
    while (fixture_try(&f, fixture_key("key-", n), 3000, 0) == OUT_STORED) {
        n++;
    }
    ck_assert_uint_gt(n, 1000);
    budget_add(&f.engine.budget, LIMIT_TAKEN); /* so that what leaves makes no room either */
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 1), MF_ENOMEM);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, 1, 0), MF_ENOMEM); /* nor may it go back */
    budget_add(&f.engine.budget, -LIMIT_TAKEN);
    for (unsigned i = 0; i < n; i++) {
        fixture_check(&f, fixture_key("key-", i), 3000);
    }
    for (unsigned i = 0; i < n; i++) {
        if (i % 8 != 0) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("key-", i)), OUT_DELETED);
        }
    }
    fixture_settle(&f);
    move(0, ROUTE_SLOTS, 1);
    ck_assert_uint_eq(items_in(0), 0);
    for (unsigned i = 0; i < n; i += 8) {
        fixture_check(&f, fixture_key("key-", i), 3000);
    }
}

/* Two arrays that roll in parts of 64 KiB, which is a whole page everywhere. */
#define ROLL_ITEMS   24000
#define ROLL_BUCKETS (65536 / sizeof(struct table_bucket))

/* The index of shard 0 was made anew in parts by the last move, and is whole again. */
static void check_rolled(uint64_t buckets)
{
    const struct table *t = &f.engine.shards[0]->table;

    fixture_settle(&f);
    ck_assert_uint_eq(table_buckets(t), buckets);
    ck_assert_int_eq(t->phase, TABLE_STEADY);
    ck_assert_uint_eq(t->ready, TABLE_ALL);
    ck_assert_uint_ge(t->drained, ROLL_BUCKETS);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_RETIRED), 0);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_LEAVING), 0);
    for (unsigned i = 0; i < ROLL_ITEMS; i++) {
        ck_assert(fixture_has(&f, fixture_key("more-", i)));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), KEYS + ROLL_ITEMS);
    fixture_verify(&f);
}

TEST(a_large_index_is_resized_in_parts)
{
    start(2);
    move(0, ROUTE_SLOTS, 0);
    for (unsigned i = 0; i < ROLL_ITEMS; i++) {
        fixture_set(&f, fixture_key("more-", i), 0);
        if (i % 1000 == 0) {
            fixture_settle(&f);
        }
    }
    f.engine.shards[0]->table.part_buckets = ROLL_BUCKETS; /* in builds without checks, too */
    move(0, ROUTE_SLOTS / 2, 1);
    check_rolled(2048);
    move(0, ROUTE_SLOTS / 2, 0);
    check_rolled(4096);
}
