/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items drawn from the index for an eviction: every one has the same chance, also while the
 * table is resized, and what was removed never comes.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/index/table.h"
#include "tests/common/unit.h"

#define KEYS       2000u
#define FAKE_BYTES 40u
#define UNITS      (FAKE_BYTES / ITEM_UNIT)

static struct table table;
static struct budget budget;
static char *base;
static bool is_in[KEYS];

static handle_t handle_of(unsigned key)
{
    return (key + 1) * UNITS;
}

static uint64_t hash_of(unsigned key)
{
    return hash_key(table.seed, &key, sizeof(key));
}

static void stop(void)
{
    table_fini(&table);
    mem_free(base);
}

static void start(uint64_t items)
{
    memset(&budget, 0, sizeof(budget));
    memset(is_in, 0, sizeof(is_in));
    base = mem_zalloc((KEYS + 1) * FAKE_BYTES);
    ck_assert_ptr_nonnull(base);
    ck_assert(table_init(&table, items, 3, &budget, NULL));
    table.min_buckets = TABLE_MIN_BUCKETS;
    for (unsigned key = 0; key < KEYS; key++) {
        struct item *it = item_at(base, handle_of(key));

        it->key_len = sizeof(key);
        memcpy((char *)(it + 1), &key, sizeof(key));
    }
    unit_at_end(stop);
}

static void insert(unsigned key)
{
    table_insert(&table, hash_of(key), handle_of(key));
    is_in[key] = true;
}

static void take_out(unsigned key)
{
    table_remove(&table, hash_of(key), table_slot_of(&table, hash_of(key), handle_of(key)));
    is_in[key] = false;
}

/* As in test_wheel_draw.c: 100 times each, with a standard deviation of 10. */
static void check_samples(void)
{
    static unsigned count[KEYS];
    uint64_t random = 9;
    uint64_t in = 0;
    uint64_t drawn = 0;
    handle_t out[5];

    memset(count, 0, sizeof(count));
    for (unsigned key = 0; key < KEYS; key++) {
        in += is_in[key];
    }
    while (drawn < in * 100) {
        unsigned n = table_sample(&table, &random, out, 5);

        ck_assert_uint_ge(n, 1);
        for (unsigned i = 0; i < n; i++) {
            unsigned key = out[i] / UNITS - 1;

            ck_assert_uint_eq(out[i] % UNITS, 0);
            ck_assert(key < KEYS && is_in[key]);
            count[key]++;
        }
        drawn += n;
    }
    for (unsigned key = 0; key < KEYS; key++) {
        ck_assert_msg(!is_in[key] || (count[key] > 35 && count[key] < 165),
                      "key %u came %u times", key, count[key]);
    }
}

TEST(every_item_comes_as_often_as_any_other)
{
    start(KEYS);
    for (unsigned key = 0; key < KEYS; key++) {
        insert(key);
    }
    check_samples();
    for (unsigned key = 0; key < KEYS; key += 2) {
        take_out(key);
    }
    check_samples();
}

/* Half of the buckets have moved to a table of twice the size, and keys come and go. */
TEST(every_item_comes_as_often_while_the_table_grows)
{
    struct table_grow grow;
    struct table_waste waste;
    unsigned key = 0;

    start(0);
    while (table_wants(&table) == 0) {
        insert(key++);
    }
    uint64_t old_buckets = table_bytes(&table) / 64;
    ck_assert(table_prepare(&table, old_buckets * 2, &grow));
    table_publish(&table, &grow);
    check_samples();
    table_begin_move(&table);
    ck_assert(!table_step(&table, base, old_buckets / 2));
    check_samples();
    for (unsigned n = 0; n < 50; n++) {
        take_out(n);
        insert(key++);
    }
    check_samples();
    while (!table_step(&table, base, 1000)) {
    }
    table_retire(&table, &waste);
    table_waste_release(&waste, &budget);
    check_samples();
}

TEST(one_item_of_a_large_table_is_met)
{
    uint64_t random = 1;
    handle_t out[5];

    start(100000);
    ck_assert_uint_eq(table_sample(&table, &random, out, 5), 0);
    insert(7);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_ge(table_sample(&table, &random, out, 5), 1);
        ck_assert_uint_eq(out[0], handle_of(7));
    }
    take_out(7);
    ck_assert_uint_eq(table_sample(&table, &random, out, 5), 0);
}
