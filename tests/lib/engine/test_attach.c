/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach, shard/attach, keep, region: what an engine leaves in a file is what the next one has;
 * what has ended meanwhile is not. Files in which anything is doubtful: see
 * test_attach_doubts.c.
 */
#include "lib/engine/attach.h"

#include "lib/memory/chunks.h"
#include "lib/memory/keep.h"
#include "lib/reshard/migrate.h"
#include "lib/shard/expire.h"
#include "lib/shard/upkeep.h"
#include "lib/store/body.h"
#include "tests/lib/engine/attached.h"

/* ---- what comes back --------------------------------------------------------------------- */

TEST_FIXTURE(make_file, remove_file)

TEST(a_new_file_is_empty_and_ready)
{
    start_cold("new");
    ck_assert_uint_eq(a.companion, 0);
    fixture_set(&f, "a", 100);
    a.companion = 4711;
    stop();
    start_warm();
    ck_assert_uint_eq(a.companion, 4711);
    fixture_check(&f, "a", 100);
}

TEST(items_come_back_as_they_were)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 40000, 70001, 300000, 1048576};
    struct got was[8];

    start();
    for (unsigned i = 0; i < 8; i++) {
        fixture_set(&f, fixture_key("k", i), sizes[i]);
        was[i] = fixture_get(&f, fixture_key("k", i));
    }
    for (unsigned round = 0; round < 5; round++) {
        uint64_t bytes = fixture_counter(&f, CTR_item_bytes);

        stop();
        start_warm();
        ck_assert_uint_eq(a.items, 8);
        ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes), bytes);
        for (unsigned i = 0; i < 8; i++) {
            fixture_check(&f, fixture_key("k", i), sizes[i]);
            struct got g = fixture_get(&f, fixture_key("k", i));
            ck_assert_uint_eq(g.cas, was[i].cas);
            ck_assert_uint_eq(g.flags, was[i].flags);
        }
    }
}

/* How they were used, and in which order they came: what is evicted next follows from that. */
TEST(use_and_age_come_back)
{
    enum { SEGMENTS = 400 };
    static struct {
        uint32_t sealed_s, sealed_cas;
        uint8_t state, chain;
    } had[SEGMENTS];
    unsigned sealed = 0;
    uint8_t heat;
    uint32_t fresh;

    shards = 1;
    start();
    clock_advance(&f.engine.clock, 100000);
    for (unsigned i = 0; i < 20000; i++) {
        fixture_set(&f, fixture_key("k", i), 300);
        if (i % 1000 == 0) {
            clock_advance(&f.engine.clock, 1000);
        }
    }
    struct got got = fixture_use(&f, "k77", 3);
    heat = atomic_load(&got.item->heat);
    uint32_t access_s = item_used(got.item);
    const struct segment *segs = f.shard->memory.arena.segments;
    fresh = f.shard->memory.arena.fresh;
    ck_assert_uint_lt(fresh, SEGMENTS);
    for (uint32_t n = 1; n < fresh; n++) {
        had[n].sealed_s = segs[n].sealed_s;
        had[n].sealed_cas = segs[n].sealed_cas;
        had[n].state = (uint8_t)segs[n].state;
        had[n].chain = (uint8_t)segs[n].chain;
        sealed += segs[n].state == SEG_SEALED;
    }
    ck_assert_uint_gt(sealed, 50);
    stop();
    start_warm();
    got = fixture_get(&f, "k77");
    ck_assert_uint_eq(atomic_load(&got.item->heat), heat);
    ck_assert_uint_eq(item_used(got.item), access_s);
    segs = f.shard->memory.arena.segments;
    for (uint32_t n = 1; n < fresh; n++) {
        if (had[n].state == SEG_SEALED) {
            ck_assert_int_eq(segs[n].state, SEG_SEALED);
            ck_assert_uint_eq(segs[n].sealed_s, had[n].sealed_s);
            ck_assert_uint_eq(segs[n].sealed_cas, had[n].sealed_cas);
            ck_assert_uint_eq(segs[n].chain, had[n].chain);
        }
    }
}

TEST(what_is_stored_next_has_a_cas_of_its_own)
{
    uint64_t cas;

    start();
    fixture_set(&f, "a", 10);
    cas = fixture_get(&f, "a").cas;
    stop();
    start_warm();
    fixture_set(&f, "b", 10);
    ck_assert_uint_gt(fixture_get(&f, "b").cas, cas);
}

TEST(deleted_and_replaced_values_do_not_come_back)
{
    start();
    fixture_set(&f, "gone", 100);
    fixture_set(&f, "large", 500000);
    fixture_set(&f, "other", 100);
    ck_assert_int_eq(fixture_delete(&f, "gone"), OUT_DELETED);
    ck_assert_int_eq(fixture_delete(&f, "large"), OUT_DELETED);
    fixture_set(&f, "other", 200);
    stop();
    start_warm();
    ck_assert_uint_eq(a.items, 1);
    ck_assert(!fixture_has(&f, "gone"));
    ck_assert(!fixture_has(&f, "large"));
    fixture_check(&f, "other", 200);
}

TEST(deadlines_are_exact_over_any_number_of_restarts)
{
    start();
    msec_t now = fixture_now(&f);
    fixture_set_until(&f, "soon", 100, now + 20000);
    fixture_set_until(&f, "next", 100, now + 20001 + 60000);
    fixture_set_until(&f, "large", 300000, now + 20000);
    for (unsigned i = 0; i < 10; i++) {
        clock_advance(&f.engine.clock, 1000);
        stop();
        start_warm();
        /* The test itself takes time, too. */
        ck_assert_int_ge(fixture_now(&f), now + 1000);
        ck_assert_int_lt(fixture_now(&f), now + 1000 * (i + 1) + 9000);
        ck_assert_int_eq(fixture_get(&f, "soon").deadline, now - i * 0 + 20000);
    }
    clock_advance(&f.engine.clock, now + 20000 - fixture_now(&f));
    stop();
    start_warm();
    ck_assert_uint_eq(a.expired, 2);
    ck_assert(!fixture_has(&f, "soon"));
    ck_assert(!fixture_has(&f, "large"));
    fixture_check(&f, "next", 100);
    clock_advance(&f.engine.clock, now + 80001 - fixture_now(&f));
    fixture_expire(&f);
    ck_assert(!fixture_has(&f, "next"));
}

TEST(a_step_of_the_wall_clock_changes_nothing)
{
    static const msec_t steps[] = {3600000, -7200000, 3600000};

    start();
    fixture_set_until(&f, "soon", 100, fixture_now(&f) + 60000);
    fixture_set_until(&f, "later", 100, fixture_now(&f) + 4000000);
    fixture_set_until(&f, "far", 100, 80 * DEADLINE_LOW);
    for (unsigned i = 0; i < 3; i++) {
        clock_step_wall(&f.engine.clock, steps[i]);
        stop();
        start_warm();
        ck_assert_uint_lt(a.away_ms, 60000);
        fixture_check(&f, "soon", 100);
        fixture_check(&f, "later", 100);
        fixture_check(&f, "far", 100);
        ck_assert_int_eq(fixture_get(&f, "far").deadline, 80 * DEADLINE_LOW);
    }
}

TEST(flushed_items_do_not_come_back)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_set(&f, "b", 500000);
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "c", 100);
    stop();
    start_warm();
    ck_assert(!fixture_has(&f, "a"));
    ck_assert(!fixture_has(&f, "b"));
    fixture_check(&f, "c", 100);
}

TEST(a_flush_to_come_comes)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_flush(&f, fixture_now(&f) + 3600000);
    stop();
    start_warm();
    fixture_check(&f, "a", 100);
    clock_advance(&f.engine.clock, 3600001);
    ck_assert(!fixture_has(&f, "a"));
    fixture_set(&f, "b", 100);
    stop();
    start_warm();
    ck_assert(!fixture_has(&f, "a"));
    fixture_check(&f, "b", 100);
}

TEST(a_flush_that_came_meanwhile_has_come)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_set(&f, "b", 500000);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    fixture_flush(&f, fixture_now(&f) + 1000);
    clock_advance(&f.engine.clock, 1000);
    stop();
    ck_assert_uint_gt(allocated(), 3 * MIB);
    start_warm();
    ck_assert_uint_lt(allocated(), MIB);
    ck_assert_uint_eq(a.flushed, 3002);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    ck_assert(!fixture_has(&f, "a"));
    fixture_set(&f, "c", 100);
    stop();
    start_warm();
    fixture_check(&f, "c", 100);
}

/* Its instant is tried before, while and after items are taken over. */
TEST(a_flush_that_comes_at_the_start_has_come)
{
    for (unsigned ms = 0; ms < 24; ms++) {
        start();
        for (unsigned i = 0; i < 20000; i++) {
            fixture_set(&f, fixture_key("k", i), 10);
        }
        fixture_flush(&f, fixture_now(&f) + 1 + ms);
        stop();
        start_warm();
        clock_advance(&f.engine.clock, 1 + ms); /* at least that long ago */
        for (unsigned i = 0; i < 20000; i++) {
            ck_assert(!fixture_has(&f, fixture_key("k", i)));
        }
        stop();
    }
}

TEST(items_may_be_taken_over_as_stale)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_set(&f, "b", 300000);
    stop();
    marks_stale = true;
    start_warm();
    ck_assert(fixture_get(&f, "a").is_stale && !fixture_get(&f, "a").is_won);
    ck_assert(fixture_get(&f, "b").is_stale);
}

/* No client was told to renew it since the start. */
TEST(a_stale_one_can_be_won_again)
{
    struct erase stale = {.marks_stale = true};
    struct fetch get = {0};

    start();
    fixture_set(&f, "k", 10);
    ck_assert_int_eq(fixture_erase(&f, "k", &stale), OUT_DELETED);
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(fixture_get(&f, "k").is_won);
    stop();
    start_warm();
    ck_assert(fixture_get(&f, "k").is_stale && fixture_get(&f, "k").is_won);
    stop();
    marks_stale = true;
    start_warm();
    ck_assert(fixture_get(&f, "k").is_stale && !fixture_get(&f, "k").is_won);
}

/* The home worker sleeps until the first deadline of what was taken over. */
TEST(the_first_deadline_is_known)
{
    shards = 1;
    start();
    msec_t at = fixture_now(&f) + 50000;
    fixture_set_until(&f, "k", 10, at);
    stop();
    start_warm();
    ck_assert_int_le(shard_next_due(f.shard), at);
    ck_assert_int_gt(shard_next_due(f.shard), 0);
}

TEST(what_is_not_used_takes_no_room_when_it_is_left)
{
    start();
    for (unsigned i = 0; i < 10000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    ck_assert_uint_gt(allocated(), 5 * MIB);
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "a", 100);
    stop();
    ck_assert_uint_lt(allocated(), MIB);
    start_warm();
    fixture_check(&f, "a", 100);
}

/* Where the file system is full, a page that is first written or read ends the process. */
TEST(pages_that_are_missing_are_allocated)
{
    static const char zeros[300000];
    struct put p = {.mode = STORE_SET, .key = "zeros", .ptr = zeros, .len = sizeof(zeros)};

    start();
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    fixture_set(&f, "a", 100);
    stop();
    uint64_t bytes = allocated();
    dig_holes();
    ck_assert_uint_lt(allocated(), bytes - 200000);
    start_warm();
    ck_assert_uint_ge(allocated(), bytes);
    fixture_check(&f, "a", 100);
    ck_assert_mem_eq(fixture_get(&f, "zeros").value, zeros, sizeof(zeros));
}

static uint64_t held_of(struct shard *s)
{
    uint64_t held;

    shard_enter(s); /* the reclaimer makes stock */
    held = s->memory.arena.held;
    shard_leave(s);
    return held;
}

/* What others had taken of the file system they may give back. */
TEST(a_shard_that_was_refused_memory_asks_again_later)
{
    uint64_t held;

    shards = 1;
    limit = 64 * MIB;
    start();
    struct shard *s = f.engine.shards[0];
    fixture_set(&f, "a", 1000);
    fixture_settle(&f);
    shard_enter(s);
    held = s->memory.arena.held_max = s->memory.arena.held;
    shard_leave(s);
    for (unsigned i = 0; i < 20000; i++) {
        (void)fixture_try(&f, fixture_key("k", i), 1000, MSEC_NEVER);
    }
    fixture_settle(&f);
    ck_assert_uint_le(held_of(s), held);
    clock_advance(&f.engine.clock, 10000);
    fixture_settle(&f);
    for (unsigned i = 0; i < 20000; i++) {
        (void)fixture_try(&f, fixture_key("n", i), 1000, MSEC_NEVER);
    }
    ck_assert_uint_gt(held_of(s), held + 20);
}

TEST(moved_slots_stay_where_they_are)
{
    start();
    for (unsigned i = 0; i < 200; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    ck_assert_int_eq(engine_move_slots(&f.engine, 100, 1500, 1), MF_OK);
    stop();
    start_warm();
    for (unsigned i = 0; i < 200; i++) {
        fixture_check(&f, fixture_key("k", i), 100);
    }
}

static size_t mixed_len(unsigned i)
{
    static const size_t len[] = {100, 700, 3000, 20000, 150000, 400};

    return len[i % 6] + i % 40;
}

/* In runs, of a full cache, to and fro: segments went from file to file with it. */
TEST(what_was_moved_in_a_full_cache_is_there)
{
    enum { KEYS = 2500 };
    static bool had[KEYS];
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    unsigned found = 0;

    start();
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set_until(&f, fixture_key("k", i), mixed_len(i),
                          i % 3 == 0 ? fixture_now(&f) + 100000 : MSEC_NEVER);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 0);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
            plan.to[i] = (uint16_t)(round == 1 ? 1 : (i / 64 + round / 2) % 2);
        }
        ck_assert_int_eq(engine_move(&f.engine, &cfg, NULL), MF_OK);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        if (i % 7 == 0) {
            (void)fixture_delete(&f, fixture_key("k", i));
        }
        had[i] = fixture_has(&f, fixture_key("k", i));
        found += had[i];
    }
    ck_assert_uint_gt(found, KEYS / 20);
    stop();
    start_warm();
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(fixture_has(&f, fixture_key("k", i)) == had[i]);
        if (had[i]) {
            fixture_check(&f, fixture_key("k", i), mixed_len(i));
        }
    }
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = 0;
    }
    ck_assert_int_eq(engine_move(&f.engine, &cfg, NULL), MF_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)) || had[i]);
    }
}

TEST(slots_that_were_prepared_to_move_stay)
{
    start();
    fixture_set(&f, "k", 100);
    ck_assert_int_eq(router_publish(&f.engine.router, 0, ROUTE_SLOTS / 2, route_prepared(0, 1)),
                     MF_OK);
    stop();
    start_warm();
    fixture_check(&f, "k", 100);
    rcu_begin();
    const struct route *rt = router_read(&f.engine.router);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        ck_assert(!route_is_moving(&rt->slot[i]));
    }
    rcu_end();
}

/* Move to a shard until this number of items has left. */
static void move_some(uint16_t to, uint64_t items)
{
    struct move_plan plan;

    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = to;
    }
    fixture_cancel_move(&f, &plan, items);
}

TEST(a_move_that_was_cut_short_is_finished)
{
    enum { KEYS = 2000 };
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan, .finishes = true};
    struct move_info info;
    struct move *m;

    move_plan_init(&plan);
    start();
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    stop();
    start_warm();
    ck_assert_uint_eq(a.moving, 0);
    /* As a move leaves them that was cancelled before it came to an item. */
    fixture_begin_move(&f);
    for (unsigned i = 0; i < KEYS; i += 3) {
        fixture_set(&f, fixture_key("k", i), 100); /* in the other shard */
    }
    stop();
    start_warm();
    ck_assert_uint_eq(a.moving, ROUTE_SLOTS / 2);
    ck_assert_uint_gt(ctr_get(&f.engine.shards[0]->counters, CTR_curr_items), 0);
    ck_assert_int_eq(move_start(&m, &f.engine, &cfg), MF_OK);
    WAIT_UNTIL((move_info(m, &info), info.state > MOVE_RUNS));
    ck_assert_int_eq(info.state, MOVE_DONE);
    ck_assert_uint_eq(info.slots_done, a.moving);
    ck_assert_int_eq(move_end(&m), MF_OK);
    ck_assert_uint_eq(ctr_get(&f.engine.shards[0]->counters, CTR_curr_items), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_check(&f, fixture_key("k", i), 100);
    }
    stop();
    start_warm();
    ck_assert_uint_eq(a.moving, 0);
    fixture_check(&f, fixture_key("k", 0), 100);
}

/* A model: what was stored is there, what was deleted is not, in whichever shard it is. */
TEST(moves_that_were_cut_short_go_on_in_another_life)
{
    enum { KEYS = 400, LIVES = 60 };
    static size_t len[KEYS];
    static bool has[KEYS];
    struct rng r;

    rng_init(&r, rng_seed());
    shards = 3;
    limit = 64 * MIB;
    memset(has, 0, sizeof(has));
    start();
    for (unsigned life = 0; life < LIVES; life++) {
        for (unsigned i = 0; i < 200; i++) {
            unsigned k = rng_below(&r, KEYS);

            if (rng_below(&r, 4) == 0) {
                (void)fixture_delete(&f, fixture_key("k", k));
                has[k] = false;
            } else {
                len[k] = mixed_len(rng_below(&r, 1000));
                fixture_set(&f, fixture_key("k", k), len[k]);
                has[k] = true;
            }
        }
        if (rng_below(&r, 20) == 0) {
            fixture_flush(&f, fixture_now(&f));
            memset(has, 0, sizeof(has));
        }
        if (rng_below(&r, 4) != 0) {
            move_some((uint16_t)rng_below(&r, 3), rng_below(&r, KEYS));
        }
        stop();
        shards = 1 + rng_below(&r, 4);
        start_warm();
        for (unsigned k = 0; k < KEYS; k++) {
            ck_assert_msg(fixture_has(&f, fixture_key("k", k)) == has[k], "key %u, life %u", k,
                          life);
            if (has[k]) {
                fixture_check(&f, fixture_key("k", k), len[k]);
            }
        }
    }
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 2), MF_OK);
    for (unsigned k = 0; k < KEYS; k++) {
        ck_assert(fixture_has(&f, fixture_key("k", k)) == has[k]);
    }
    ck_assert_uint_eq(ctr_get(&f.engine.shards[0]->counters, CTR_curr_items), 0);
}

TEST(an_upload_that_never_ended_is_not_there)
{
    start();
    fixture_set(&f, "a", 100);
    rcu_begin();
    struct body *body = body_begin(&f.engine, fixture_hash(&f, "b"), 200000);
    rcu_end();
    ck_assert_ptr_nonnull(body);
    body_abort(&body);
    stop();
    start_warm();
    ck_assert_uint_eq(a.items, 1);
}

/* ---- other settings ---------------------------------------------------------------------- */

TEST(a_lower_limit_evicts_and_a_higher_one_does_not)
{
    limit = 32 * MIB;
    start();
    for (unsigned i = 0; i < 20000; i++) {
        (void)fixture_try(&f, fixture_key("k", i), 1000, MSEC_NEVER);
    }
    uint64_t items = fixture_counter(&f, CTR_curr_items);
    stop();
    limit = 64 * MIB;
    start_warm();
    ck_assert_uint_eq(a.items, items);
    ck_assert_uint_eq(a.over_bytes, 0);
    limit = (uint64_t)fixture_used(&f) - MIB; /* less than what may be overdrawn */
    stop();
    start_warm();
    ck_assert_uint_gt(a.over_bytes, 0);
    ck_assert_uint_le(a.over_bytes, MIB);
    stop();
    limit = 16 * MIB;
    start();
    ck_assert_msg(a.state == ATTACH_WARM, "%s", a.why);
    ck_assert(budget_is_lowered(&f.engine.budget)); /* in steps, as while it runs */
    for (unsigned i = 0; i < 1000 && fixture_used(&f) > (int64_t)limit; i++) {
        fixture_grace(&f);
        (void)shard_maintain(f.engine.shards[i % 2], fixture_now(&f), 0);
    }
    for (unsigned i = 0; i < 2000; i++) {
        (void)fixture_try(&f, fixture_key("n", i), 1000, MSEC_NEVER);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_curr_items), 1000);
    ck_assert_uint_lt(fixture_counter(&f, CTR_curr_items), items);
}

TEST(the_shards_are_those_that_were_left)
{
    static const uint32_t wanted[] = {1, 8, 2, 4, 3};

    shards = 4;
    start();
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("k", i), 100 + i * 400);
    }
    for (unsigned round = 0; round < 5; round++) {
        stop();
        shards = wanted[round];
        start_warm();
        ck_assert_uint_eq(f.engine.shard_count, 4);
        ck_assert_uint_eq(a.items, 100);
        for (unsigned i = 0; i < 100; i++) {
            fixture_check(&f, fixture_key("k", i), 100 + i * 400);
        }
    }
    stop();
    /* Each shard needs something to work with, but items may be moved to fewer. */
    shards = 1;
    limit = 3 * MIB;
    start_warm();
    ck_assert_uint_eq(f.engine.shard_count, 4);
    ck_assert_uint_eq(a.items, 100);
}

/* Another shard can get its place without moving those that are there. */
TEST(a_shard_has_the_same_place_however_many_there_are)
{
    uint64_t at;

    shards = 1;
    limit = 12 * MIB; /* segments are as long for a share of 3 MiB */
    start();
    at = a.region[0].at;
    stop();
    remove_file();
    make_file();
    shards = 4;
    start();
    ck_assert_uint_eq(a.region[0].at, at);
    for (unsigned i = 1; i < 4; i++) {
        ck_assert_uint_eq(a.region[i].at, at + i * a.region[0].bytes);
    }
}

/* Large segments were made for large shares. */
TEST(a_share_has_some_segments)
{
    shards = 4;
    limit = 512 * MIB;
    start();
    fixture_set(&f, "a", 100);
    stop();
    limit = 8 * MIB;
    start_warm();
    fixture_check(&f, "a", 100);
    stop();
    limit = 8 * MIB - 1;
    start_cold("does not suit its 4 shards");
}

/* The next process knows of no prefixes, so nothing is left that they hide. */
TEST(what_a_prefix_has_flushed_is_not_left)
{
    start();
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("p:", i), 10);
        fixture_set(&f, fixture_key("q:", i), 10);
    }
    fixture_set(&f, "p:large", 300000);
    fixture_flush_prefix(&f, "p:");
    fixture_set(&f, "p:7", 20);
    stop();
    start_warm();
    fixture_check(&f, "p:7", 20);
    ck_assert(!fixture_has(&f, "p:6") && !fixture_has(&f, "p:large"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 3001);
}

static int64_t boot_ahead_s;

int64_t __real_clock_boot_ns(void);
int64_t __wrap_clock_boot_ns(void);

int64_t __wrap_clock_boot_ns(void)
{
    return __real_clock_boot_ns() + boot_ahead_s * 1000000000;
}

TEST(what_is_too_old_is_not_used)
{
    start();
    fixture_set(&f, "a", 100);
    stop();
    max_age_s = 36000;
    boot_ahead_s = 18000;
    start_warm();
    stop();
    change(0, 0); /* the file stays as it is */
    boot_ahead_s += 36001;
    start_cold("restart_max_age");
    boot_ahead_s = 0;
}
