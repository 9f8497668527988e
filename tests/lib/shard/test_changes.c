/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * changes: records come out as they went in, wherever the ring ends; a late reader notices;
 * with a reader at the same time, no record is taken for whole that is not; and what the shard
 * writes: one record for each thing that becomes of a key.
 */
#include "lib/shard/changes.h"

#include <pthread.h>
#include <sched.h>

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "tests/lib/fixture.h"

#define RING_BYTES 4096u
#define SUM_SEED   11

static struct budget budget;
static struct changes_bell bell;
static struct changes *ring;

static void make_ring(void)
{
    memset(&budget, 0, sizeof(budget));
    ring = changes_create(RING_BYTES, &budget, &bell);
    ck_assert_ptr_nonnull(ring);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), RING_BYTES);
}

static void drop_ring(void)
{
    changes_destroy(&ring);
    ck_assert_ptr_null(ring);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 0);
}

/* A key that depends on a number, of any length, and ends with a sum over the rest. */
static size_t key_of(uint64_t number, char key[ITEM_KEY_MAX])
{
    size_t len = 9 + number * 7 % (ITEM_KEY_MAX - 8);

    for (size_t i = 8; i < len; i++) {
        key[i] = (char)(number * 31 + i);
    }
    uint64_t sum = hash_key(SUM_SEED, key + 8, len - 8);
    memcpy(key, &sum, sizeof(sum));
    return len;
}

static void put(uint64_t number)
{
    char key[ITEM_KEY_MAX];
    size_t len = key_of(number, key);

    changes_put(ring, (enum change_kind)(number % 2), number, key, len);
}

/* Is it the record of this number, and whole? */
static bool is_record(const struct change *c, uint64_t number)
{
    char key[ITEM_KEY_MAX];
    size_t len = key_of(number, key);

    return c->kind == (enum change_kind)(number % 2) && c->key_len == len &&
           memcmp(c->key, key, len) == 0 && c->id == number;
}

TEST_FIXTURE(make_ring, drop_ring)

TEST(records_come_out_as_they_went_in)
{
    struct change c;
    uint64_t pos = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        put(i);
        ck_assert(changes_get(ring, &pos, &c));
        ck_assert(is_record(&c, i));
        ck_assert_uint_eq(pos, changes_published(ring));
    }
}

TEST(keys_of_all_lengths_come_out)
{
    char key[ITEM_KEY_MAX + 1];
    struct change c;
    uint64_t pos = 0;

    memset(key, 'x', sizeof(key));
    for (size_t len = 1; len <= ITEM_KEY_MAX; len++) {
        key[len - 1] = 'y';
        changes_put(ring, CHANGE_DROP, 0, key, len);
        ck_assert(changes_get(ring, &pos, &c));
        ck_assert_uint_eq(c.key_len, len);
        ck_assert_mem_eq(c.key, key, len);
        key[len - 1] = 'x';
    }
}

TEST(flushes_come_with_number_and_instant)
{
    struct change c;
    uint64_t pos = 0;

    changes_put_flush(ring, CHANGE_FLUSH, 7, 0);
    changes_put_flush(ring, CHANGE_LATER, 8, 12345678901);
    ck_assert(changes_get(ring, &pos, &c));
    ck_assert_int_eq(c.kind, CHANGE_FLUSH);
    ck_assert_uint_eq(c.id, 7);
    ck_assert(changes_get(ring, &pos, &c));
    ck_assert_int_eq(c.kind, CHANGE_LATER);
    ck_assert_uint_eq(c.id, 8);
    ck_assert_int_eq(c.at, 12345678901);
}

/*
 * All records in the ring come out; overwritten ones, and no others, are reported as lost.
 */
TEST(who_is_too_late_is_told)
{
    struct change c;
    uint64_t starts[64];
    uint64_t number = 0;

    while (changes_published(ring) < RING_BYTES * 3) {
        starts[number % 64] = changes_published(ring);
        put(number++);
    }
    for (uint64_t i = number - 64; i < number; i++) {
        uint64_t pos = starts[i % 64];
        bool is_there = pos + RING_BYTES >= changes_published(ring);

        ck_assert_int_eq(changes_get(ring, &pos, &c), is_there);
        ck_assert(!is_there || is_record(&c, i));
    }
}

/* ---- a writer and a reader --------------------------------------------------------------- */

#define WRITES 60000u

static _Atomic bool is_written;

static void *write_all(void *arg)
{
    for (uint64_t i = 0; i < WRITES; i++) {
        put(i * 3); /* CHANGE_PUT */
        if (i % 64 == 0) {
            (void)sched_yield();
        }
    }
    atomic_store(&is_written, true);
    return NULL;
}

TEST(no_record_is_taken_for_whole_that_is_not)
{
    pthread_t writer;
    struct change c;
    uint64_t pos = 0;
    uint64_t next = 0;
    bool is_over = false;

    atomic_store(&is_written, false);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_all, NULL), 0);
    while (!is_over) {
        bool was_written = atomic_load(&is_written);
        uint64_t until = changes_published(ring);

        while (pos < until) {
            if (changes_get(ring, &pos, &c)) {
                ck_assert(c.id >= next && is_record(&c, c.id));
                next = c.id + 3;
            } else {
                ck_assert(changes_published(ring) - pos > RING_BYTES / 2);
                pos = until = changes_published(ring);
            }
        }
        is_over = was_written && pos == changes_published(ring);
        (void)sched_yield();
    }
    ck_assert_int_eq(pthread_join(writer, NULL), 0);
    ck_assert_uint_eq(pos, changes_published(ring));
}

/* ---- what a shard writes ----------------------------------------------------------------- */

static struct fixture f;
static uint64_t read_to;

static void start_shard(void)
{
    make_ring();
    fixture_start(&f, NULL);
    shard_enter(f.shard);
    f.shard->changes = ring;
    shard_leave(f.shard);
    read_to = 0;
}

static void stop_shard(void)
{
    shard_enter(f.shard);
    f.shard->changes = NULL;
    shard_leave(f.shard);
    fixture_stop(&f);
    drop_ring();
}

/* The next record is of this kind and key, and has the hash of the key. */
static void expect(enum change_kind kind, const char *key)
{
    struct change c;

    ck_assert_uint_lt(read_to, changes_published(ring));
    ck_assert(changes_get(ring, &read_to, &c));
    ck_assert_int_eq(c.kind, kind);
    ck_assert_uint_eq(c.key_len, strlen(key));
    ck_assert_mem_eq(c.key, key, c.key_len);
    ck_assert_uint_eq(c.id, engine_hash(&f.engine, key, strlen(key)));
}

static void expect_no_more(void)
{
    ck_assert_uint_eq(read_to, changes_published(ring));
}

TEST_FIXTURE(start_shard, stop_shard)

TEST(each_store_is_one_put)
{
    struct arith a = {.delta = 1};
    struct put add = {.mode = STORE_APPEND, .key = "large", .ptr = "x", .len = 1};

    fixture_set(&f, "k", 10);
    expect(CHANGE_PUT, "k");
    fixture_set(&f, "k", 20);
    expect(CHANGE_PUT, "k");
    fixture_set_until(&f, "k", 20, fixture_now(&f) + 100);
    expect(CHANGE_PUT, "k");
    fixture_set(&f, "large", 500000);
    expect(CHANGE_PUT, "large");
    ck_assert_int_eq(fixture_store(&f, &add, NULL), OUT_STORED);
    expect(CHANGE_PUT, "large");
    add = (struct put){.key = "n", .ptr = "1", .len = 1};
    ck_assert_int_eq(fixture_store(&f, &add, NULL), OUT_STORED);
    expect(CHANGE_PUT, "n");
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    expect(CHANGE_PUT, "n");
    expect_no_more();
}

TEST(what_keeps_the_value_is_a_put_too)
{
    struct erase stale = {.marks_stale = true};
    struct fetch win = {0};

    fixture_set(&f, "k", 10);
    expect(CHANGE_PUT, "k");
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 1000), OUT_TOUCHED);
    expect(CHANGE_PUT, "k"); /* a new block */
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 5000), OUT_TOUCHED);
    expect(CHANGE_PUT, "k"); /* in place */
    ck_assert_int_eq(fixture_touch(&f, "k", MSEC_NEVER), OUT_TOUCHED);
    expect(CHANGE_PUT, "k");
    ck_assert_int_eq(fixture_erase(&f, "k", &stale), OUT_DELETED);
    expect(CHANGE_PUT, "k");
    ck_assert_int_eq(fixture_fetch(&f, "k", &win), OUT_HIT);
    ck_assert(win.is_won);
    expect(CHANGE_PUT, "k");
    (void)fixture_use(&f, "k", 3);
    expect_no_more();
}

TEST(whatever_goes_is_a_drop)
{
    fixture_set(&f, "k", 10);
    expect(CHANGE_PUT, "k");
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
    expect(CHANGE_DROP, "k");
    for (unsigned i = 0; i < 3; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
        expect(CHANGE_PUT, fixture_key("k", i));
    }
    ck_assert_int_eq(fixture_touch(&f, "k0", fixture_now(&f)), OUT_TOUCHED);
    expect(CHANGE_DROP, "k0");
    clock_advance(&f.engine.clock, 10);
    ring->expiry_readers = 1;
    ck_assert(!fixture_has(&f, "k1")); /* by a reader */
    expect(CHANGE_DROP, "k1");
    fixture_expire(&f);
    expect(CHANGE_DROP, "k2");
    expect_no_more();
    ck_assert_uint_eq(changes_expired(ring), 0);
}

TEST(an_expiry_that_nobody_wants_a_record_of_is_counted)
{
    for (unsigned i = 0; i < 3; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
        expect(CHANGE_PUT, fixture_key("k", i));
    }
    clock_advance(&f.engine.clock, 10);
    ck_assert(!fixture_has(&f, "k1"));
    ck_assert_uint_eq(changes_expired(ring), 1);
    (void)bell_listen(ring->bell);
    fixture_expire(&f);
    ck_assert_uint_eq(changes_expired(ring), 3);
    ck_assert(atomic_load(&ring->bell->is_awaited) == 0); /* the sleeper was woken */
    expect_no_more();
}

TEST(a_flush_is_one_record)
{
    struct change c;

    fixture_set(&f, "k", 10);
    expect(CHANGE_PUT, "k");
    fixture_flush(&f, fixture_now(&f));
    ck_assert(changes_get(ring, &read_to, &c));
    ck_assert_int_eq(c.kind, CHANGE_FLUSH);
    ck_assert_uint_eq(c.id, 1);
    fixture_flush(&f, fixture_now(&f) + 500);
    ck_assert(changes_get(ring, &read_to, &c));
    ck_assert_int_eq(c.kind, CHANGE_LATER);
    ck_assert_uint_eq(c.id, 2);
    ck_assert_int_eq(c.at, fixture_now(&f) + 500);
    expect_no_more();
}

/* Evictions are drops, and what the cursor moves is nothing. */
TEST(what_is_left_is_what_the_records_say)
{
    static bool is_there[20000];
    struct change c;
    uint64_t drops = 0;

    for (unsigned i = 0; i < 20000; i++) {
        uint64_t number;

        (void)fixture_try(&f, fixture_key("", i), 300 + i % 900, 0);
        while (read_to != changes_published(ring)) {
            ck_assert(changes_get(ring, &read_to, &c));
            ck_assert_int_eq(num_u64(span_of(c.key, c.key_len), &number), MF_OK);
            ck_assert(is_there[number] == (c.kind == CHANGE_DROP));
            is_there[number] = c.kind == CHANGE_PUT;
            drops += c.kind == CHANGE_DROP;
        }
    }
    ck_assert_uint_eq(drops, fixture_counter(&f, CTR_evictions));
    ck_assert_uint_gt(drops, 1000);
    for (unsigned i = 0; i < 20000; i++) {
        ck_assert(fixture_has(&f, fixture_key("", i)) == is_there[i]);
    }
}
