/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each item that goes is counted once, by its reason, in items and bytes: random commands on a
 * few keys, compared with what was there before each and what is there after it.
 */
#include "lib/engine/engine.h"

#include "lib/engine/router.h"
#include "lib/memory/chunks.h"
#include "lib/shard/info.h"
#include "lib/store/find.h"
#include "tests/lib/fixture.h"

#define KEYS  30
#define STEPS 20000

FIXTURE_OF_EACH_TEST(f)

/* What is counted for one reason. */
struct deaths {
    uint64_t items, bytes;
};

enum reason { BY_OVERWRITE, BY_DELETE, BY_EXPIRY, BY_EVICTION, BY_FLUSH, REASONS };

static const struct {
    enum counter items[3], bytes[3];
    unsigned n;
} counters_of[REASONS] = {
    [BY_OVERWRITE] = {{CTR_overwritten_items}, {CTR_overwritten_bytes}, 1},
    [BY_DELETE] = {{CTR_deleted_items}, {CTR_deleted_bytes}, 1},
    [BY_EXPIRY] = {{CTR_expired_lazy, CTR_expired_active, CTR_expired_reclaim},
                   {CTR_expired_lazy_bytes, CTR_expired_active_bytes,
                    CTR_expired_reclaim_bytes},
                   3},
    [BY_EVICTION] = {{CTR_evictions}, {CTR_evicted_bytes}, 1},
    [BY_FLUSH] = {{CTR_flushed_items}, {CTR_flushed_bytes}, 1},
};

static struct deaths expected[REASONS];

static struct deaths counted(enum reason reason)
{
    struct deaths d = {0, 0};

    for (unsigned i = 0; i < counters_of[reason].n; i++) {
        d.items += fixture_counter(&f, counters_of[reason].items[i]);
        d.bytes += fixture_counter(&f, counters_of[reason].bytes[i]);
    }
    return d;
}

/* What the item of a key counts in `bytes`; 0: there is none. */
static uint64_t weight_of(const char *key)
{
    uint64_t bytes = 0;

    rcu_begin();
    struct found found = engine_find(router_read(&f.engine.router), fixture_hash(&f, key), key,
                                     strlen(key), fixture_now(&f));
    if (found.item != NULL) {
        bytes = item_all_bytes(found.item);
    }
    rcu_end();
    return bytes;
}

static void expect(enum reason reason, uint64_t bytes)
{
    expected[reason].items += bytes != 0;
    expected[reason].bytes += bytes;
}

static void assert_as_expected(unsigned step)
{
    for (int reason = 0; reason < REASONS; reason++) {
        struct deaths d = counted((enum reason)reason);

        ck_assert_msg(d.items == expected[reason].items && d.bytes == expected[reason].bytes,
                      "step %u, reason %d: %llu items of %llu bytes, expected %llu of %llu",
                      step, reason, (unsigned long long)d.items, (unsigned long long)d.bytes,
                      (unsigned long long)expected[reason].items,
                      (unsigned long long)expected[reason].bytes);
    }
}

static size_t some_len(struct rng *rng)
{
    static const size_t most[] = {20, 200, 3000, 16000, 150000};

    return (size_t)(rng_next(rng) % most[rng_next(rng) % 5]);
}

static msec_t some_deadline(struct rng *rng)
{
    switch (rng_next(rng) % 4) {
    case 0:
        return fixture_now(&f) + 1 + (msec_t)(rng_next(rng) % 100);
    case 1:
        return fixture_now(&f) + 100000;
    case 2:
        return rng_next(rng) % 8 == 0 ? fixture_now(&f) : 0; /* dead when it arrives */
    default:
        return 0;
    }
}

static void store(struct rng *rng, const char *key)
{
    static const enum store_mode modes[] = {STORE_SET,     STORE_SET,    STORE_ADD,
                                            STORE_REPLACE, STORE_APPEND, STORE_PREPEND};
    struct put p = {.mode = modes[rng_next(rng) % 6], .key = key, .len = some_len(rng)};
    uint64_t before = weight_of(key);
    char *value = calloc(1, p.len + 1);

    p.ptr = value;
    p.deadline = some_deadline(rng);
    if (fixture_store(&f, &p, NULL) == OUT_STORED) {
        expect(BY_OVERWRITE, before);
    }
    free(value);
}

/* A number that keeps its length, or gets a digit more. */
static void count_up(const char *key)
{
    struct put p = {.mode = STORE_SET, .key = key, .ptr = "9", .len = 1};
    uint64_t number;

    expect(BY_OVERWRITE, weight_of(key));
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    for (int i = 0; i < 3; i++) {
        expect(BY_OVERWRITE, weight_of(key));
        ck_assert_int_eq(fixture_arith(&f, key, false, 1, &number), OUT_NUMBER);
    }
}

static void erase(struct rng *rng, const char *key)
{
    struct erase empty = {.drops_value = true};
    uint64_t before = weight_of(key);

    switch (rng_next(rng) % 3) {
    case 0:
        (void)fixture_delete(&f, key);
        expect(BY_DELETE, before);
        break;
    case 1:
        (void)fixture_touch(&f, key, fixture_now(&f));
        expect(BY_DELETE, before);
        break;
    default: /* an empty item takes the place */
        (void)fixture_erase(&f, key, &empty);
        expect(BY_OVERWRITE, before);
        break;
    }
}

/* New blocks for items that stay what they are count as nothing. */
static void renew(struct rng *rng, const char *key)
{
    struct erase stale = {.marks_stale = true};

    if (rng_next(rng) % 2 == 0) {
        (void)fixture_erase(&f, key, &stale);
    } else {
        (void)fixture_touch(&f, key, fixture_now(&f) + 50);
    }
}

/* All due items are removed, by the sampler or by a request for them. */
static void let_time_pass(struct rng *rng)
{
    uint64_t before[KEYS];

    for (unsigned i = 0; i < KEYS; i++) {
        before[i] = weight_of(fixture_key("k", i));
    }
    clock_advance(&f.engine.clock, (msec_t)(rng_next(rng) % 60));
    for (unsigned i = 0; i < KEYS; i++) {
        uint64_t after = i % 2 == 0 ? weight_of(fixture_key("k", i)) : 0;

        if (i % 2 == 0 && after == 0) {
            expect(BY_EXPIRY, before[i]);
        }
    }
    fixture_expire(&f);
    for (unsigned i = 1; i < KEYS; i += 2) {
        if (weight_of(fixture_key("k", i)) == 0) {
            expect(BY_EXPIRY, before[i]);
        }
    }
}

static void flush_all(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        expect(BY_FLUSH, weight_of(fixture_key("k", i)));
    }
    fixture_flush(&f, fixture_now(&f));
}

TEST(every_death_is_counted_by_its_reason)
{
    struct engine_config cfg;
    struct rng rng;

    memset(expected, 0, sizeof(expected));
    rng_init(&rng, rng_seed());
    fixture_config(&cfg);
    cfg.limit_bytes = 64 * MIB; /* nothing is evicted, and nothing is cleaned */
    fixture_start(&f, &cfg);
    for (unsigned step = 0; step < STEPS; step++) {
        const char *key = fixture_key("k", (unsigned)(rng_next(&rng) % KEYS));
        unsigned what = (unsigned)(rng_next(&rng) % 100);

        if (what < 60) {
            store(&rng, key);
        } else if (what < 70) {
            count_up(key);
        } else if (what < 83) {
            erase(&rng, key);
        } else if (what < 93) {
            renew(&rng, key);
        } else if (what < 99) {
            let_time_pass(&rng);
        } else {
            flush_all();
        }
        assert_as_expected(step);
        if (step % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_gt(expected[BY_EXPIRY].items, 100);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_at_once), 0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_lazy), 0);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expired_active), 0);
}

/* All bytes that were ever stored are there, or gone for a reason. */
TEST(evictions_are_counted_by_what_they_held)
{
    const uint64_t one = 8 * ((sizeof(struct item) + 8 + 500 + 7) / 8);
    unsigned n;

    for (n = 0; fixture_counter(&f, CTR_evictions) < 1000; n++) {
        char key[9];

        snprintf(key, sizeof(key), "%08u", n);
        fixture_set(&f, key, 500);
        if (n % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes) / fixture_counter(&f, CTR_curr_items),
                      one);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_bytes),
                      fixture_counter(&f, CTR_evictions) * one);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items) + fixture_counter(&f, CTR_evictions),
                      n);
    ck_assert_uint_eq(fixture_counter(&f, CTR_overwritten_items), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_overwritten_bytes), 0);
}

TEST(what_is_due_and_makes_room_is_counted)
{
    uint64_t n = 0;

    for (; fixture_counter(&f, CTR_item_bytes) < 6 * MIB; n++) {
        fixture_set_until(&f, fixture_key("k", (unsigned)n), 500, fixture_now(&f) + 10);
    }
    uint64_t bytes = fixture_counter(&f, CTR_item_bytes);

    clock_advance(&f.engine.clock, 10);
    for (unsigned i = 0; fixture_counter(&f, CTR_expired_reclaim) < n; i++) {
        fixture_set(&f, fixture_key("new", i), 500);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_reclaim_bytes), bytes);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy_bytes), 0);
}
