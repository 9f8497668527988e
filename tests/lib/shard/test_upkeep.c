/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upkeep: that an index, and the past of the eviction policy, are resident before a shard uses
 * them, made so part by part, and that nothing is left of one that is not needed
 * any more.
 */
#include "lib/shard/upkeep.h"

#include <sys/mman.h>

#include "lib/memory/ghost.h"
#include "tests/lib/fixture.h"

#define LIMIT (64 * MIB)

/* Items whose index is larger than what is touched at once. */
#define MANY 200000u

static struct fixture f;

static void start(uint64_t limit)
{
    fixture_start_sized(&f, 1, limit);
}

static void check_resident(const void *p, size_t bytes)
{
    static unsigned char pages[4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = (bytes + page - 1) / page;

    ck_assert_uint_le(n, sizeof(pages));
    ck_assert_int_eq(mincore((void *)(uintptr_t)p, bytes, pages), 0);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg((pages[i] & 1) != 0, "page %zu of %zu is not resident", i, n);
    }
}

static const struct table_view *view(void)
{
    return atomic_load(&f.shard->table.view);
}

/* Is an array being made resident? */
static bool is_on_its_way(void)
{
    shard_enter(f.shard);
    bool is = f.shard->table_next != NULL;
    shard_leave(f.shard);
    return is;
}

static void put(unsigned number)
{
    fixture_set(&f, fixture_key("k", number), 1);
}

TEST(an_index_is_resident_when_it_is_published)
{
    const struct table_view *seen = NULL;
    unsigned small = 0;
    unsigned large = 0;
    unsigned parts = 0;

    start(LIMIT);
    check_resident(view()->buckets, (view()->mask + 1) * sizeof(struct table_bucket));
    for (unsigned i = 0; i < MANY; i++) {
        put(i);
        if (is_on_its_way()) {
            fixture_grace(&f);
            parts++;
        }
        if (view() != seen && view()->old != NULL) {
            size_t bytes = (view()->mask + 1) * sizeof(struct table_bucket);

            check_resident(view()->buckets, bytes);
            small += bytes <= MEM_TOUCH_BYTES;
            large += bytes > MEM_TOUCH_BYTES;
            if (bytes > MEM_TOUCH_BYTES) {
                ck_assert_uint_ge(parts + 1, bytes / MEM_TOUCH_BYTES);
                parts = 0;
            }
        }
        seen = view();
        if (i % 16 == 0) {
            fixture_grace(&f);
            (void)shard_maintain(f.shard, fixture_now(&f), 1000);
        }
    }
    ck_assert_uint_ge(small, 2);
    ck_assert_uint_ge(large, 2);
}

TEST(a_past_is_resident_when_it_is_used)
{
    void *seen = NULL;
    unsigned large = 0;

    start(32 * MIB);
    const struct evict *ev = &f.shard->memory.evict;
    for (unsigned i = 0; large == 0; i++) {
        ck_assert_uint_lt(i, 10 * MANY);
        put(i);
        if (ev->past != seen && ev->past != NULL) {
            const struct ghost *g = ev->past;
            size_t bytes = g->count * sizeof(struct ghost_bucket);

            check_resident(g->buckets, bytes);
            large += bytes > MEM_TOUCH_BYTES;
        }
        seen = ev->past;
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
}

/* Fill until an index of at least this many parts is being made, which is never finished. */
static void begin_large(unsigned parts)
{
    unsigned i = 0;

    start(LIMIT);
    for (;;) {
        ck_assert(i < MANY);
        put(i++);
        if (is_on_its_way() &&
            (view()->mask + 1) * sizeof(struct table_bucket) * 2 >= parts * MEM_TOUCH_BYTES) {
            return;
        }
        if (is_on_its_way() || f.shard->table.phase != TABLE_STEADY) {
            fixture_settle(&f);
        }
    }
}

TEST(an_index_that_is_not_wanted_any_more_is_given_up)
{
    begin_large(4);
    ck_assert(shard_touch_burst(f.shard)); /* half of it is touched */
    ck_assert(is_on_its_way());
    fixture_flush(&f, 0);
    ck_assert(!shard_touch_burst(f.shard));
    ck_assert(!is_on_its_way());
    fixture_settle(&f);
    ck_assert_ptr_null(view()->old);
    shard_enter(f.shard);
    ck_assert_uint_lt(table_bytes(&f.shard->table), 64 * KIB);
    shard_leave(f.shard);
    ck_assert_int_eq(budget_part(&f.engine.budget, BUDGET_LEAVING), 0);
    put(1);
    ck_assert(fixture_has(&f, "k1"));
}

TEST(a_stop_in_between_leaves_nothing)
{
    begin_large(2);
}

TEST(only_one_index_is_made_at_a_time)
{
    begin_large(2);
    const struct table_retiree *first = f.shard->table_next;
    int64_t used = fixture_used(&f);
    shard_make_wanted(f.shard);
    ck_assert_ptr_eq(f.shard->table_next, first);
    ck_assert_int_eq(fixture_used(&f), used);
}

static void set_making(bool is)
{
    shard_enter(f.shard);
    f.shard->is_making = is;
    shard_leave(f.shard);
}

static bool resize_goes_on(void)
{
    shard_enter(f.shard);
    bool goes_on = shard_resize_goes_on(f.shard);
    shard_leave(f.shard);
    return goes_on;
}

/* Items would be evicted for the second. */
TEST(only_one_thread_allocates_an_index)
{
    start(LIMIT);
    set_making(true); /* by another thread */
    int64_t used = fixture_used(&f);
    shard_fit_index(f.shard, MANY, true, false);
    ck_assert(!is_on_its_way());
    ck_assert_int_eq(fixture_used(&f), used);
    ck_assert(resize_goes_on());
    set_making(false); /* it was of another size */
    ck_assert(resize_goes_on());
    shard_make_wanted(f.shard);
    ck_assert(is_on_its_way());
    ck_assert_int_gt(fixture_used(&f), used);
    fixture_settle(&f);
    ck_assert(!resize_goes_on());
}

/* While the mover does it, the home worker would only compete for the CPU and the shard. */
TEST(the_home_leaves_a_rolling_resize_to_its_caller)
{
    start(LIMIT);
    shard_enter(f.shard);
    f.shard->table.part_buckets = 8;
    shard_leave(f.shard);
    shard_fit_index(f.shard, MANY, true, true);
    fixture_grace(&f);
    shard_roll_index(f.shard);
    ck_assert(!shard_maintain(f.shard, fixture_now(&f), 1000));
    ck_assert_ptr_nonnull(view()->old);
    ck_assert_uint_eq(f.shard->table.move_next, 0);
    ck_assert(!shard_wants_work(f.shard));
    shard_unroll_index(f.shard);
    ck_assert(shard_wants_work(f.shard));
    fixture_settle(&f);
    ck_assert(!resize_goes_on());
}

static void start_with_large(uint64_t limit)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = 8;
    cfg.limit_bytes = limit;
    cfg.item_size_max = 4 * MIB;
    fixture_start(&f, &cfg);
}

/* A value of half of the cache takes the place of all others of its shard. */
TEST(a_large_value_is_not_evicted_for_room_to_spare)
{
    start_with_large(8 * MIB);
    for (unsigned turn = 0; turn < 8; turn++) {
        for (unsigned i = 0; i < 2500; i++) {
            fixture_set(&f, fixture_key("k", i), 4000);
            if (i % 64 == 0) {
                fixture_settle(&f);
            }
        }
        fixture_set(&f, fixture_key("large", turn), 4 * MIB - 200);
        fixture_settle(&f);
        ck_assert(fixture_has(&f, fixture_key("large", turn)));
    }
}

/* Each is the only one of its shard. */
TEST(large_values_are_evicted_for_a_lower_limit)
{
    unsigned before = 0;

    start_with_large(16 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        fixture_set(&f, fixture_key("large", i), 4 * MIB - 200);
        fixture_settle(&f);
    }
    for (unsigned i = 0; i < 3; i++) {
        before += fixture_has(&f, fixture_key("large", i));
    }
    ck_assert_uint_eq(before, 3);
    ck_assert(engine_set_limit(&f.engine, 8 * MIB));
    for (unsigned i = 0; i < 1000 && fixture_used(&f) > 8 * (int64_t)MIB; i++) {
        fixture_settle(&f);
        clock_advance(&f.engine.clock, 50);
    }
    ck_assert_int_le(fixture_used(&f), 8 * (int64_t)MIB);
}

/* Upkeep, tidying and the reclaimer for a while. */
static void rest(void)
{
    const struct cycle_config cap = {.effort = 10, .hz = 10, .slice_us = 1000000};

    for (unsigned i = 0; i < 100; i++) {
        clock_advance(&f.engine.clock, 300);
        fixture_settle(&f);
        (void)shard_tidy(f.shard, &cap, fixture_now(&f));
    }
}

/* Nothing is evicted for room then, but what is dead goes. */
TEST_LOOP(memory_is_tidied_for_a_lower_limit_beside_one_item_or_none, 2)
{
    start(LIMIT);
    for (unsigned i = 0; i < 40000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    for (unsigned i = (unsigned)_i; i < 40000; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
        if (i % 1024 == 0) {
            fixture_settle(&f);
        }
    }
    ck_assert(engine_set_limit(&f.engine, LIMIT / 4));
    budget_add(&f.engine.budget, MIB); /* as others do, which take room from the shard */
    rest();
    ck_assert_int_le(fixture_used(&f), 4 * (int64_t)MIB);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), (unsigned)_i);
    budget_add(&f.engine.budget, -(int64_t)MIB);
}

/* A value that alone exceeds a lower limit a little. */
TEST(an_overdraft_that_lasts_is_paid_with_the_only_item)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.limit_bytes = LIMIT;
    cfg.item_size_max = 20 * MIB;
    fixture_start(&f, &cfg);
    fixture_set(&f, "large", 20 * MIB - 200);
    rest();
    ck_assert(fixture_has(&f, "large"));
    int64_t used = fixture_used(&f);
    budget_add(&f.engine.budget, (int64_t)LIMIT - used + MIB / 2);
    fixture_settle(&f);
    ck_assert(fixture_has(&f, "large"));
    rest();
    ck_assert(!fixture_has(&f, "large"));
    budget_add(&f.engine.budget, used - (int64_t)LIMIT - MIB / 2);
}
