/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix: the index is resized while ranges of it are cleaned, in any of its phases. There come
 * to be many buckets for a range, or many ranges for a bucket.
 */
#include "lib/engine/prefix.h"

#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/upkeep.h"
#include "tests/lib/fixture.h"

static struct fixture f;

/* Some ranges. True: there are more. */
static bool slice(void)
{
    rcu_begin();
    shard_enter(f.shard);
    bool more = shard_prefix_slice(f.shard);
    shard_leave(f.shard);
    rcu_end();
    return more;
}

static void end_flushes(void)
{
    while (slice()) {
    }
    fixture_grace(&f);
    ck_assert_uint_eq(engine_prefixes(&f.engine), 0);
}

/* Carry a resize on, without any upkeep that would clean. */
static void resize(bool to_its_end)
{
    struct shard *s = f.shard;

    shard_make_wanted(s);
    fixture_grace(&f);
    fixture_grace(&f);
    shard_enter(s);
    while (shard_resize_step(s, 16) && to_its_end) {
    }
    shard_leave(s);
}

static unsigned old_keys, new_keys;

/* Of the old ones every third was stored again. */
static void check_thirds(void)
{
    for (unsigned i = 0; i < old_keys; i++) {
        ck_assert(fixture_has(&f, fixture_key("p:", i)) == (i % 3 == 0));
    }
    for (unsigned i = 0; i < new_keys; i += 7) {
        ck_assert(fixture_has(&f, fixture_key("q:", i)));
    }
}

static void start(void)
{
    fixture_start_sized(&f, 1, 64 * MIB);
}

TEST_FIXTURE(start, NULL)

/* _i: slices before the index grows, of which it is left in the middle or not. */
TEST_LOOP(the_index_grows_meanwhile, 12)
{
    old_keys = 400;
    new_keys = 60000;
    for (unsigned i = 0; i < old_keys; i++) {
        fixture_set(&f, fixture_key("p:", i), 10);
    }
    uint64_t buckets = table_buckets(&f.shard->table);
    fixture_flush_prefix(&f, "p:");
    for (int i = 0; i < _i / 2; i++) {
        (void)slice();
    }
    for (unsigned i = 0; i < new_keys; i++) {
        fixture_set(&f, fixture_key("q:", i), 10);
        if (i % 64 == 0) {
            resize(_i % 2 == 0 || i < new_keys / 2);
        }
        if (i == new_keys / 3) {
            for (unsigned k = 0; k < old_keys; k += 3) {
                fixture_set(&f, fixture_key("p:", k), 10);
            }
        }
        if (i % 4096 == 0 && _i % 3 == 0) {
            (void)slice();
        }
    }
    ck_assert_uint_gt(table_buckets(&f.shard->table), 8 * buckets);
    check_thirds();
    /* Another command finds too few marks, and makes more. */
    if (f.shard->prefix_marks != NULL) {
        uint64_t ranges = f.shard->prefix_marks->mask + 1;

        fixture_flush_prefix(&f, "r:");
        ck_assert_uint_gt(f.shard->prefix_marks->mask + 1, ranges);
        check_thirds();
        ck_assert(slice());
        check_thirds();
    }
    while (slice()) {
    }
    check_thirds();
    fixture_settle(&f);
    end_flushes();
    check_thirds();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), new_keys + (old_keys + 2) / 3);
}

/* In the end there are fewer buckets than ranges. */
TEST_LOOP(the_index_shrinks_meanwhile, 6)
{
    old_keys = 1500;
    new_keys = 0;
    for (unsigned i = 0; i < 60000; i++) {
        fixture_set(&f, fixture_key("q:", i), 10);
    }
    for (unsigned i = 0; i < old_keys; i++) {
        fixture_set(&f, fixture_key("p:", i), 10);
    }
    fixture_settle(&f);
    uint64_t buckets = table_buckets(&f.shard->table);
    fixture_flush_prefix(&f, "p:");
    for (int i = 0; i < _i * 10; i++) {
        ck_assert(slice());
    }
    for (unsigned i = 0; i < 60000; i++) {
        ck_assert(fixture_delete(&f, fixture_key("q:", i)) == OUT_DELETED);
        if (i % 64 == 0) {
            resize(_i % 2 == 0);
        }
        if (i == 40000) {
            for (unsigned k = 0; k < old_keys; k += 3) {
                fixture_set(&f, fixture_key("p:", k), 10);
            }
        }
        if (i > 40000 && i % 1000 == 0) {
            check_thirds();
        }
    }
    ck_assert_uint_le(table_buckets(&f.shard->table), buckets / 16);
    ck_assert_uint_lt(table_buckets(&f.shard->table), f.shard->prefix_marks->mask + 1);
    /* Cleaning one range must leave what is new in others of its bucket. */
    fixture_flush_prefix(&f, "p:7");
    for (unsigned k = 0; k < old_keys; k += 3) {
        const char *key = fixture_key("p:", k);

        ck_assert(fixture_has(&f, key) == (key[2] != '7'));
        if (key[2] == '7' && k % 2 == 0) {
            fixture_set(&f, key, 10);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 0; k < old_keys; k++) {
            const char *key = fixture_key("p:", k);

            ck_assert(fixture_has(&f, key) == (k % 3 == 0 && (key[2] != '7' || k % 2 == 0)));
        }
        end_flushes();
    }
}
