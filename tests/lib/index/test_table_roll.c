/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table_roll: what is resident during a rolling resize, and where inserts go. That nothing gets
 * lost is shown by test_table.c.
 */
#include <sys/mman.h>

#include "lib/base/num.h"
#include "lib/index/table.h"
#include "tests/common/unit.h"

/* No array is large enough for huge pages, and a part is whole pages. */
#define BUCKETS 8192u /* 512 KiB */
#define PART    1024u

static uint64_t resident_bytes(const struct table_bucket *buckets, uint64_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t pages = count * sizeof(*buckets) / page;
    unsigned char *in = mem_alloc(pages);
    uint64_t n = 0;

    ck_assert_int_eq(mincore((void *)(uintptr_t)buckets, pages * page, in), 0);
    for (size_t i = 0; i < pages; i++) {
        n += in[i] & 1;
    }
    mem_free(in);
    return n * page;
}

/* A table whose array is resident, and that shall roll to another size. */
static void begin(struct table *t, uint64_t buckets)
{
    struct table_grow grow;

    ck_assert(table_init(t, BUCKETS * TABLE_SLOTS / 2, 1, NULL, NULL));
    ck_assert_uint_eq(table_buckets(t), BUCKETS);
    t->part_buckets = PART;
    mem_touch(atomic_load(&t->view)->buckets, BUCKETS * sizeof(struct table_bucket));
    table_ask(t, buckets * TABLE_SLOTS / 2, true);
    ck_assert_uint_eq(table_wants(t), buckets);
    ck_assert(table_rolls(t, buckets));
    ck_assert(table_prepare(t, buckets, &grow));
    grow.rolls = true;
    table_publish(t, &grow);
}

/* Bytes of both arrays that are resident at most before a resize is over. */
static uint64_t most_resident(struct table *t)
{
    const struct table_view *v = atomic_load(&t->view);
    struct table_waste waste;
    uint64_t most = 0;

    table_begin_move(t);
    while (t->phase != TABLE_DRAINED) {
        struct table_part part;

        if (table_next_part(t, &part)) {
            table_touch_part(&part);
            table_part_done(t, &part);
        }
        (void)table_step(t, NULL, PART / 4);
        if (table_drained(t, &part)) {
            table_drop_part(&part);
        }
        uint64_t n =
            resident_bytes(v->old, v->old_mask + 1) + resident_bytes(v->buckets, v->mask + 1);
        most = n > most ? n : most;
    }
    ck_assert_uint_eq(resident_bytes(v->buckets, v->mask + 1),
                      (v->mask + 1) * sizeof(struct table_bucket));
    table_retire(t, &waste);
    table_waste_release(&waste, NULL);
    return most;
}

TEST(a_rolling_resize_needs_no_more_than_the_larger_array)
{
    const uint64_t sizes[] = {BUCKETS / 4, BUCKETS / 2, BUCKETS * 2};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const uint64_t larger = sizes[i] > BUCKETS ? sizes[i] : BUCKETS;
        const uint64_t parts = sizes[i] > BUCKETS ? sizes[i] / BUCKETS : 1;
        struct table t;

        begin(&t, sizes[i]);
        ck_assert_uint_le(most_resident(&t),
                          (larger + (parts + 1) * PART) * sizeof(struct table_bucket));
        table_fini(&t);
    }
}

static void insert_all(struct table *t, uint64_t *random, unsigned items)
{
    for (unsigned i = 1; i <= items; i++) {
        table_insert(t, num_random(random), i);
    }
}

TEST(inserts_leave_the_new_array_alone_until_their_bucket_moves)
{
    uint64_t random = 1;
    struct table t;

    begin(&t, BUCKETS * 2);
    const struct table_view *v = atomic_load(&t.view);
    insert_all(&t, &random, BUCKETS * 4); /* a third of what it holds */
    ck_assert_uint_eq(resident_bytes(v->buckets, v->mask + 1), 0);
    table_unroll(&t);
    insert_all(&t, &random, BUCKETS / 4);
    ck_assert_uint_ne(resident_bytes(v->buckets, v->mask + 1), 0);
    table_fini(&t);
}

TEST(a_flush_takes_a_rolling_resize_away)
{
    struct table_part part;
    struct table other;
    struct table t;

    begin(&t, BUCKETS * 2);
    ck_assert(table_init(&other, 1, 1, NULL, NULL));
    ck_assert(table_next_part(&t, &part));
    table_swap(&t, &other);
    table_touch_part(&part);
    table_part_done(&t, &part);
    ck_assert(t.ready == TABLE_ALL && t.touched == 0);
    ck_assert_uint_eq(other.ready, 0);
    ck_assert(!table_next_part(&t, &part) && !table_drained(&t, &part));
    table_fini(&t);
    table_fini(&other);
}

TEST(small_arrays_and_sizes_nobody_asked_for_do_not_roll)
{
    struct table t;

    ck_assert(table_init(&t, BUCKETS * TABLE_SLOTS / 2, 1, NULL, NULL));
    t.part_buckets = BUCKETS / 2;
    ck_assert_uint_eq(table_overlap(&t, BUCKETS * 2 * sizeof(struct table_bucket)),
                      BUCKETS * sizeof(struct table_bucket));
    ck_assert_uint_eq(table_overlap(&t, BUCKETS / 2 * sizeof(struct table_bucket)), 0);
    ck_assert(!table_rolls(&t, BUCKETS * 2));
    table_ask(&t, (uint64_t)BUCKETS * TABLE_SLOTS, false);
    ck_assert(!table_rolls(&t, BUCKETS * 2));
    table_ask(&t, (uint64_t)BUCKETS * TABLE_SLOTS, true);
    ck_assert(table_rolls(&t, BUCKETS * 2));
    t.part_buckets = BUCKETS;
    ck_assert(!table_rolls(&t, BUCKETS * 2));
    table_fini(&t);
}
