/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guarding, guard: a loader beside requests brings back nothing that went meanwhile, whichever
 * way it went, and everything else.
 */
#include "lib/engine/guarding.h"

#include <pthread.h>
#include <sys/mman.h>

#include "lib/base/bloom.h"
#include "lib/base/mem.h"
#include "tests/lib/fixture.h"

static struct fixture f;
static struct guard guard;

static void begin(void)
{
    fixture_start_sized(&f, 2, FIXTURE_LIMIT);
    ck_assert_int_eq(guarding_begin(&f.engine, &guard, 1000, false), GUARDING_ON);
}

static void end(void)
{
    guarding_end(&f.engine, &guard);
}

TEST_FIXTURE(begin, end)

/* Store an older item with a value of this size. Returns whether it was stored. */
static bool load(const char *key, size_t len)
{
    char *value = mem_zalloc(len + 1);
    struct put p = {.mode = STORE_ADD, .key = key, .ptr = value, .len = len};

    guard_set_loader(true);
    enum outcome out = fixture_store(&f, &p, NULL);
    guard_set_loader(false);
    mem_free(value);
    ck_assert(out == OUT_STORED || out == OUT_NOT_STORED);
    return out == OUT_STORED;
}

static enum outcome put(const char *key, enum store_mode mode)
{
    struct put p = {.mode = mode, .key = key, .ptr = "new", .len = 3, .cas = 1};

    return fixture_store(&f, &p, NULL);
}

TEST(what_nobody_touched_is_loaded)
{
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert(load(fixture_key("k", i), 10));
    }
    ck_assert(load("large", 300000));
    ck_assert(!load("large", 300000)); /* it is there */
    ck_assert_uint_eq(guard.turned, 0);
    ck_assert_uint_eq(guard.noted, 0); /* a loader's own misses are none */
}

TEST(what_is_there_stays)
{
    ck_assert_int_eq(put("k", STORE_SET), OUT_STORED);
    ck_assert(!load("k", 10));
    ck_assert_uint_eq(fixture_get(&f, "k").len, 3);
}

/* Each way in which a key is removed, or not found by a command that would change it. */
static void delete_absent(void)
{
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_NOT_FOUND);
}

static void delete_loaded(void)
{
    ck_assert(load("k", 10));
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
}

static void delete_new(void)
{
    ck_assert_int_eq(put("k", STORE_SET), OUT_STORED);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
}

static void replace_absent(void)
{
    ck_assert_int_eq(put("k", STORE_REPLACE), OUT_NOT_STORED);
}

static void append_absent(void)
{
    ck_assert_int_eq(put("k", STORE_APPEND), OUT_NOT_STORED);
}

static void cas_absent(void)
{
    ck_assert_int_eq(put("k", STORE_CAS), OUT_NOT_FOUND);
}

static void incr_absent(void)
{
    uint64_t n;

    ck_assert_int_eq(fixture_arith(&f, "k", false, 1, &n), OUT_NOT_FOUND);
}

static void touch_absent(void)
{
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 100), OUT_NOT_FOUND);
}

static void mark_absent(void)
{
    const struct erase d = {.marks_stale = true};

    ck_assert_int_eq(fixture_erase(&f, "k", &d), OUT_NOT_FOUND);
}

static void touch_away(void)
{
    ck_assert(load("k", 10));
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f)), OUT_TOUCHED);
}

static void expire_by_sampler(void)
{
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 100);
    clock_advance(&f.engine.clock, 1000);
    fixture_expire(&f);
}

static void expire_unseen(void)
{
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 100);
    clock_advance(&f.engine.clock, 1000);
}

static void expire_held(void)
{
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 100);
    engine_hold_expired(&f.engine, fixture_now(&f) + 60000);
    clock_advance(&f.engine.clock, 1000);
}

static void evict(void)
{
    fixture_set(&f, "k", 5000); /* as the others: small ones are kept for long */
    /* A look is a hit, which keeps it: not too often. */
    for (unsigned i = 0; i % 2000 != 0 || fixture_has(&f, "k"); i++) {
        fixture_set(&f, fixture_key("other", i), 5000);
    }
}

static void (*const ways[])(void) = {
    delete_absent, delete_loaded, delete_new,        replace_absent, append_absent,
    cas_absent,    incr_absent,   touch_absent,      mark_absent,    touch_away,
    evict,         expire_unseen, expire_by_sampler, expire_held,
};

TEST_LOOP(what_went_does_not_come_back, 2 * sizeof(ways) / sizeof(ways[0]))
{
    ways[_i / 2]();
    ck_assert(!load("k", _i % 2 == 0 ? 10 : 300000));
    ck_assert(!fixture_has(&f, "k"));
    /* It does not affect a store of a new item. */
    ck_assert_int_eq(put("k", STORE_ADD), OUT_STORED);
}

TEST_LOOP(a_flush_voids_the_load, 3)
{
    ck_assert(load("a", 10));
    fixture_flush(&f, fixture_now(&f) + (_i == 2 ? 500 : 0));
    if (_i == 1) {
        ck_assert_int_eq(put("new", STORE_SET), OUT_STORED);
    } else if (_i == 2) {
        ck_assert(load("b", 10));
        clock_advance(&f.engine.clock, 500);
    }
    ck_assert(!load("c", 10) || !load("c2", 10)); /* each shard carries it out when it is met */
    for (unsigned i = 0; i < 100; i++) {
        (void)load(fixture_key("k", i), 10);
    }
    ck_assert(guard.is_void);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)));
    }
    ck_assert(!fixture_has(&f, "a") && !fixture_has(&f, "b") && !fixture_has(&f, "c"));
}

TEST(few_others_are_turned_away)
{
    unsigned lost = 0;

    for (unsigned i = 0; i < 10000; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("gone", i)), OUT_NOT_FOUND);
    }
    for (unsigned i = 0; i < 10000; i++) {
        ck_assert(!load(fixture_key("gone", i), 1));
    }
    for (unsigned i = 0; i < 10000; i++) {
        lost += !load(fixture_key("other", i), 1);
    }
    ck_assert_uint_lt(lost, 200);
}

TEST(one_load_at_a_time)
{
    struct guard other;

    ck_assert_int_eq(guarding_begin(&f.engine, &other, 1000, true), GUARDING_BUSY);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_NOT_FOUND);
    guarding_end(&f.engine, &guard);
    ck_assert_int_eq(fixture_delete(&f, "k2"), OUT_NOT_FOUND);
    ck_assert_int_eq(guarding_begin(&f.engine, &guard, 1, false), GUARDING_ON);
    ck_assert(load("k", 10)); /* that was another load */
}

/* ---- memory ------------------------------------------------------------------------------ */

static int64_t used_bytes(void)
{
    return atomic_load(&f.engine.budget.used_bytes);
}

/* Replace the guard of the fixture by one for `items` items. */
static void begin_again(uint64_t items)
{
    guarding_end(&f.engine, &guard);
    fixture_settle(&f);
    ck_assert_int_eq(guarding_begin(&f.engine, &guard, items, false), GUARDING_ON);
}

TEST(a_guard_counts_until_it_is_released)
{
    begin_again(UINT64_MAX);
    int64_t with = used_bytes();
    guarding_end(&f.engine, &guard);
    ck_assert_int_eq(used_bytes(), with);
    ck_assert_int_gt(budget_part(&f.engine.budget, BUDGET_RETIRED), 0);
    fixture_settle(&f);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_RETIRED), 0);
    int64_t without = used_bytes();
    ck_assert_int_gt(with, without);
    /* However many items are announced. */
    ck_assert_int_le(with - without, 8 * (int64_t)MIB / GUARD_LIMIT_PART + 4096);
    ck_assert_int_eq(guarding_begin(&f.engine, &guard, 0, false), GUARDING_ON);
}

TEST(a_guard_is_made_of_fresh_pages)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char is_resident[64] = {0};
    unsigned resident = 0;

    /* The memory of earlier ones has been written to. */
    for (unsigned i = 0; i < 3; i++) {
        begin_again(UINT64_MAX);
        for (unsigned k = 0; k < 2000; k++) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("k", k)), OUT_NOT_FOUND);
        }
    }
    begin_again(UINT64_MAX);
    size_t pages = (((size_t)BLOOM_LINE_BYTES << guard.line_log) + page - 1) / page;
    ck_assert_uint_le(pages, sizeof(is_resident));
    ck_assert_int_eq(mincore(guard.bits, pages * page, is_resident), 0);
    for (size_t i = 0; i < pages; i++) {
        resident += is_resident[i] & 1u;
    }
    ck_assert_uint_eq(resident, 1);
}

TEST(a_burst_of_loads_waits_for_the_reclaimer)
{
    const int64_t limit = atomic_load(&f.engine.budget.limit_bytes);
    enum guarding got = GUARDING_ON;

    for (unsigned i = 0; i < 1000 && got == GUARDING_ON; i++) {
        guarding_end(&f.engine, &guard);
        got = guarding_begin(&f.engine, &guard, UINT64_MAX, true);
    }
    ck_assert_int_eq(got, GUARDING_WAIT);
    ck_assert_int_lt(used_bytes(), limit);
    fixture_settle(&f);
    ck_assert_int_eq(guarding_begin(&f.engine, &guard, UINT64_MAX, true), GUARDING_ON);
}

/* ---- two threads ------------------------------------------------------------------------- */

#define KEYS 2000u

static void *delete_all(void *arg)
{
    rcu_register();
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%u", i);
        (void)fixture_delete(&f, key);
    }
    rcu_unregister();
    return arg;
}

TEST(deletes_beside_a_load_win)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, delete_all, NULL), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)load(fixture_key("k", KEYS - 1 - i), 1);
    }
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)));
    }
}
