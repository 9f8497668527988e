/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store, delete, touch: the answers of every mode, cas values, sizes, and deadlines, which
 * every operation respects to the millisecond.
 */

#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static enum outcome put(enum store_mode mode, const char *key, const char *value, uint64_t cas)
{
    struct put p = {
        .mode = mode, .key = key, .ptr = value, .len = strlen(value), .flags = 5, .cas = cas};

    return fixture_store(&f, &p, NULL);
}

static void check_value(const char *key, const char *value)
{
    struct got got = fixture_get(&f, key);

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, strlen(value));
    ck_assert_mem_eq(got.value, value, got.len);
    ck_assert_uint_eq(got.flags, 5);
}

TEST(modes_answer_as_they_should)
{
    uint64_t cas;

    ck_assert_int_eq(put(STORE_REPLACE, "k", "a", 0), OUT_NOT_STORED);
    ck_assert_int_eq(put(STORE_APPEND, "k", "a", 0), OUT_NOT_STORED);
    ck_assert_int_eq(put(STORE_PREPEND, "k", "a", 0), OUT_NOT_STORED);
    ck_assert_int_eq(put(STORE_CAS, "k", "a", 1), OUT_NOT_FOUND);
    ck_assert(!fixture_has(&f, "k"));
    ck_assert_int_eq(put(STORE_ADD, "k", "a", 0), OUT_STORED);
    ck_assert_int_eq(put(STORE_ADD, "k", "b", 0), OUT_NOT_STORED);
    check_value("k", "a");
    ck_assert_int_eq(put(STORE_REPLACE, "k", "bb", 0), OUT_STORED);
    ck_assert_int_eq(put(STORE_APPEND, "k", "cc", 0), OUT_STORED);
    ck_assert_int_eq(put(STORE_PREPEND, "k", "aa", 0), OUT_STORED);
    check_value("k", "aabbcc");
    cas = fixture_get(&f, "k").cas;
    ck_assert_int_eq(put(STORE_CAS, "k", "x", cas + 1), OUT_EXISTS);
    ck_assert_int_eq(put(STORE_CAS, "k", "x", cas), OUT_STORED);
    ck_assert_int_eq(put(STORE_CAS, "k", "y", cas), OUT_EXISTS);
    check_value("k", "x");
    ck_assert_int_eq(put(STORE_SET, "k", "", 0), OUT_STORED);
    check_value("k", "");
    ck_assert_int_eq(put(STORE_APPEND, "k", "", 0), OUT_STORED);
    check_value("k", "");
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_NOT_FOUND);
}

TEST(a_delete_may_ask_for_a_cas)
{
    struct span key = span_str("k");
    uint64_t cas;

    uint64_t hash = engine_hash(&f.engine, "k", 1);
    fixture_set(&f, "k", 10);
    cas = fixture_get(&f, "k").cas;
    rcu_begin();
    ck_assert_int_eq(engine_delete(&f.engine, hash, key, cas + 1, fixture_now(&f)), OUT_EXISTS);
    rcu_end();
    fixture_check(&f, "k", 10);
    rcu_begin();
    ck_assert_int_eq(engine_delete(&f.engine, hash, key, cas, fixture_now(&f)), OUT_DELETED);
    rcu_end();
    ck_assert(!fixture_has(&f, "k"));
}

/* Across shards and the blocks that they draw. */
TEST(cas_values_are_unique_and_grow_for_each_key)
{
    const unsigned rounds = 40000;
    uint64_t *seen = mem_zalloc((1u << 20) / 8);
    uint64_t last[64] = {0};

    ck_assert_ptr_nonnull(seen);
    fixture_start_sized(&f, 4, FIXTURE_LIMIT);
    for (unsigned i = 0; i < rounds * 2; i++) {
        const unsigned n = i * 7 % 64;
        char key[8];
        struct put p = {.key = key, .ptr = "v", .len = 1};
        uint64_t cas;

        (void)snprintf(key, sizeof(key), "%u", n);
        ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
        ck_assert_uint_lt(cas, 1u << 20);
        ck_assert_uint_gt(cas, last[n]);
        ck_assert_uint_eq(seen[cas / 64] >> cas % 64 & 1, 0);
        seen[cas / 64] |= 1ull << cas % 64;
        last[n] = cas;
        if (i % 256 == 0) {
            fixture_grace(&f);
        }
    }
    mem_free(seen);
}

TEST(overwrites_of_all_sizes)
{
    struct rng rng;

    rng_init(&rng, rng_seed());
    for (unsigned i = 0; i < 3000; i++) {
        size_t len = rng_below(&rng, i % 10 == 0 ? 100000 : i % 3 == 0 ? 4000 : 200);

        fixture_set_until(&f, "k", len, i % 2 == 0 ? MSEC_NEVER : fixture_now(&f) + 5);
        fixture_check(&f, "k", len);
        if (i % 8 == 0) {
            fixture_grace(&f);
        }
        if (i % 100 == 0) {
            fixture_verify(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
}

TEST(keys_and_items_have_a_longest_size)
{
    char key[ITEM_KEY_MAX + 2];
    struct put p = {.key = key, .ptr = "v", .len = 1};

    memset(key, 'k', sizeof(key));
    key[ITEM_KEY_MAX + 1] = '\0';
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_TOO_LARGE);
    key[ITEM_KEY_MAX] = '\0';
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert(fixture_has(&f, key));
    fixture_set(&f, "k", f.engine.item_bytes_max - 1);
    fixture_check(&f, "k", f.engine.item_bytes_max - 1);
    p.ptr = fixture_get(&f, "k").value;
    p.len = f.engine.item_bytes_max - ITEM_KEY_MAX + 1;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_TOO_LARGE);
}

/* ---- deadlines --------------------------------------------------------------------------- */

static const size_t lens[] = {0, 5, 1900, 2020, 9000, 32768, 100000};

/*
 * Served to the last millisecond and no longer, by every command, with the sampler held or not.
 */
TEST_LOOP(an_item_lives_to_its_deadline_and_no_longer, 7)
{
    const size_t len = lens[_i];
    static const char *const keys[] = {"get", "delete", "touch", "incr",
                                       "add", "append", "cas"};

    const msec_t deadline = fixture_now(&f) + 1000;

    for (int i = 0; i < 7; i++) {
        fixture_set_until(&f, keys[i], len, deadline);
    }
    uint64_t cas = fixture_get(&f, "cas").cas;

    clock_advance(&f.engine.clock, 999);
    fixture_expire(&f);
    fixture_settle(&f);
    for (int i = 0; i < 7; i++) {
        fixture_check(&f, keys[i], len);
    }
    ck_assert_int_eq(put(STORE_ADD, "add", "x", 0), OUT_NOT_STORED);
    ck_assert_int_eq(put(STORE_CAS, "cas", "x", cas + 1), OUT_EXISTS);
    clock_advance(&f.engine.clock, 1);
    ck_assert(!fixture_has(&f, "get"));
    ck_assert_int_eq(fixture_delete(&f, "delete"), OUT_NOT_FOUND);
    ck_assert_int_eq(fixture_touch(&f, "touch", MSEC_NEVER), OUT_NOT_FOUND);
    ck_assert_int_eq(fixture_arith(&f, "incr", false, 1, NULL), OUT_NOT_FOUND);
    ck_assert_int_eq(put(STORE_APPEND, "append", "x", 0), OUT_NOT_STORED);
    ck_assert_int_eq(put(STORE_CAS, "cas", "x", cas), OUT_NOT_FOUND);
    ck_assert_int_eq(put(STORE_ADD, "add", "x", 0), OUT_STORED);
    /* Each of them was unlinked by the request that found it. */
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 7);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
}

/* The usual ones fit the header; a wide item has room for any. Others that follow keep them. */
TEST(flags_and_cas_of_any_size_come_back)
{
    const uint32_t flags[] = {0, ITEM_NARROW_FLAGS_MAX, ITEM_NARROW_FLAGS_MAX + 1, UINT32_MAX};
    const uint64_t cas[] = {1, UINT64_C(1) << CAS_LOW_BITS, ITEM_NARROW_CAS_MAX,
                            ITEM_NARROW_CAS_MAX + 1, UINT64_MAX};
    const size_t sizes[] = {1, 255, 256, 16000, 100000};

    for (unsigned i = 0; i < 4 * 5 * 5 * 2; i++) {
        const bool is_large = sizes[i / 20 % 5] > 16000;
        const bool has_ttl = i >= 100;
        const bool is_wide = flags[i % 4] > ITEM_NARROW_FLAGS_MAX ||
                             cas[i / 4 % 5] > ITEM_NARROW_CAS_MAX || is_large;
        char *value = mem_alloc(sizes[i / 20 % 5]);
        struct put p = {.key = "k",
                        .ptr = value,
                        .len = sizes[i / 20 % 5],
                        .flags = flags[i % 4],
                        .cas_new = cas[i / 4 % 5],
                        .deadline = has_ttl ? fixture_now(&f) + 1000 : 0};
        uint64_t got_cas;
        struct got got;

        ck_assert_ptr_nonnull(value);
        fixture_fill(value, p.len, i);
        ck_assert_int_eq(fixture_store(&f, &p, &got_cas), OUT_STORED);
        ck_assert_uint_eq(got_cas, p.cas_new);
        ck_assert_uint_eq(p.value_len, p.len);
        for (int touched = 0; touched < 2; touched++) {
            got = fixture_get(&f, "k");
            ck_assert_uint_eq(got.flags, p.flags);
            ck_assert_uint_eq(got.cas, p.cas_new);
            ck_assert_uint_eq(got.len, p.len);
            ck_assert_mem_eq(got.value, value, p.len);
            ck_assert_int_eq(item_is_wide(got.item), is_wide);
            ck_assert_int_eq(got.is_large, is_large);
            ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 2000), OUT_TOUCHED);
        }
        p.mode = STORE_APPEND;
        p.cas_new = 0;
        p.deadline = 0;
        ck_assert_int_eq(fixture_store(&f, &p, &got_cas), OUT_STORED);
        got = fixture_get(&f, "k");
        ck_assert_uint_eq(got.flags, p.flags);
        ck_assert_uint_eq(got.cas, got_cas);
        ck_assert_uint_le(got.cas, ITEM_CAS_DRAWN_MAX);
        ck_assert_uint_eq(got.len, 2 * p.len);
        fixture_verify(&f);
        mem_free(value);
    }
}

TEST(a_miss_tells_why)
{
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 5);
    ck_assert_int_eq(fixture_get(&f, "absent").miss, MISS_ABSENT);
    clock_advance(&f.engine.clock, 5);
    ck_assert_int_eq(fixture_get(&f, "k").miss, MISS_EXPIRED);
    ck_assert_int_eq(fixture_get(&f, "k").miss, MISS_ABSENT);
}

TEST_LOOP(stored_with_a_deadline_that_has_passed_is_gone, 7)
{
    const size_t len = lens[_i];

    fixture_set(&f, "k", len);
    uint64_t before = fixture_get(&f, "k").cas;
    fixture_set_until(&f, "k", len, fixture_now(&f));
    ck_assert(!fixture_has(&f, "k"));
    fixture_set_until(&f, "new", len, fixture_now(&f) - 1000);
    ck_assert(!fixture_has(&f, "new"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    fixture_set(&f, "k", 1);
    ck_assert_uint_gt(fixture_get(&f, "k").cas, before);
    fixture_settle(&f);
    ck_assert_uint_eq(f.shard->memory.arena.whole, 0);
}

TEST(append_keeps_the_deadline_and_set_does_not)
{
    const msec_t now = fixture_now(&f);

    fixture_set_until(&f, "k", 10, now + 50);
    ck_assert_int_eq(put(STORE_APPEND, "k", "x", 0), OUT_STORED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, now + 50);
    ck_assert_int_eq(put(STORE_SET, "k", "x", 0), OUT_STORED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, MSEC_NEVER);
    fixture_set_until(&f, "k", 10, now + 70);
    fixture_set_until(&f, "k", 20, now + 30);
    clock_advance(&f.engine.clock, 30);
    ck_assert(!fixture_has(&f, "k"));
}

/* Active expiry removes exactly the due items. */
TEST(the_sampler_takes_what_is_due_and_nothing_else)
{
    char key[16];
    struct rng rng;
    static msec_t deadline[3000];

    rng_init(&rng, rng_seed());
    for (unsigned i = 0; i < 3000; i++) {
        deadline[i] =
            i % 5 == 0 ? MSEC_NEVER
                       : fixture_now(&f) + 1 + (msec_t)rng_below(&rng, i % 2 ? 500 : 5000000);
        (void)snprintf(key, sizeof(key), "%u", i);
        fixture_set_until(&f, key, i % 100, deadline[i]);
    }
    for (msec_t step = 1; step < 8000000; step = step * 2 + 3) {
        uint64_t alive = 0;

        clock_advance(&f.engine.clock, step);
        fixture_expire(&f);
        for (unsigned i = 0; i < 3000; i++) {
            alive += fixture_now(&f) < deadline[i];
        }
        ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), alive);
        fixture_verify(&f);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 600);
}

TEST_LOOP(touch_moves_a_deadline_both_ways, 7)
{
    const size_t len = lens[_i];

    const msec_t now = fixture_now(&f);

    ck_assert_int_eq(fixture_touch(&f, "k", now + 5), OUT_NOT_FOUND);
    fixture_set_until(&f, "k", len, now + 100);
    uint64_t cas = fixture_get(&f, "k").cas;

    ck_assert_int_eq(fixture_touch(&f, "k", now + 1000), OUT_TOUCHED);
    clock_advance(&f.engine.clock, 999);
    fixture_expire(&f);
    fixture_check(&f, "k", len);
    ck_assert_int_eq(fixture_touch(&f, "k", now + 1001), OUT_TOUCHED);
    clock_advance(&f.engine.clock, 1);
    fixture_check(&f, "k", len);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
    clock_advance(&f.engine.clock, 1);
    ck_assert(!fixture_has(&f, "k"));
}

/* A deadline that has come deletes the item at once, whether or not it had one. */
TEST_LOOP(touch_of_now_deletes, 7)
{
    const size_t len = lens[_i];

    const msec_t now = fixture_now(&f);

    for (msec_t ago = 0; ago < 3; ago++) {
        fixture_set(&f, "endless", len);
        fixture_set_until(&f, "mortal", len, now + 100);
        ck_assert_int_eq(fixture_touch(&f, "endless", now - ago), OUT_TOUCHED);
        ck_assert_int_eq(fixture_touch(&f, "mortal", now - ago), OUT_TOUCHED);
        ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    }
    ck_assert(!fixture_has(&f, "endless"));
    ck_assert(!fixture_has(&f, "mortal"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 0);
}
