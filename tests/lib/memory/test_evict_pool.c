/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scores of the policies that evict single items, and the pool of candidates. The test decides
 * what is sampled, and records each item that is dropped.
 */
#include "lib/memory/evict.h"
#include "lib/memory/heat.h"
#include "tests/lib/fixture.h"

/* ---- scores ------------------------------------------------------------------------------ */

struct scored {
    struct item it;
    struct item_ttl ttl;
};

static uint64_t score(const struct evict_policy *policy, uint8_t heat, uint32_t used_s,
                      msec_t deadline, msec_t now)
{
    struct scored s;

    memset(&s, 0, sizeof(s));
    s.it.key_len = 1;
    atomic_store(&s.it.heat, heat);
    item_set_access(&s.it, used_s);
    atomic_store(&s.it.shape, SHAPE_TTL | 5);
    item_init_ttl(&s.it, deadline);
    return policy->score(&s.it, now, &fixture_options);
}

static uint64_t lru(uint32_t used_s)
{
    return score(&evict_allkeys_lru, 0, used_s, MSEC_NEVER, 5000999);
}

static uint64_t lfu(unsigned freq, uint32_t used_s)
{
    return score(&evict_allkeys_lfu, heat_with_freq(0, freq), used_s, MSEC_NEVER, 5000999);
}

TEST(lru_scores_by_seconds_without_use)
{
    ck_assert_uint_eq(lru(5000), 0);
    ck_assert_uint_eq(lru(4999), 1);
    ck_assert_uint_eq(lru(1000), 4000);
    ck_assert_uint_eq(lru(5001), 0); /* used a moment ahead of this thread's clock */
    ck_assert_ptr_eq(evict_volatile_lru.score, evict_allkeys_lru.score);
}

/* A lower count outweighs any idle time; among equal counts the longer idle time decides. */
TEST(lfu_scores_by_count_and_then_by_idle_time)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    atomic_store(&fixture_options.lfu_decay_time, 0);
    for (unsigned freq = 1; freq <= FREQ_MAX; freq++) {
        ck_assert_uint_gt(lfu(freq - 1, 5000), lfu(freq, 0));
        ck_assert_uint_gt(lfu(freq, 4999), lfu(freq, 5000));
        ck_assert_uint_gt(lfu(freq, 1), lfu(freq, 4000));
        ck_assert_uint_eq(lfu(freq, 5001), lfu(freq, 5000));
    }
    ck_assert_ptr_eq(evict_volatile_lfu.score, evict_allkeys_lfu.score);
}

TEST(lfu_scores_by_the_decayed_count)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    atomic_store(&fixture_options.lfu_decay_time, 1);
    /* Used 40 minutes ago: 20 of 60 are left, which is less than 30 of now. */
    ck_assert_uint_gt(lfu(59, 5000 - 40 * 60), lfu(30, 5000));
    atomic_store(&fixture_options.lfu_decay_time, 2);
    ck_assert_uint_lt(lfu(59, 5000 - 40 * 60), lfu(30, 5000));
}

TEST(ttl_scores_by_the_deadline)
{
    uint64_t early = score(&evict_volatile_ttl, 0, 0, 1000, 0);
    uint64_t late = score(&evict_volatile_ttl, 0, 0, 1001, 0);

    ck_assert_uint_gt(early, late);
    ck_assert_uint_eq(early, score(&evict_volatile_ttl, 59, 999, 1000, 77));
}

/* ---- the pool ---------------------------------------------------------------------------- */

#define ROUNDS 8
#define DRAWN  40

static struct fixture f;
static struct memory_owner_ops ops;
static const struct memory_owner_ops *real;
static handle_t draws[ROUNDS][DRAWN]; /* what each call of sample() finds; 0 ends it */
static unsigned asked[ROUNDS];        /* for how many */
static enum evict_source source;
static unsigned rounds;
static handle_t dropped;
static enum death_reason reason;

static unsigned sample(void *owner, enum evict_source from, uint64_t *random, handle_t *out,
                       unsigned max)
{
    unsigned n = 0;

    ck_assert_uint_lt(rounds, ROUNDS);
    source = from;
    asked[rounds] = max;
    while (n < DRAWN && n < max && draws[rounds][n] != 0) {
        out[n] = draws[rounds][n];
        n++;
    }
    rounds++;
    return n;
}

static uint64_t drop(void *owner, handle_t h, enum death_reason why, msec_t now)
{
    dropped = h;
    reason = why;
    return real->drop(owner, h, why, now);
}

static void stop(void)
{
    f.shard->memory.ops = real;
}

static void start(enum evict_choice choice)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_policy(choice);
    fixture_start(&f, &cfg);
    real = f.shard->memory.ops;
    ops = *real;
    ops.sample = sample;
    ops.drop = drop;
    f.shard->memory.ops = &ops;
    memset(draws, 0, sizeof(draws));
    rounds = 0;
    unit_at_end(stop);
}

static handle_t handle_of(const char *key)
{
    const char *at = (const char *)fixture_get(&f, key).item;

    ck_assert_ptr_nonnull(at);
    return (handle_t)((uint64_t)(at - f.shard->memory.arena.base) / ITEM_UNIT);
}

/* Store an item that was last used this number of seconds ago. */
static handle_t idle(const char *key, uint32_t seconds)
{
    fixture_set(&f, key, 100);
    handle_t h = handle_of(key);
    item_set_access(memory_item(&f.shard->memory, h),
                    (uint32_t)(fixture_now(&f) / 1000) - seconds);
    return h;
}

static handle_t until(const char *key, msec_t ms)
{
    fixture_set_until(&f, key, 100, fixture_now(&f) + ms);
    return handle_of(key);
}

/* Evict once. Returns what was dropped, 0: nothing; the work that it took goes to *work. */
static handle_t evict_one(int64_t *work)
{
    int64_t left = 1000000;

    dropped = 0;
    shard_enter(f.shard);
    bool is_done = evict_item(&f.shard->memory, fixture_now(&f), &left);
    shard_leave(f.shard);
    ck_assert(is_done == (dropped != 0));
    if (work != NULL) {
        *work = 1000000 - left;
    }
    return dropped;
}

static void start_at(enum evict_choice choice)
{
    start(choice);
    clock_advance(&f.engine.clock, 3600000);
}

TEST(the_highest_score_is_evicted)
{
    start_at(CHOICE_ALLKEYS_LRU);
    handle_t a = idle("a", 10);
    handle_t b = idle("b", 30);
    handle_t c = idle("c", 20);
    memcpy(draws[0], (handle_t[]){a, b, c}, 3 * sizeof(a));
    ck_assert_uint_eq(evict_one(NULL), b);
    ck_assert_int_eq(reason, DEATH_EVICT);
    ck_assert_int_eq(source, SOURCE_ALL);
    ck_assert_uint_eq(asked[0], atomic_load(&fixture_options.maxmemory_samples));
    ck_assert_uint_eq(rounds, 1);
    ck_assert(!fixture_has(&f, "b"));
}

/* A candidate that was not evicted competes with items that are sampled later. */
TEST(candidates_compete_with_later_samples)
{
    start_at(CHOICE_ALLKEYS_LRU);
    handle_t a = idle("a", 10);
    handle_t b = idle("b", 30);
    handle_t c = idle("c", 20);
    handle_t d = idle("d", 15);
    memcpy(draws[0], (handle_t[]){a, b, c}, 3 * sizeof(a));
    draws[1][0] = d;
    draws[2][0] = a;
    ck_assert_uint_eq(evict_one(NULL), b);
    ck_assert_uint_eq(evict_one(NULL), c);
    ck_assert_uint_eq(evict_one(NULL), d);
}

/* An item that is sampled many times takes one place, so the others keep theirs. */
TEST(an_item_is_in_the_pool_once)
{
    start_at(CHOICE_ALLKEYS_LRU);
    atomic_store(&fixture_options.maxmemory_samples, 64);
    handle_t a = idle("a", 30);
    handle_t b = idle("b", 40);
    handle_t c = idle("c", 10);
    draws[0][0] = a;
    for (unsigned i = 1; i < 1 + 2 * EVICT_POOL; i++) {
        draws[0][i] = b;
    }
    draws[1][0] = c;
    ck_assert_uint_eq(evict_one(NULL), b);
    ck_assert_uint_eq(f.shard->memory.evict.pooled, 1);
    ck_assert_uint_eq(evict_one(NULL), a);
}

/* A full pool replaces its lowest score by a higher one, and ignores a lower one. */
TEST(a_full_pool_keeps_the_best)
{
    handle_t h[EVICT_POOL + 4];
    unsigned n = EVICT_POOL + 4;

    start_at(CHOICE_ALLKEYS_LRU);
    atomic_store(&fixture_options.maxmemory_samples, 64);
    for (unsigned i = 0; i < n; i++) {
        h[i] = idle(fixture_key("k", i), 100 + i * 10);
        draws[0][i * 7 % n] = h[i]; /* in no order */
    }
    for (unsigned i = n; i-- > n - EVICT_POOL;) {
        ck_assert_uint_eq(evict_one(NULL), h[i]);
        rounds = 1; /* nothing more is drawn */
        draws[1][0] = h[0];
    }
}

/*
 * A candidate is skipped if it was used since it was sampled, its segment was reused, its block
 * has another item, it was deleted, or it was moved to another block.
 */
TEST_LOOP(a_changed_candidate_is_skipped, 5)
{
    handle_t a, b, c;
    struct memory *m;

    start_at(CHOICE_ALLKEYS_LRU);
    m = &f.shard->memory;
    a = idle("a", 40);
    b = idle("b", 30);
    c = idle("c", 20);
    memcpy(draws[0], (handle_t[]){a, b, c}, 3 * sizeof(a));
    draws[1][0] = c;
    ck_assert_uint_eq(evict_one(NULL), a);
    ck_assert_uint_eq(m->evict.pool[m->evict.pooled - 1].handle, b);
    switch (_i) {
    case 0:
        item_set_access(memory_item(m, b), (uint32_t)(fixture_now(&f) / 1000));
        break;
    case 1:
        m->evict.pool[m->evict.pooled - 1].generation--;
        break;
    case 2:
        m->evict.pool[m->evict.pooled - 1].cas--;
        break;
    case 3:
        ck_assert_int_eq(fixture_delete(&f, "b"), OUT_DELETED);
        break;
    default:
        (void)fixture_touch(&f, "b", fixture_now(&f) + 1000); /* another block */
        break;
    }
    ck_assert_uint_eq(evict_one(NULL), c);
    ck_assert(fixture_has(&f, "b") == (_i != 3));
}

/* If every candidate was used since it was sampled, one call samples again. */
TEST(an_exhausted_pool_is_filled_again)
{
    start_at(CHOICE_ALLKEYS_LRU);
    handle_t a = idle("a", 40);
    handle_t b = idle("b", 30);
    handle_t c = idle("c", 10);
    memcpy(draws[0], (handle_t[]){a, b}, 2 * sizeof(a));
    draws[2][0] = c;
    ck_assert_uint_eq(evict_one(NULL), a);
    item_set_access(memory_item(&f.shard->memory, b), (uint32_t)(fixture_now(&f) / 1000));
    draws[1][0] = b;
    ck_assert_uint_eq(evict_one(NULL), c);
    ck_assert_uint_eq(rounds, 3);
}

/* Items a and b, of which a has been evicted: b is left in the pool. */
static void leave_b_pooled(void)
{
    start_at(CHOICE_ALLKEYS_LRU);
    handle_t a = idle("a", 60);
    handle_t b = idle("b", 50);
    memcpy(draws[0], (handle_t[]){a, b}, 2 * sizeof(a));
    ck_assert_uint_eq(evict_one(NULL), a);
    ck_assert_uint_eq(f.shard->memory.evict.pooled, 1);
}

/* Candidates of the previous policy have scores of its own, and may lack a deadline. */
TEST(a_change_of_policy_empties_the_pool)
{
    leave_b_pooled();
    fixture_policy(CHOICE_VOLATILE_LRU);
    handle_t c = until("c", 1000000);
    draws[1][0] = c;
    ck_assert_uint_eq(evict_one(NULL), c);
    ck_assert_int_eq(source, SOURCE_VOLATILE);
    ck_assert(fixture_has(&f, "b"));
}

/* The option may change between two items that one slice of the cursor evicts. */
TEST_LOOP(a_policy_that_does_not_evict_items_drops_none, 2)
{
    start_at(CHOICE_VOLATILE_LRU);
    draws[0][0] = idle("a", 10);
    fixture_policy(_i == 0 ? CHOICE_NOEVICTION : CHOICE_DENSITY);
    ck_assert_uint_eq(evict_one(NULL), 0);
    ck_assert(fixture_has(&f, "a"));
}

/* A volatile policy loses no key without a deadline, however long it has not been used. */
TEST(a_candidate_that_loses_its_deadline_stays)
{
    start_at(CHOICE_VOLATILE_LRU);
    handle_t a = until("a", 100000000);
    handle_t b = until("b", 100000000);
    handle_t c = until("c", 100000000);
    item_set_access(memory_item(&f.shard->memory, a), 0);
    item_set_access(memory_item(&f.shard->memory, b), 1);
    memcpy(draws[0], (handle_t[]){a, b}, 2 * sizeof(a));
    draws[1][0] = c;
    ck_assert_uint_eq(evict_one(NULL), a);
    ck_assert_int_eq(fixture_touch(&f, "b", MSEC_NEVER), OUT_TOUCHED);
    ck_assert_uint_eq(handle_of("b"), b);
    ck_assert_uint_eq(evict_one(NULL), c);
    ck_assert(fixture_has(&f, "b"));
}

/* A flush takes all items from the index at once; their blocks look alive for a while. */
TEST(a_flush_empties_the_pool)
{
    leave_b_pooled();
    fixture_flush(&f, fixture_now(&f));
    ck_assert(!fixture_has(&f, "b"));
    handle_t c = idle("c", 10);
    draws[1][0] = c;
    ck_assert_uint_eq(evict_one(NULL), c);
}

/* ---- what is due ------------------------------------------------------------------------- */

/* A due item that is sampled is dropped first, and counts as expired. */
TEST(a_sampled_due_item_expires)
{
    start_at(CHOICE_ALLKEYS_LRU);
    handle_t a = idle("a", 60);
    handle_t b = until("b", 10);
    clock_advance(&f.engine.clock, 10);
    memcpy(draws[0], (handle_t[]){a, b}, 2 * sizeof(a));
    ck_assert_uint_eq(evict_one(NULL), b);
    ck_assert_int_eq(reason, DEATH_EXPIRE);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

TEST(a_candidate_that_becomes_due_expires)
{
    start_at(CHOICE_VOLATILE_LRU);
    handle_t a = until("a", 100);
    handle_t b = until("b", 100000);
    handle_t c = until("c", 200000);
    item_set_access(memory_item(&f.shard->memory, a), 1);
    item_set_access(memory_item(&f.shard->memory, b), 0);
    memcpy(draws[0], (handle_t[]){a, b}, 2 * sizeof(a));
    draws[1][0] = c;
    ck_assert_uint_eq(evict_one(NULL), b);
    clock_advance(&f.engine.clock, 100);
    ck_assert_uint_eq(evict_one(NULL), a);
    ck_assert_int_eq(reason, DEATH_EXPIRE);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 1);
}

/* ---- the earliest deadlines -------------------------------------------------------------- */

/*
 * A sampled item that is due later than the whole pool is not added: items that were not
 * sampled may be due in between.
 */
TEST(volatile_ttl_keeps_an_exact_order)
{
    start_at(CHOICE_VOLATILE_TTL);
    handle_t a = until("a", 100000);
    handle_t b = until("b", 200000);
    handle_t c = until("c", 300000);
    handle_t d = until("d", 400000);
    memcpy(draws[0], (handle_t[]){b, a, c}, 3 * sizeof(a));
    draws[1][0] = d; /* later than b, and not added */
    ck_assert_uint_eq(evict_one(NULL), a);
    ck_assert_int_eq(source, SOURCE_SOONEST);
    ck_assert_uint_eq(evict_one(NULL), b);
    ck_assert_uint_eq(f.shard->memory.evict.pooled, 1);
}

/* If a candidate is gone it may have moved, so the pool is built again. */
TEST(volatile_ttl_samples_again_when_a_candidate_is_gone)
{
    start_at(CHOICE_VOLATILE_TTL);
    handle_t a = until("a", 100000);
    handle_t b = until("b", 200000);
    handle_t c = until("c", 400000);
    memcpy(draws[0], (handle_t[]){a, b, c}, 3 * sizeof(a));
    ck_assert_uint_eq(evict_one(NULL), a);
    handle_t d = until("d", 300000);
    ck_assert_int_eq(fixture_delete(&f, "b"), OUT_DELETED);
    draws[1][0] = c;
    memcpy(draws[2], (handle_t[]){c, d}, 2 * sizeof(c));
    ck_assert_uint_eq(evict_one(NULL), d);
}

/* An empty pool samples the first bucket; otherwise 20 items, or maxmemory_samples if more. */
TEST(volatile_ttl_samples_enough)
{
    start_at(CHOICE_VOLATILE_TTL);
    atomic_store(&fixture_options.maxmemory_samples, 1);
    handle_t a = until("a", 100000);
    handle_t b = until("b", 200000);
    handle_t c = until("c", 300000);
    memcpy(draws[0], (handle_t[]){a, b, c}, 3 * sizeof(a));
    draws[1][0] = b;
    draws[2][0] = c;
    ck_assert_uint_eq(evict_one(NULL), a);
    ck_assert_uint_ge(asked[0], 500);
    ck_assert_uint_eq(evict_one(NULL), b);
    ck_assert_uint_eq(asked[1], 20);
    atomic_store(&fixture_options.maxmemory_samples, 64);
    ck_assert_uint_eq(evict_one(NULL), c);
    ck_assert_uint_eq(asked[2], 64);
}

/* ---- what it costs ----------------------------------------------------------------------- */

/* The work that is charged to the caller grows with the number of items sampled. */
TEST(sampled_items_cost_work)
{
    handle_t h[32];
    int64_t few;
    int64_t many;

    start_at(CHOICE_ALLKEYS_LRU);
    atomic_store(&fixture_options.maxmemory_samples, 64);
    for (unsigned i = 0; i < 32; i++) {
        h[i] = idle(fixture_key("k", i), i);
    }
    draws[0][0] = h[0];
    memcpy(draws[1], h + 1, 31 * sizeof(h[0]));
    ck_assert_uint_eq(evict_one(&few), h[0]);
    ck_assert_uint_eq(evict_one(&many), h[31]);
    ck_assert_int_ge(few, 2);
    ck_assert_int_ge(many, 10 * few);
}
