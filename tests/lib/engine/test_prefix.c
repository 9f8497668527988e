/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix: from the command on nothing of before it is found, whichever way it was stored, and
 * everything that is stored since is; before, during and after the walk that unlinks, whatever
 * becomes of the index and of the slots meanwhile. Streams are tested in test_feed.c, more at
 * once in test_model.c and tests/stress.
 */
#include "lib/engine/prefix.h"

#include "lib/engine/flush.h"
#include "lib/engine/guarding.h"
#include "lib/shard/flush.h"
#include "lib/shard/position.h"
#include "lib/shard/prefix.h"
#include "lib/shard/upkeep.h"
#include "lib/ship/walk.h"
#include "lib/store/body.h"
#include "tests/lib/engine/prefix_walk.h"
#include "tests/lib/fixture.h"

#define HOLD_MS 60000

static struct fixture f;

static void start_with(uint32_t shards, uint64_t limit)
{
    fixture_start_sized(&f, shards, limit);
}

static void start_two(void)
{
    start_with(2, 96 * MIB);
}

/* Nothing is left of them. */
static void end_flushes(void)
{
    prefix_end_flushes(&f);
    for (uint32_t i = 0; i < f.engine.shard_count; i++) {
        ck_assert_ptr_null(f.engine.shards[i]->prefix_marks);
        ck_assert_int_eq(f.engine.shards[i]->gate_at, f.engine.shards[i]->flush_at);
    }
}

static enum outcome put(const char *key, enum store_mode mode, size_t len, uint64_t cas_new)
{
    static char value[300000];
    struct put p = {.mode = mode, .key = key, .ptr = value, .len = len, .cas_new = cas_new};

    p.cas = mode == STORE_CAS ? fixture_get(&f, key).cas : 0;
    p.vivifies = mode == STORE_APPEND;
    p.portion = len > MIB / 4 ? 100000 : 0;
    return fixture_store(&f, &p, NULL);
}

/* ---- every way to store, before and after ------------------------------------------------ */

static void by_set(const char *key)
{
    ck_assert_int_eq(put(key, STORE_SET, 10, 0), OUT_STORED);
}

static void by_set_over(const char *key)
{
    by_set(key);
    ck_assert_int_eq(put(key, STORE_REPLACE, 500, 0), OUT_STORED);
}

static void by_set_with_ttl(const char *key)
{
    fixture_set_until(&f, key, 10, fixture_now(&f) + 100000);
}

static void by_add(const char *key)
{
    ck_assert_int_eq(put(key, STORE_ADD, 10, 0), OUT_STORED);
}

static void by_cas(const char *key)
{
    by_add(key);
    ck_assert_int_eq(put(key, STORE_CAS, 10, 0), OUT_STORED);
}

static void by_low_cas(const char *key)
{
    ck_assert_int_eq(put(key, STORE_SET, 10, 1), OUT_STORED);
}

static void by_high_cas(const char *key)
{
    ck_assert_int_eq(put(key, STORE_SET, 10, UINT64_MAX), OUT_STORED);
}

static void by_append(const char *key)
{
    ck_assert_int_eq(put(key, STORE_APPEND, 10, 0), OUT_STORED);
    ck_assert_int_eq(put(key, STORE_APPEND, 10, 0), OUT_STORED);
    ck_assert_int_eq(put(key, STORE_PREPEND, 10, 0), OUT_STORED);
}

static void by_incr(const char *key)
{
    struct arith a = {.vivifies = true, .initial = 5, .vivify_deadline = MSEC_NEVER};

    ck_assert_int_eq(fixture_arith_as(&f, key, &a), OUT_NUMBER);
    ck_assert(a.is_created);
    ck_assert_int_eq(fixture_arith(&f, key, false, 1, NULL), OUT_NUMBER);
}

static void by_fetch(const char *key)
{
    struct fetch get = {.vivifies = true, .vivify_deadline = fixture_now(&f) + 100000};

    ck_assert_int_eq(fixture_fetch(&f, key, &get), OUT_HIT);
    ck_assert(get.is_created);
}

static void by_touch(const char *key)
{
    by_add(key);
    ck_assert_int_eq(fixture_touch(&f, key, fixture_now(&f) + 100000), OUT_TOUCHED);
}

static void by_mark(const char *key)
{
    const struct erase mark = {.marks_stale = true};

    by_add(key);
    ck_assert_int_eq(fixture_erase(&f, key, &mark), OUT_DELETED);
}

static void by_large_set(const char *key)
{
    fixture_set(&f, key, 100000);
}

static void by_parts(const char *key)
{
    ck_assert_int_eq(put(key, STORE_SET, 300000, 0), OUT_STORED);
}

static void by_large_append(const char *key)
{
    by_parts(key);
    ck_assert_int_eq(put(key, STORE_APPEND, 300000, 0), OUT_STORED);
}

static void (*const ways[])(const char *key) = {
    by_set,     by_set_over, by_set_with_ttl, by_add,   by_cas,
    by_low_cas, by_high_cas, by_append,       by_incr,  by_fetch,
    by_touch,   by_mark,     by_large_set,    by_parts, by_large_append,
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* To every request it is as if the key were not there. */
static void check_gone(const char *key)
{
    const struct erase mark = {.marks_stale = true};
    struct fetch get = {.recaches = true, .recache_before = MSEC_NEVER};
    struct put append = {.mode = STORE_APPEND, .key = key, .ptr = "x", .len = 1};

    ck_assert(!fixture_has(&f, key));
    ck_assert_int_eq(fixture_fetch(&f, key, &get), OUT_MISS);
    ck_assert_int_eq(put(key, STORE_REPLACE, 3, 0), OUT_NOT_STORED);
    ck_assert_int_eq(fixture_store(&f, &append, NULL), OUT_NOT_STORED);
    append.mode = STORE_CAS;
    ck_assert_int_eq(fixture_store(&f, &append, NULL), OUT_NOT_FOUND);
    ck_assert_int_eq(fixture_touch(&f, key, MSEC_NEVER), OUT_NOT_FOUND);
    ck_assert_int_eq(fixture_arith(&f, key, false, 1, NULL), OUT_NOT_FOUND);
    ck_assert_int_eq(fixture_erase(&f, key, &mark), OUT_NOT_FOUND);
    ck_assert_int_eq(fixture_delete(&f, key), OUT_NOT_FOUND);
    ck_assert(!fixture_has(&f, key));
}

TEST_FIXTURE(start_two, NULL)

/* _i: which way before the command. */
TEST_LOOP(every_way_to_store_before_and_after, WAYS)
{
    for (unsigned i = 0; i < WAYS; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "p:%u", i);
        ways[_i](key);
        (void)snprintf(key, sizeof(key), "q:%u", i);
        ways[_i](key);
    }
    ways[_i]("p:gone");
    ways[_i]("p");
    fixture_flush_prefix(&f, "p:");
    ck_assert_uint_eq(engine_prefixes(&f.engine), 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_flush_prefix_items), 0);
    /* The first request that the key meets is the store. */
    for (unsigned i = 0; i < WAYS; i++) {
        ways[i](fixture_key("p:", i));
        ck_assert(fixture_has(&f, fixture_key("p:", i)));
    }
    check_gone("p:gone");
    ck_assert_int_eq(fixture_get(&f, "p:gone").miss, MISS_ABSENT);
    for (unsigned stage = 0; stage < 2; stage++) {
        for (unsigned i = 0; i < WAYS; i++) {
            ck_assert(fixture_has(&f, fixture_key("p:", i)));
            ck_assert(fixture_has(&f, fixture_key("q:", i)));
        }
        ck_assert(fixture_has(&f, "p") && !fixture_has(&f, "p:gone"));
        end_flushes();
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_flush_prefix_items), WAYS + 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_flushed_items), WAYS + 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 2 * WAYS + 1);
    check_gone("p:gone");
}

/* The reader is the first to meet it. */
TEST(a_reader_does_not_find_what_was_flushed)
{
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&f, fixture_key("p:", i), 10);
        fixture_set(&f, fixture_key("q:", i), 10);
    }
    fixture_flush_prefix(&f, "p:");
    for (unsigned i = 0; i < 2000; i++) {
        struct got got = fixture_get(&f, fixture_key("p:", i));

        ck_assert(!got.is_hit);
        ck_assert_int_eq(got.miss, MISS_FLUSHED);
        ck_assert(fixture_has(&f, fixture_key("q:", i)));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_flush_prefix_items), 0);
    end_flushes();
    ck_assert_uint_eq(fixture_counter(&f, CTR_flush_prefix_items), 2000);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 2000);
}

/* A body that began before the command ends after it: it is stored then. */
TEST_LOOP(a_body_on_its_way_is_stored_when_it_is_whole, 2)
{
    struct store st = {.mode = _i == 0 ? STORE_SET : STORE_APPEND,
                       .hash = fixture_hash(&f, "p:k"),
                       .key = span_str("p:k"),
                       .deadline = MSEC_NEVER,
                       .may_wait = true};
    size_t n = 0;
    char *room;

    by_parts("p:k");
    rcu_begin();
    struct body *body = body_begin(&f.engine, st.hash, 10000);
    rcu_end();
    ck_assert_int_eq(body_room(body, true, &room, &n), OUT_OK);
    body_filled(body, 1);
    fixture_flush_prefix(&f, "p:");
    while (body_missing(body) != 0) {
        ck_assert_int_eq(body_room(body, true, &room, &n), OUT_OK);
        memset(room, 'x', n);
        body_filled(body, n);
    }
    st.body = &body;
    rcu_begin();
    ck_assert_int_eq(engine_store(&f.engine, &st, fixture_now(&f)),
                     _i == 0 ? OUT_STORED : OUT_NOT_STORED);
    rcu_end();
    body_abort(&body);
    end_flushes();
    ck_assert_uint_eq(fixture_get(&f, "p:k").len, _i == 0 ? 10000 : 0);
}

/* What has expired and has to stay is flushed like anything else. */
TEST(what_is_held_is_flushed)
{
    engine_hold_expired(&f.engine, fixture_now(&f) + HOLD_MS);
    fixture_set_until(&f, "p:k", 10, fixture_now(&f) + 10);
    fixture_set_until(&f, "q:k", 10, fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    fixture_flush_prefix(&f, "p:");
    by_add("p:new");
    end_flushes();
    ck_assert(fixture_has(&f, "p:new"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 2);
}

/* ---- prefixes ---------------------------------------------------------------------------- */

TEST(a_prefix_may_be_a_whole_key_of_full_length)
{
    char key[ITEM_KEY_MAX + 1];

    memset(key, 'k', ITEM_KEY_MAX);
    key[ITEM_KEY_MAX] = 0;
    by_set(key);
    by_set(key + 1);
    fixture_flush_prefix(&f, key);
    ck_assert(!fixture_has(&f, key));
    ck_assert(fixture_has(&f, key + 1));
    by_set(key);
    end_flushes();
    ck_assert(fixture_has(&f, key) && fixture_has(&f, key + 1));
    ck_assert_uint_eq(fixture_counter(&f, CTR_flush_prefix_items), 1);
}

/* Of the first n bytes of it. */
static struct span first_of(const char *text, size_t n)
{
    return span_of(text, n);
}

/* From long to short and back: each takes what those before it left. */
TEST(prefixes_overlap)
{
    char text[65];

    memset(text, 'a', 64);
    text[64] = 0;
    for (size_t n = 64; n > 0; n--) {
        for (size_t k = 1; k <= 64; k++) {
            by_set(text + 64 - k);
        }
        ck_assert_int_eq(engine_flush_prefix(&f.engine, first_of(text, n)), OUT_OK);
        for (size_t k = 1; k <= 64; k++) {
            ck_assert_int_eq(fixture_has(&f, text + 64 - k), k < n);
        }
        if (n % 7 == 0) {
            (void)prefix_slice(&f, n % 2);
        }
    }
    for (size_t k = 1; k <= 64; k++) {
        by_set(text + 64 - k);
    }
    end_flushes();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 64);
}

TEST(so_many_are_in_force_and_a_further_one_waits)
{
    for (unsigned i = 0; i < 64; i++) {
        const char *key = fixture_key("", 100 + i);

        by_set(key);
        fixture_flush_prefix(&f, key);
    }
    by_set("x");
    ck_assert_uint_eq(engine_prefixes(&f.engine), 64);
    ck_assert_int_eq(engine_flush_prefix(&f.engine, span_str("x")), OUT_WAIT);
    ck_assert_uint_eq(engine_prefixes(&f.engine), 64);
    ck_assert(fixture_has(&f, "x"));
    prefix_walk(&f);
    fixture_flush_prefix(&f,
                         "x"); /* whichever thread looks first: those that are over have left */
    ck_assert_uint_eq(engine_prefixes(&f.engine), 1);
    ck_assert(!fixture_has(&f, "x"));
    end_flushes();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

TEST(the_same_again_and_again_takes_one_place)
{
    for (unsigned i = 0; i < 1000; i++) {
        by_set("p:k");
        by_set(fixture_key("p:", i));
        fixture_flush_prefix(&f, "p:");
        ck_assert_uint_le(engine_prefixes(&f.engine), 2);
        ck_assert(!fixture_has(&f, "p:k") && !fixture_has(&f, fixture_key("p:", i)));
        if (i % 10 == 0) {
            (void)prefix_slice(&f, i / 10 % 2);
        }
    }
    by_set("p:k");
    end_flushes();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
}

/* What the walk is in the middle of for one command is begun again for the next. */
TEST(a_command_while_another_is_walked)
{
    const unsigned n = 20000;

    for (unsigned i = 0; i < n; i++) {
        by_set(fixture_key("p:", i));
    }
    fixture_flush_prefix(&f, "p:");
    ck_assert(prefix_slice(&f, 0) && prefix_slice(&f, 1));
    for (unsigned i = 0; i < n; i++) {
        by_set(fixture_key("p:", i));
    }
    ck_assert(prefix_slice(&f, 0) && prefix_slice(&f, 1));
    fixture_flush_prefix(&f, "p:1");
    for (unsigned step = 0; step < 3; step++) {
        for (unsigned i = 0; i < n; i++) {
            const char *key = fixture_key("p:", i);

            ck_assert_int_eq(fixture_has(&f, key), key[2] != '1');
        }
        if (step == 0) {
            ck_assert(prefix_slice(&f, 0) && prefix_slice(&f, 1));
        } else {
            end_flushes();
        }
    }
}

TEST(an_empty_engine_has_nothing_to_walk)
{
    const int64_t used = fixture_used(&f);

    fixture_flush_prefix(&f, "p:");
    ck_assert(!prefix_slice(&f, 0) && !prefix_slice(&f, 1));
    fixture_grace(&f);
    ck_assert_uint_eq(engine_prefixes(&f.engine), 0);
    fixture_settle(&f);
    ck_assert_int_eq(fixture_used(&f), used);
}

TEST(marks_count_and_are_released)
{
    int64_t used = 0;

    for (unsigned i = 0; i < 3; i++) {
        by_set("p:k");
        fixture_flush_prefix(&f, "p:");
        ck_assert(i == 0 || fixture_used(&f) > used);
        end_flushes();
        fixture_grace(&f); /* they were retired by then */
        ck_assert(i == 0 || fixture_used(&f) == used);
        used = fixture_used(&f);
    }
}

/* The home worker is wanted until the walk is over, and not after it. */
TEST(upkeep_unlinks)
{
    struct shard *s = f.engine.shards[0];

    for (unsigned i = 0; i < 3000; i++) {
        by_set(fixture_key("p:", i));
    }
    fixture_settle(&f);
    ck_assert(!shard_wants_work(s));
    fixture_flush_prefix(&f, "p:");
    ck_assert(shard_wants_work(s));
    while (shard_maintain(s, fixture_now(&f), 0)) {
        ck_assert(shard_wants_work(s) || !shard_prefix_goes_on(s));
    }
    ck_assert(!shard_prefix_goes_on(s));
    ck_assert(shard_prefix_goes_on(f.engine.shards[1]));
    ck_assert_uint_eq(engine_prefixes(&f.engine), 1);
    fixture_grace(&f);
    ck_assert_uint_eq(engine_prefixes(&f.engine), 1); /* the other shard is not clean */
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

static void maintain_beside(usec_t rests_since)
{
    static const struct cycle_config cfg = {.effort = 1, .hz = 10, .slice_us = 250};
    struct shard *s = f.engine.shards[0];

    s->prefix_rests_us = rests_since;
    ck_assert(!shard_maintain_beside(s, &cfg, fixture_now(&f), 1));
}

/* Beside requests a slice follows a rest, unless commands wait for the end of the walk. */
TEST(the_walk_rests_beside_requests)
{
    const usec_t later = clock_mono_us() + (usec_t)3600 * 1000 * 1000;
    struct shard *s = f.engine.shards[0];
    unsigned slices = 0;

    for (unsigned i = 0; i < 20000; i++) {
        by_set(fixture_key("p:", i));
    }
    fixture_settle(&f);
    fixture_flush_prefix(&f, "p:");
    maintain_beside(later);
    ck_assert_uint_eq(s->prefix_goal, 0); /* it has not begun */
    ck_assert(shard_prefix_goes_on(s) && shard_wants_work(s));
    while (shard_prefix_goes_on(s)) {
        maintain_beside(0);
        ck_assert_int_gt(s->prefix_rests_us, 0);
        slices++;
    }
    ck_assert_uint_gt(slices, 1);
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);

    by_set("p:1");
    atomic_store(&fixture_options.flush_prefix_max, 1);
    fixture_flush_prefix(&f, "p:");
    while (shard_prefix_goes_on(s)) {
        maintain_beside(later);
    }
    fixture_settle(&f);
}

/* ---- flush_all --------------------------------------------------------------------------- */

TEST(everything_is_flushed_meanwhile)
{
    for (unsigned i = 0; i < 2000; i++) {
        by_set(fixture_key("p:", i));
    }
    fixture_flush_prefix(&f, "p:");
    ck_assert(prefix_slice(&f, 0));
    fixture_flush(&f, fixture_now(&f));
    for (unsigned i = 0; i < 2000; i += 2) {
        by_set(fixture_key("p:", i));
    }
    for (unsigned i = 0; i < 2000; i++) {
        ck_assert_int_eq(fixture_has(&f, fixture_key("p:", i)), i % 2 == 0);
    }
    end_flushes();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1000);
}

/* A key of this prefix that is new, and goes to this shard. */
static const char *key_in(uint32_t shard, const char *prefix)
{
    static unsigned n;
    const char *key;

    do {
        key = fixture_key(prefix, n++);
        by_set(key);
    } while (fixture_get(&f, key).shard != f.engine.shards[shard] &&
             fixture_delete(&f, key) == OUT_DELETED);
    return key;
}

/* The walk that it interrupted is not taken up: of later commands it would know too little. */
TEST(a_walk_ends_when_everything_is_flushed)
{
    char key[16];

    for (unsigned i = 0; i < 20000; i++) {
        by_set(fixture_key("p:", i));
    }
    fixture_flush_prefix(&f, "p:");
    ck_assert(prefix_slice(&f, 0));
    fixture_flush(&f, fixture_now(&f));
    (void)key_in(1, "p:");
    fixture_flush_prefix(&f, "p:"); /* in the first shard there is nothing of it */
    ck_assert(!prefix_slice(&f, 0) && shard_prefix_goes_on(f.engine.shards[1]));
    strcpy(key, key_in(0, "p:"));
    fixture_flush_prefix(&f, "r:");
    while (prefix_slice(&f, 0)) {
        ck_assert(fixture_has(&f, key));
    }
    end_flushes();
    ck_assert(fixture_has(&f, key));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
}

/* One that is to come does, whether the prefix is still in force by then or not. */
TEST_LOOP(a_flush_to_come_comes, 2)
{
    by_set("p:k");
    by_set("q:k");
    fixture_flush(&f, fixture_now(&f) + 100);
    fixture_flush_prefix(&f, "p:");
    ck_assert(!fixture_has(&f, "p:k") && fixture_has(&f, "q:k"));
    by_set("p:k");
    if (_i == 1) {
        end_flushes();
    }
    ck_assert(fixture_has(&f, "p:k") && fixture_has(&f, "q:k"));
    clock_advance(&f.engine.clock, 100);
    ck_assert(!fixture_has(&f, "p:k") && !fixture_has(&f, "q:k"));
    by_set("p:k");
    ck_assert(fixture_has(&f, "p:k"));
    fixture_settle(&f);
    end_flushes();
    ck_assert(fixture_has(&f, "p:k"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
}

/* ---- loads beside requests --------------------------------------------------------------- */

static bool load(const char *key, size_t len)
{
    guard_set_loader(true);
    enum outcome out = put(key, STORE_ADD, len, 0);
    guard_set_loader(false);
    return out == OUT_STORED;
}

/* Until the load is over nothing comes back, although the walk is. */
TEST(a_load_brings_nothing_back)
{
    struct guard guard;

    ck_assert_int_eq(guarding_begin(&f.engine, &guard, 1000, false), GUARDING_ON);
    ck_assert(load("p:a", 10) && load("p:b", 290000) && load("q:a", 10));
    fixture_flush_prefix(&f, "p:");
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(!load("p:a", 10) && !load("p:b", 290000) && !load(fixture_key("p:", i), 10));
        ck_assert(load(fixture_key("q:", i), 10) && load(fixture_key("r:", i), 290000));
        ck_assert(!fixture_has(&f, "p:a") && !fixture_has(&f, "p:b"));
        if (i == 0) {
            by_add("p:new"); /* by a request for it */
        }
        ck_assert(fixture_has(&f, "p:new"));
        prefix_walk(&f);
        fixture_grace(&f);
        ck_assert_uint_eq(engine_prefixes(&f.engine), 1);
    }
    fixture_flush_prefix(&f, "q:");
    prefix_walk(&f);
    ck_assert(!load("q:a", 10) && !load("q:0", 10));
    guarding_end(&f.engine, &guard);
    end_flushes();
    ck_assert(fixture_has(&f, "p:new"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 4);
    fixture_settle(&f);
}

/* The same prefix again takes no further place, although none ends while a load goes on. */
TEST(the_same_again_and_again_while_something_is_loaded)
{
    struct guard guard;

    ck_assert_int_eq(guarding_begin(&f.engine, &guard, 1000, false), GUARDING_ON);
    for (unsigned i = 0; i < 200; i++) {
        by_set("p:k");
        fixture_flush_prefix(&f, "p:");
        ck_assert(!load("p:k", 10));
    }
    ck_assert_uint_le(engine_prefixes(&f.engine), 2);
    guarding_end(&f.engine, &guard);
    end_flushes();
    fixture_settle(&f);
}

/* ---- who goes over all items ------------------------------------------------------------- */

static unsigned met_old, met_new;

static void meet(struct span key)
{
    met_old += key.ptr[0] == 'p' && key.len == 6;
    met_new += key.ptr[0] != 'p' || key.len != 6;
}

static void on_met(void *arg, const struct shard *s, const struct item *it)
{
    meet(span_of(item_key(it), it->key_len));
}

static void on_item(void *arg, const struct ship_item *it)
{
    meet(it->key);
}

static bool on_rest(void *arg)
{
    return true;
}

static void step_all(void)
{
    struct position p = {0};

    met_old = met_new = 0;
    while (p.shard < f.engine.shard_count) {
        rcu_begin();
        position_step(&p, f.engine.shards[p.shard], fixture_now(&f), on_met, NULL);
        rcu_end();
    }
}

static void ship_all(void)
{
    static const struct ship_ops ops = {.item = on_item, .rest = on_rest};
    struct walk w;

    met_old = met_new = 0;
    ck_assert(walk_begin(&w, &f.engine, &ops, NULL, NULL));
    while (walk_slice(&w)) {
    }
    ck_assert_int_eq(w.state, WALK_DONE);
    walk_end(&w);
}

TEST(no_dump_and_no_walk_meets_what_was_flushed)
{
    for (unsigned i = 0; i < 1000; i++) {
        by_set(fixture_key("p:", 1000 + i));
        by_set(fixture_key("q:", 1000 + i));
    }
    fixture_flush_prefix(&f, "p:");
    for (unsigned i = 0; i < 1000; i++) {
        by_set(fixture_key("p:", i % 500));
    }
    for (unsigned i = 0; i < 3; i++) {
        step_all();
        ck_assert_uint_eq(met_old, 0);
        ck_assert_uint_eq(met_new, 1500);
        ship_all();
        ck_assert_uint_eq(met_old, 0);
        ck_assert_uint_eq(met_new, 1500);
        if (i == 0) {
            (void)prefix_slice(&f, 0);
        } else {
            end_flushes();
        }
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

TEST_FIXTURE(NULL, NULL)

/* All that is left is released, and stop checks that. */
TEST_LOOP(an_engine_ends_while_it_flushes, 3)
{
    start_two();
    for (unsigned i = 0; i < 600; i++) {
        fixture_set(&f, fixture_key("p:", i), i % 50 == 0 ? 100000 : 10);
    }
    fixture_flush_prefix(&f, "p:");
    if (_i > 0) {
        (void)prefix_slice(&f, 0);
        fixture_flush_prefix(&f, "q:");
    }
    if (_i == 2) {
        prefix_walk(&f);
    }
}
