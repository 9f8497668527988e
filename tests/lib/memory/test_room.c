/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room: the budget under all kinds of load, a cache that must not evict, a limit that changes,
 * and values that one shard has no room for.
 */

#include <sys/mman.h>
#include <sys/syscall.h>

#include "lib/engine/router.h"
#include "lib/memory/blocks.h"
#include "lib/shard/upkeep.h"
#include "tests/lib/fixture.h"

static struct fixture f;

static void start(uint32_t shards, uint64_t limit, bool evictions)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit;
    cfg.item_size_max = limit + 1024;
    if (!evictions) {
        fixture_policy(CHOICE_NOEVICTION);
    }
    fixture_start(&f, &cfg);
}

/* Store new keys until there is no room; returns how many were stored. */
static unsigned fill(const char *kind, size_t len)
{
    for (unsigned n = 0;; n++) {
        ck_assert_uint_lt(n, 1000000);
        if (fixture_try(&f, fixture_key(kind, n), len, MSEC_NEVER) != OUT_STORED) {
            return n;
        }
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
}

/* ---- nothing may be evicted -------------------------------------------------------------- */

static const size_t lens[] = {10, 300, 1900, 5000, 40000};

TEST_LOOP(a_full_cache_says_so_and_loses_nothing, 5)
{
    const size_t len = lens[_i];

    start(1, 4 * MIB, false);
    unsigned n = fill("k", len);
    /* The index of many small items is counted when it grows, whatever room there is. */
    ck_assert_int_le(fixture_used(&f), 4 * (int64_t)MIB + (len < 300 ? MIB : 0));
    /* Most of the limit was used before, or the index of small items could not double. */
    ck_assert_uint_ge(fixture_counter(&f, CTR_item_bytes),
                      len < 300 ? 4 * MIB * 3 / 5 : 4 * MIB * 3 / 4);
    for (unsigned i = 0; i < n; i++) {
        fixture_check(&f, fixture_key("k", i), len);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), n);
    fixture_verify(&f);

    /* Deletes make room for about as much as they freed, in any size. */
    for (unsigned i = 0; i < n; i += 4) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    ck_assert_uint_ge(fill("again", len), n / 10);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(fixture_has(&f, fixture_key("k", i)) == (i % 4 != 0));
    }
}

TEST(deletes_of_one_size_make_room_for_another)
{
    start(1, 8 * MIB, false);
    unsigned n = fill("small", 100);
    for (unsigned i = 0; i < n; i += 2) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("small", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    /* Half of 8 MiB is dead; a value of a quarter of the limit fits. */
    fixture_set(&f, "large", 2 * MIB);
    fixture_check(&f, "large", 2 * MIB);
    for (unsigned i = 1; i < n; i += 2) {
        fixture_check(&f, fixture_key("small", i), 100);
    }
}

TEST(overwrites_go_on_in_a_full_cache)
{
    unsigned failed = 0;

    start(1, 8 * MIB, false);
    unsigned n = fill("k", 500);
    for (unsigned i = 0; i < n; i++) {
        failed += fixture_try(&f, fixture_key("k", i), 500, MSEC_NEVER) != OUT_STORED;
    }
    /*
     * The new value is made before the old one dies: only a set that fails at first frees that
     * room.
     */
    ck_assert_uint_le(failed, 4);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), n - failed);
    /* Except for a few, smaller ones find holes to split. */
    for (unsigned i = 0; i < n; i++) {
        failed += fixture_try(&f, fixture_key("k", i), 300, MSEC_NEVER) != OUT_STORED;
    }
    ck_assert_uint_le(failed, n / 20);
}

/*
 * After a set that failed, the old value must not be served; every other failure changes
 * nothing.
 */
TEST(a_failed_set_takes_the_old_value_away)
{
    static char value[60000];
    struct put p = {.ptr = value, .len = sizeof(value)};

    start(1, 8 * MIB, false);
    fixture_set(&f, "set", 100);
    fixture_set(&f, "replace", 100);
    fixture_set(&f, "append", 100);
    fixture_set(&f, "cas", 100);
    (void)fill("large", 60000);
    (void)fill("small", 10);
    p.key = "set";
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NO_MEMORY);
    ck_assert(!fixture_has(&f, "set"));
    p.key = "add";
    p.mode = STORE_ADD;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NO_MEMORY);
    ck_assert(!fixture_has(&f, "add"));
    p.key = "replace";
    p.mode = STORE_REPLACE;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NO_MEMORY);
    fixture_check(&f, "replace", 100);
    p.key = "append";
    p.mode = STORE_APPEND;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NO_MEMORY);
    fixture_check(&f, "append", 100);
    p.key = "cas";
    p.mode = STORE_CAS;
    p.cas = fixture_get(&f, "cas").cas;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NO_MEMORY);
    fixture_check(&f, "cas", 100);
}

/* ---- the budget -------------------------------------------------------------------------- */

/*
 * Arrays of index and wheel are counted when they are made, and a put makes room for them. Only
 * memory that waits for a grace period may exceed the limit, up to the overdraft. What has come
 * back is the next put's before the overdraft is paid back, so for a time more than waits may
 * be over. Returns by how much.
 */
static int64_t check_budget(int64_t limit)
{
    int64_t used = fixture_used(&f);
    int64_t waits = budget_part(&f.engine.budget, BUDGET_RETIRED);
    int64_t overdraft = memory_overdraw(&f.shard->memory);

    ck_assert_int_le(used, limit + overdraft + limit / 16);
    waits = waits < overdraft ? waits : overdraft;
    return used - waits > limit ? used - waits - limit : 0;
}

TEST_LOOP(the_budget_is_kept_whatever_comes, 4)
{
    static const struct {
        uint32_t shards;
        size_t limit;
    } rows[] = {{1, 4 * MIB}, {1, 16 * MIB}, {4, 16 * MIB}, {3, 64 * MIB}};
    const int64_t limit = (int64_t)rows[_i].limit;
    const unsigned puts = 4000;
    int64_t over = 0;
    struct rng rng;

    rng_init(&rng, rng_seed());
    start(rows[_i].shards, rows[_i].limit, true);
    for (unsigned i = 0; i < puts; i++) {
        size_t len = rng_below(&rng, 20) == 0 ? rng_below(&rng, 300000) : rng_below(&rng, 3000);

        fixture_set(&f, fixture_key("k", (unsigned)rng_below(&rng, 5000)), len);
        over += check_budget(limit);
        if (rng_below(&rng, 40) == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_int_le(over / puts, limit / 8);
    fixture_settle(&f);
    /* An overdraft is paid back with what stays free for a while. */
    for (unsigned i = 0; i < 100 && fixture_used(&f) > limit; i++) {
        clock_advance(&f.engine.clock, 50);
        fixture_settle(&f);
    }
    ck_assert_int_le(fixture_used(&f), limit);
}

/* Nothing dies while a cache is filled for the first time: it must evict all the same. */
TEST(a_first_filling_without_a_grace_period_evicts)
{
    start(1, 16 * MIB, true);
    for (unsigned i = 0; i < 1600; i++) {
        fixture_set(&f, fixture_key("k", i), 15000);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 300);
}

/* Below that stores would be refused: what is open and what is kept free takes all there is. */
TEST(a_limit_is_no_lower_than_eight_segments_a_shard)
{
    start(1, 128 * MIB, true);
    ck_assert_uint_eq(segment_bytes(&f.shard->memory.arena), 256 * KIB);
    ck_assert(!engine_set_limit(&f.engine, 2 * MIB - 1));
    ck_assert(engine_set_limit(&f.engine, 2 * MIB));
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set(&f, fixture_key("k", i), 1500);
    }
}

TEST(a_lower_limit_is_reached_and_a_higher_one_used)
{
    start(2, 16 * MIB, true);
    ck_assert(!engine_set_limit(&f.engine, MIB));
    for (unsigned i = 0; i < 12000; i++) {
        fixture_set(&f, fixture_key("k", i), 1500);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_int_ge(fixture_used(&f), 14 * (int64_t)MIB);
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    for (unsigned i = 0; i < 3000 && fixture_used(&f) > 8 * (int64_t)MIB; i++) {
        clock_advance(&f.engine.clock, 50);
        fixture_grace(&f);
        for (uint32_t k = 0; k < 2; k++) {
            (void)shard_maintain(f.engine.shards[k], fixture_now(&f), 100);
        }
    }
    ck_assert_int_le(fixture_used(&f), 8 * (int64_t)MIB);
    fixture_verify(&f);
    ck_assert_uint_gt(fixture_counter(&f, CTR_segments_discarded), 0);
    unsigned items = (unsigned)fixture_counter(&f, CTR_curr_items);
    ck_assert_uint_gt(items, 3000);

    /* It stays at the lower limit. */
    for (unsigned i = 20000; i < 24000; i++) {
        fixture_set(&f, fixture_key("k", i), 1500);
        ck_assert_int_le(fixture_used(&f),
                         8 * (int64_t)MIB + memory_overdraw(&f.shard->memory) + 512 * 1024);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert(engine_set_limit(&f.engine, 32 * MIB));
    fixture_settle(&f);
    uint64_t before = fixture_counter(&f, CTR_evictions);

    for (unsigned i = 30000; i < 42000; i++) {
        fixture_set(&f, fixture_key("k", i), 1500);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    /* The shards are not equally full, so one of them may evict a little. */
    ck_assert_uint_le(fixture_counter(&f, CTR_evictions) - before, 600);
    ck_assert_int_ge(fixture_used(&f), 20 * (int64_t)MIB);
}

/* Segments that stay free for a while go back to the system. */
TEST(idle_memory_goes_back)
{
    const struct cycle_config cap = {.effort = 1, .hz = 10, .slice_us = 1000, .cpu_pct = 100};

    start(1, 16 * MIB, true);
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("k", i), 100000);
    }
    int64_t full = fixture_used(&f);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    ck_assert_int_eq(fixture_used(&f), full);
    for (unsigned i = 0; i < 200; i++) {
        clock_advance(&f.engine.clock, 100);
        fixture_settle(&f);
        (void)shard_tidy(f.shard, &cap, fixture_now(&f));
    }
    ck_assert_int_lt(fixture_used(&f), full - 8 * (int64_t)MIB);
}

/* ---- room of other shards ---------------------------------------------------------------- */

TEST(half_of_the_limit_in_one_value)
{
    start(4, 32 * MIB, true);
    for (unsigned i = 0; i < 20000; i++) {
        fixture_set(&f, fixture_key("k", i), 2000);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        fixture_set(&f, i % 2 == 0 ? "large" : "other", 16 * MIB - i);
        fixture_check(&f, i % 2 == 0 ? "large" : "other", 16 * MIB - i);
        (void)check_budget(32 * (int64_t)MIB);
        fixture_verify(&f);
    }
    /* The other shards continue with the memory that is left to them. */
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&f, fixture_key("n", i), 2000);
        fixture_check(&f, fixture_key("n", i), 2000);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
}

TEST(more_than_the_limit_is_refused_without_harm)
{
    start(1, 8 * MIB, true);
    fixture_set(&f, "k", 100);
    ck_assert_int_eq(fixture_try(&f, "large", 8 * MIB - 1, MSEC_NEVER), OUT_NO_MEMORY);
    ck_assert(!fixture_has(&f, "large"));
    fixture_settle(&f);
    fixture_verify(&f);
    fixture_set(&f, "large", 6 * MIB);
    fixture_check(&f, "large", 6 * MIB);
}

/* ---- what a put waits for ---------------------------------------------------------------- */

/* A shard at the end of its range evicts its own, and takes nothing from others. */
TEST(a_shard_at_the_end_of_its_range_evicts_its_own)
{
    start(2, 16 * MIB, true);
    struct arena *a = &f.engine.shards[0]->memory.arena;
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    fixture_settle(&f);
    a->held_max = a->held;
    uint64_t others = ctr_get(&f.engine.shards[1]->counters, CTR_curr_items);
    for (unsigned i = 1000; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
        fixture_check(&f, fixture_key("k", i), 1000);
    }
    ck_assert_uint_gt(ctr_get(&f.engine.shards[0]->counters, CTR_evictions), 0);
    ck_assert_uint_eq(ctr_get(&f.engine.shards[1]->counters, CTR_evictions), 0);
    ck_assert_uint_gt(ctr_get(&f.engine.shards[1]->counters, CTR_curr_items), others + 500);
}

/* The nth key from a number on that a shard has. */
static const char *key_of(const struct shard *s, const char *kind, unsigned *n)
{
    for (;;) {
        const char *key = fixture_key(kind, (*n)++);
        uint64_t hash = engine_hash(&f.engine, key, strlen(key));

        rcu_begin();
        const struct route *rt = router_read(&f.engine.router);
        bool is_here = rt->shards[route_slot(rt, hash)->put] == s;
        rcu_end();
        if (is_here) {
            return key;
        }
    }
}

/*
 * The index of one shard has no room until a grace period is over: nothing is evicted from
 * another that holds more.
 */
TEST(waiting_for_the_index_evicts_nothing)
{
    struct store st = {
        .mode = STORE_SET, .deadline = MSEC_NEVER, .value = span_of("", 0), .may_wait = true};
    enum outcome out = OUT_STORED;
    unsigned stored = 0;
    unsigned n = 0;

    start(2, 64 * MIB, true);
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&f, key_of(f.engine.shards[1], "full", &n), 4000);
    }
    for (n = 0; out == OUT_STORED; stored++) {
        const char *key = key_of(f.engine.shards[0], "k", &n);

        ck_assert_uint_lt(n, 1000000);
        st.key = span_of(key, strlen(key));
        st.hash = engine_hash(&f.engine, key, strlen(key));
        rcu_begin();
        out = engine_store(&f.engine, &st, fixture_now(&f));
        rcu_end();
    }
    ck_assert_int_eq(out, OUT_WAIT);
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 2000 + stored - 1);
    fixture_set(&f, fixture_key("k", n - 1), 0);
}

/*
 * Very many items are gone and the index has begun to shrink, which takes as long as the rest
 * take to move. That is room to come, but no store waits for it.
 */
TEST(nobody_waits_until_an_index_has_shrunk)
{
    static char value[300000];
    struct store st = {.mode = STORE_SET,
                       .deadline = MSEC_NEVER,
                       .value = span_of(value, sizeof(value)),
                       .may_wait = true};

    start(1, 32 * MIB, true);
    for (unsigned i = 0; i < 300000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 1, fixture_now(&f) + 1000);
        if (i % 64 == 0) {
            fixture_grace(&f);
            shard_make_wanted(f.shard);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    clock_advance(&f.engine.clock, 1000);
    fixture_expire(&f);
    fixture_grace(&f);
    shard_make_wanted(f.shard);
    ck_assert_int_gt(budget_part(&f.engine.budget, BUDGET_LEAVING), MIB);
    /* More than fits: the rest takes the room of what is dead, then of those before. */
    for (unsigned i = 0; i < 200; i++) {
        const char *key = fixture_key("large", i);
        enum outcome out = OUT_WAIT;

        st.key = span_of(key, strlen(key));
        st.hash = fixture_hash(&f, key);
        for (unsigned tries = 0; out == OUT_WAIT && tries < 8; tries++) {
            fixture_grace(&f);
            rcu_begin();
            out = engine_store(&f.engine, &st, fixture_now(&f));
            rcu_end();
        }
        ck_assert_int_eq(out, OUT_STORED);
        ck_assert_int_gt(budget_part(&f.engine.budget, BUDGET_LEAVING), MIB);
    }
    fixture_settle(&f);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_LEAVING), 0);
}

/* ---- overhead ---------------------------------------------------------------------------- */

TEST(the_ring_fits_the_limit)
{
    start(1, 64 * MIB, true);
    const struct blocks *b = &f.shard->memory.blocks;
    ck_assert_uint_eq(b->ring_mask + 1, 16384);
    for (unsigned i = 0; i < 6000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    for (unsigned i = 0; i < 6000; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    int64_t used = fixture_used(&f);
    ck_assert(engine_set_limit(&f.engine, 4 * MIB));
    ck_assert_uint_eq(b->ring_mask + 1, 1024);
    ck_assert_uint_eq(b->ring_tail - b->ring_head, 1024);
    ck_assert_int_eq(fixture_used(&f), used - (16384 - 1024) * (int64_t)sizeof(struct death));
    fixture_verify(&f);
    ck_assert(engine_set_limit(&f.engine, 1024 * MIB));
    ck_assert_uint_eq(b->ring_mask + 1, 131072);
    ck_assert_uint_eq(b->ring_tail - b->ring_head, 1024);
    fixture_settle(&f);
}

/* The limit is set when the next memory is mapped; 0: it is not. */
static uint64_t limit_to_come;

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    uint64_t limit = limit_to_come;

    limit_to_come = 0;
    if (limit != 0) {
        ck_assert(engine_set_limit(&f.engine, limit));
    }
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

TEST(the_ring_fits_a_limit_that_is_set_while_it_is_made)
{
    start(1, 64 * MIB, true);
    const struct blocks *b = &f.shard->memory.blocks;
    limit_to_come = 1024 * MIB;
    blocks_fit_ring(&f.shard->memory);
    ck_assert_uint_eq(limit_to_come, 0);
    shard_make_wanted(f.shard);
    ck_assert_uint_eq(b->ring_mask + 1, 131072);
}

/* Also one of a policy that is not at work any more: no thread tries to replace it for ever. */
TEST_LOOP(a_flush_leaves_a_small_past, 2)
{
    start(1, 8 * MIB, true);
    for (unsigned i = 0; i < 200000; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    fixture_settle(&f);
    shard_enter(f.shard);
    uint64_t before = evict_past_bytes(&f.shard->memory.evict);
    shard_leave(f.shard);
    ck_assert_uint_gt(before, 256 * KIB);
    fixture_policy(_i == 0 ? CHOICE_DENSITY : CHOICE_ALLKEYS_LRU);
    fixture_flush(&f, fixture_now(&f));
    fixture_settle(&f);
    ck_assert(!shard_wants_work(f.shard));
    shard_enter(f.shard);
    ck_assert_uint_lt(evict_past_bytes(&f.shard->memory.evict), 32 * KIB);
    shard_leave(f.shard);
}

/* Whatever is above it: the next stores need not wait until all of that is gone. */
TEST(a_much_lower_limit_does_not_keep_stores_out)
{
    static const char value[1400];
    struct put hasty = {.ptr = value, .len = sizeof(value), .is_hasty = true};

    start(1, 64 * MIB, true);
    for (unsigned i = 0; i < 40000; i++) {
        fixture_set(&f, fixture_key("k", i), 1400);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_int_ge(fixture_used(&f), 50 * (int64_t)MIB);
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    for (unsigned i = 0; i < 60000 && budget_is_over(&f.engine.budget); i++) {
        hasty.key = fixture_key("n", i);
        ck_assert_int_eq(fixture_store(&f, &hasty, NULL), OUT_STORED);
        if (i % 16 == 0) {
            clock_advance(&f.engine.clock, 5);
            fixture_grace(&f);
        }
    }
    ck_assert(!budget_is_over(&f.engine.budget));
}

static void no_wake(struct waiter *w)
{
}

static int64_t bound(void)
{
    return atomic_load(&f.engine.budget.bound_bytes);
}

/* Else what is freed would be given back again and again before it can take it. */
TEST(a_lower_limit_leaves_a_waiting_store_some_time)
{
    struct waiter w = {.wake = no_wake};

    start(1, 64 * MIB, true);
    for (unsigned i = 0; i < 40000; i++) {
        fixture_set(&f, fixture_key("k", i), 1400);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    fixture_grace(&f);
    int64_t before = bound();
    ck_assert_int_le(before, fixture_used(&f) - MIB);
    fixture_settle(&f);
    fixture_settle(&f);
    shard_enter(f.shard);
    line_join(&f.shard->memory, &w, 1);
    shard_leave(f.shard);
    before = bound();
    for (unsigned i = 0; i < 20; i++) {
        fixture_settle(&f);
    }
    ck_assert_int_eq(bound(), before);
    clock_advance(&f.engine.clock, 50);
    for (unsigned i = 0; i < 20; i++) {
        fixture_settle(&f);
    }
    ck_assert_int_lt(bound(), before);
    before = bound();
    line_leave(&w);
    for (unsigned i = 0; i < 1000 && budget_is_lowered(&f.engine.budget); i++) {
        fixture_settle(&f);
    }
    ck_assert_int_lt(bound(), before);
    ck_assert(!budget_is_lowered(&f.engine.budget));
}

/* The index shrinks meanwhile, which takes a grace period: items that fit then stay. */
TEST(a_lower_limit_spares_what_fits_beside_a_smaller_index)
{
    start(1, 64 * MIB, true);
    for (unsigned i = 0; i < 400000; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    fixture_settle(&f);
    ck_assert(engine_set_limit(&f.engine, 4 * MIB));
    /* Slices are cut by time: long ones, for a build or a machine that is slow. */
    for (unsigned i = 0; i < 3000 && fixture_used(&f) > 4 * (int64_t)MIB; i++) {
        (void)shard_maintain(f.shard, fixture_now(&f), 10000);
        clock_advance(&f.engine.clock, 50);
        fixture_grace(&f);
    }
    ck_assert_int_le(fixture_used(&f), 4 * (int64_t)MIB);
    ck_assert_uint_gt(fixture_counter(&f, CTR_curr_items), 20000);
}

/* Number of items in a cache of this size that is filled from empty. */
static uint64_t items_in_fresh(uint32_t shards, uint64_t limit)
{
    start(shards, limit, true);
    for (unsigned i = 0; i < 160000; i++) {
        (void)fixture_try(&f, fixture_key("k", i), 10, MSEC_NEVER);
        if (i % 256 == 0) {
            fixture_settle(&f);
        }
    }
    uint64_t items = fixture_counter(&f, CTR_curr_items);
    fixture_stop(&f);
    return items;
}

static uint64_t index_bytes(struct shard *s)
{
    shard_enter(s);
    uint64_t bytes = table_bytes(&s->table);
    shard_leave(s);
    return bytes;
}

/*
 * One that shrinks only by its own rule would take their place. And the home worker of one
 * shard gets more CPU than the other's, whose shard pays nevertheless.
 */
TEST(a_lower_limit_keeps_what_a_fresh_cache_would_and_of_all_shards)
{
    uint64_t fresh = items_in_fresh(2, 8 * MIB);
    uint64_t items[2];

    start(2, 68 * MIB, true);
    for (unsigned i = 0; i < 350000; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
        if (i % 256 == 0) {
            fixture_grace(&f);
        }
    }
    fixture_settle(&f);
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    for (unsigned i = 0; i < 20000 && fixture_used(&f) > 8 * (int64_t)MIB; i++) {
        (void)shard_maintain(f.engine.shards[i % 8 != 0], fixture_now(&f), 10000);
        clock_advance(&f.engine.clock, 50);
        fixture_grace(&f);
    }
    ck_assert_int_le(fixture_used(&f), 8 * (int64_t)MIB);
    fixture_settle(&f);
    for (unsigned i = 0; i < 2; i++) {
        items[i] = ctr_get(&f.engine.shards[i]->counters, CTR_curr_items);
        /* The last step, of 1 MiB, is paid when the index is not looked at any more. */
        ck_assert_uint_le(index_bytes(f.engine.shards[i]),
                          table_bytes_for(items[i] + MIB / 40));
    }
    ck_assert_uint_gt(items[0] + items[1], fresh * 2 / 3);
    ck_assert_uint_gt(items[0], items[1] / 3);
    ck_assert_uint_gt(items[1], items[0] / 3);
}

TEST(an_index_made_for_a_hint_bears_the_limit)
{
    struct engine_config cfg;

    ck_assert_uint_eq(table_items_in(8 * MIB), 131072 * 9);
    ck_assert_uint_eq(table_items_in(16 * MIB - 1), 131072 * 9);
    fixture_config(&cfg);
    cfg.limit_bytes = 64 * MIB;
    cfg.items_hint = 1 << 24;
    fixture_start(&f, &cfg);
    ck_assert_uint_eq(table_bytes(&f.shard->table), 8 * MIB);
    ck_assert_uint_eq(engine_items_hint(&f.engine), 131072 * 9);
    fixture_flush(&f, fixture_now(&f)); /* leaves a spare index */
    fixture_set(&f, "k", 10);
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    fixture_settle(&f);
    fixture_grace(&f);
    fixture_grace(&f);
    ck_assert_uint_eq(table_bytes(&f.shard->table), MIB);
    ck_assert_int_le(fixture_used(&f), 3 * (int64_t)MIB);
    fixture_check(&f, "k", 10);
}
