/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * value: pins that outlive the item, and which thread releases the segments of large values:
 * the switches, the threshold and the backlog of lazyfree, and its counters.
 */

#include "lib/base/check.h"
#include "lib/shard/value.h"
#include "tests/lib/fixture.h"

#define LEN   200000
#define WHOLE (6 * 32 * KIB) /* in whole segments; the rest is in pieces */

FIXTURE_OF_EACH_TEST(f)

/* ---- pins -------------------------------------------------------------------------------- */

struct reader {
    struct value_walk walk;
    struct value_pin pin;
    char *copy;
};

/* Read like a connection whose socket is full: pin the value, and copy its tail. */
static void read_begin(struct reader *r, const char *key)
{
    r->copy = mem_alloc(LEN);
    ck_assert_ptr_nonnull(r->copy);
    fixture_check(&f, key, LEN);
    memcpy(r->copy, fixture_get(&f, key).value, LEN);
    rcu_begin();
    struct found found = engine_find(router_read(&f.engine.router), fixture_hash(&f, key), key,
                                     strlen(key), fixture_now(&f));
    value_walk_begin(&r->walk, found.shard, found.item);
    r->pin = value_pin(&r->walk);
    rcu_end();
    ck_assert(value_walk_has_segments(&r->walk));
    ck_assert_uint_eq(value_walk_tail(&r->walk), LEN - WHOLE);
}

/* Everything in whole segments is still unchanged. */
static void read_on(struct reader *r)
{
    struct value_walk w = r->walk;
    size_t done = 0;

    while (value_walk_has_segments(&w)) {
        struct span part;

        ck_assert(value_walk_next(&w, &part));
        ck_assert(memcmp(part.ptr, r->copy + done, part.len) == 0);
        done += part.len;
    }
    ck_assert_uint_eq(done, WHOLE);
}

static void read_end(struct reader *r)
{
    value_unpin(&r->pin);
    value_unpin(&r->pin); /* only the first has an effect */
    mem_free(r->copy);
}

/* Many values, which would take the segments if they were free. */
static void churn(void)
{
    for (unsigned i = 0; i < 60; i++) {
        fixture_set(&f, i % 2 == 0 ? "x" : "y", LEN + i * 1000);
        fixture_grace(&f);
    }
}

/* The reasons for which a value dies. */
enum { BY_DELETE, BY_OVERWRITE, BY_EXPIRE, BY_FLUSH, REASONS };

static void kill_value(int reason)
{
    switch (reason) {
    case BY_DELETE:
        ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
        break;
    case BY_OVERWRITE:
        fixture_set(&f, "k", 10);
        break;
    case BY_EXPIRE:
        clock_advance(&f.engine.clock, 1000);
        fixture_expire(&f);
        break;
    default:
        fixture_flush(&f, fixture_now(&f));
        break;
    }
}

TEST_LOOP(a_pinned_value_stays_readable_until_unpinned, REASONS)
{
    struct reader a, b;

    fixture_set_until(&f, "k", LEN, fixture_now(&f) + 1000);
    read_begin(&a, "k");
    read_begin(&b, "k");
    kill_value(_i);
    ck_assert_uint_ne(fixture_get(&f, "k").len, LEN);
    read_on(&a);
    fixture_grace(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_pinned_dead_bytes), WHOLE);
    fixture_verify(&f);
    churn();
    read_on(&a);
    read_on(&b);
    read_end(&a);
    fixture_grace(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_pinned_dead_bytes), WHOLE);
    churn();
    read_on(&b);
    read_end(&b);
    fixture_grace(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_pinned_dead_bytes), 0);
    ck_assert_uint_eq(f.shard->memory.arena.pinned.segments, 0);
}

TEST(an_unpin_before_the_death_changes_nothing)
{
    struct reader r;

    fixture_set(&f, "k", LEN);
    read_begin(&r, "k");
    ck_assert(!value_pin_is_dead(&r.pin));
    read_end(&r);
    ck_assert(!value_pin_is_dead(&r.pin));
    churn();
    fixture_check(&f, "k", LEN);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
    fixture_grace(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_pinned_dead_bytes), 0);
}

static void key_of(char key[8], unsigned i)
{
    (void)snprintf(key, 8, "%u", i);
}

TEST(dead_values_beyond_an_eighth_of_the_limit_are_too_much)
{
    enum { READERS = 8 * MIB / 8 / WHOLE + 1 };
    struct reader alive, r[READERS];

    fixture_set(&f, "alive", LEN);
    read_begin(&alive, "alive");
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_uint_eq(value_pinned_excess(f.shard), 0);
        fixture_set(&f, "k", LEN);
        read_begin(&r[i], "k");
        fixture_set(&f, "k", LEN);
        ck_assert(value_pin_is_dead(&r[i].pin));
        fixture_grace(&f);
    }
    ck_assert(!value_pin_is_dead(&alive.pin));
    ck_assert_uint_eq(value_pinned_excess(f.shard), READERS * WHOLE - 8 * MIB / 8);
    ck_assert(engine_set_limit(&f.engine, 64 * MIB));
    ck_assert_uint_eq(value_pinned_excess(f.shard), 0);
    for (unsigned i = 0; i < READERS; i++) {
        read_end(&r[i]);
    }
    read_end(&alive);
}

/* May the value of a key be pinned? */
static bool may_pin(const char *key)
{
    struct value_walk w;

    rcu_begin();
    struct found found = engine_find(router_read(&f.engine.router), fixture_hash(&f, key), key,
                                     strlen(key), fixture_now(&f));
    value_walk_begin(&w, found.shard, found.item);
    bool may = value_may_pin(&w);
    rcu_end();
    return may;
}

TEST(one_value_of_half_the_limit_may_be_pinned)
{
    struct engine_config cfg;
    struct reader r;

    fixture_config(&cfg);
    cfg.item_size_max = 4 * MIB;
    fixture_start(&f, &cfg);
    fixture_set(&f, "half", 4 * MIB - 200);
    ck_assert(may_pin("half"));
    fixture_set(&f, "other", LEN);
    read_begin(&r, "other");
    ck_assert(!may_pin("half"));
    read_end(&r);
}

TEST(three_eighths_of_the_limit_may_be_pinned)
{
    enum { READERS = 8 * MIB / 8 * 3 / WHOLE };
    struct reader r[READERS], again;
    char key[8];

    fixture_set(&f, "more", LEN);
    for (unsigned i = 0; i < READERS; i++) {
        key_of(key, i);
        fixture_set(&f, key, LEN);
        ck_assert(may_pin("more"));
        read_begin(&r[i], key);
    }
    ck_assert(!may_pin("more"));
    ck_assert(may_pin(key)); /* it is pinned already */
    read_begin(&again, key);
    read_end(&r[READERS - 1]);
    ck_assert(!may_pin("more"));
    read_end(&again);
    ck_assert(may_pin("more"));
    for (unsigned i = 0; i < READERS - 1; i++) {
        read_end(&r[i]);
    }
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_PINNED), 0);
}

TEST(a_walk_gives_every_byte_in_order)
{
    static const size_t lens[] = {0, 1, 1000, 5000, 32768, 32769, 40000, LEN};

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct value_walk w;
        struct span part;
        size_t done = 0;

        fixture_set(&f, "k", lens[i]);
        struct got got = fixture_get(&f, "k");
        rcu_begin();
        struct found found = engine_find(router_read(&f.engine.router), fixture_hash(&f, "k"),
                                         "k", 1, fixture_now(&f));
        value_walk_begin(&w, found.shard, found.item);
        char *tail = mem_alloc(value_walk_tail(&w) + 1);
        must(tail != NULL && value_walk_tail(&w) <= lens[i]);
        value_walk_copy_tail(&w, tail);
        must(memcmp(tail, got.value + lens[i] - value_walk_tail(&w), value_walk_tail(&w)) == 0);
        while (value_walk_next(&w, &part)) {
            must(part.len > 0 && memcmp(part.ptr, got.value + done, part.len) == 0);
            done += part.len;
        }
        rcu_end();
        mem_free(tail);
        ck_assert_uint_eq(done, lens[i]);
    }
}

/* ---- lazyfree ---------------------------------------------------------------------------- */

static void start_lazy(bool is_lazy, int reason)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    /* All switches except the one under test are set the other way. */
    atomic_store(&fixture_options.lazyfree_delete, (reason == BY_DELETE) == is_lazy);
    atomic_store(&fixture_options.lazyfree_overwrite, (reason == BY_OVERWRITE) == is_lazy);
    atomic_store(&fixture_options.lazyfree_expire, (reason == BY_EXPIRE) == is_lazy);
    atomic_store(&fixture_options.lazyfree_flush, (reason == BY_FLUSH) == is_lazy);
    atomic_store(&fixture_options.lazyfree_evict, !is_lazy);
    fixture_start(&f, &cfg);
    fixture_set_until(&f, "k", LEN, fixture_now(&f) + 1000);
}

static void check_lazy(uint64_t pending, uint64_t freed)
{
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_pending_objects), pending);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_pending_bytes), pending * WHOLE);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_freed_objects), freed);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_freed_bytes), freed * WHOLE);
}

TEST_LOOP(the_switch_of_a_reason_decides_who_releases, 2 * REASONS)
{
    const int reason = _i / 2;
    const bool is_lazy = _i % 2 != 0;

    start_lazy(is_lazy, reason);
    kill_value(reason);
    check_lazy(is_lazy, 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_helped), !is_lazy);
    ck_assert_uint_eq(f.shard->memory.arena.lazy.segments, is_lazy ? WHOLE / (32 * KIB) : 0);
    fixture_verify(&f);
    fixture_settle(&f);
    check_lazy(0, is_lazy);
    ck_assert_uint_eq(f.shard->memory.arena.whole, 0);
}

TEST_LOOP(evictions_have_a_switch_of_their_own, 2)
{
    const bool is_lazy = _i != 0;
    struct engine_config cfg;
    char key[16];

    fixture_config(&cfg);
    atomic_store(&fixture_options.lazyfree_evict, is_lazy);
    fixture_start(&f, &cfg);
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        fixture_set(&f, key, LEN);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 20);
    fixture_settle(&f);
    ck_assert((fixture_counter(&f, CTR_lazyfree_freed_objects) > 0) == is_lazy);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_pending_objects), 0);
}

/* The length of the value counts, not that of its whole segments. */
TEST(below_the_threshold_nothing_is_handed_over)
{
    start_lazy(true, BY_DELETE);
    atomic_store(&fixture_options.lazyfree_threshold_bytes, LEN + 1);
    kill_value(BY_DELETE);
    check_lazy(0, 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_helped), 0);
    fixture_set(&f, "k", LEN);
    atomic_store(&fixture_options.lazyfree_threshold_bytes, LEN);
    kill_value(BY_DELETE);
    check_lazy(1, 0);
    fixture_settle(&f);
    check_lazy(0, 1);
}

TEST(over_the_backlog_who_unlinks_helps)
{
    char key[16];

    start_lazy(true, BY_DELETE);
    atomic_store(&fixture_options.lazyfree_backlog_bytes, WHOLE + 1);
    for (unsigned i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        fixture_set(&f, key, LEN);
    }
    for (unsigned i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        ck_assert_int_eq(fixture_delete(&f, key), OUT_DELETED);
    }
    check_lazy(2, 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_helped), 3);
    fixture_settle(&f);
    check_lazy(0, 2);
    ck_assert_uint_eq(f.shard->memory.arena.whole, WHOLE / (32 * KIB));
}
