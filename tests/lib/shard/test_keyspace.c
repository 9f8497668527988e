/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keyspace: what is counted when an item is dropped without a command that asks for it: how,
 * whether it was ever fetched, whether it had a deadline. In which chain a new block of an item
 * goes, and when the home worker learns of work.
 */
#include "lib/shard/keyspace.h"

#include "lib/shard/upkeep.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

TEST_LOOP(an_expired_item_is_counted_once, 4)
{
    const bool is_fetched = _i % 2 != 0;
    const bool is_lazy = _i / 2 != 0;

    fixture_set_until(&f, "k", 100, fixture_now(&f) + 10);
    if (is_fetched) {
        (void)fixture_use(&f, "k", 1);
    }
    clock_advance(&f.engine.clock, 10);
    if (is_lazy) {
        ck_assert(!fixture_has(&f, "k"));
    } else {
        fixture_expire(&f);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), is_lazy);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), !is_lazy);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_unfetched), !is_fetched);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

/* Every second item has a deadline, every third was fetched. */
TEST(evicted_items_are_counted_by_what_they_were)
{
    uint64_t evicted = 0;
    uint64_t with_ttl = 0;
    uint64_t fetched = 0;
    unsigned n;

    for (n = 0; fixture_counter(&f, CTR_evicted_active) < 500; n++) {
        const char *key = fixture_key("k", n);

        ck_assert_uint_lt(n, 1000000);
        fixture_set_until(&f, key, 1000, n % 2 == 0 ? fixture_now(&f) + 1000000 : MSEC_NEVER);
        if (n % 3 == 0) {
            (void)fixture_use(&f, key, 1);
        }
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if (!fixture_has(&f, fixture_key("k", i))) {
            evicted++;
            with_ttl += i % 2 == 0;
            fetched += i % 3 == 0;
        }
    }
    ck_assert(with_ttl > 0 && fetched > 0 && fetched < evicted);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), evicted);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_ttl), with_ttl);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_active), fetched);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evicted_unfetched), evicted - fetched);
}

/* ---- chains ------------------------------------------------------------------------------ */

static void check_chain(void)
{
    struct got got = fixture_get(&f, "hot");

    ck_assert(got.is_hit);
    ck_assert_int_eq(got.chain, CHAIN_MAIN);
}

/* What was promoted once is no newcomer when its value changes. */
TEST(an_item_of_the_main_chain_stays_there)
{
    struct put more = {.mode = STORE_APPEND, .key = "hot", .ptr = "77", .len = 2};

    fixture_set(&f, "hot", 100);
    for (unsigned i = 0; fixture_get(&f, "hot").chain != CHAIN_MAIN; i++) {
        ck_assert_uint_lt(i, 100000);
        (void)fixture_use(&f, "hot", 3);
        fixture_set(&f, fixture_key("k", i), 1000);
        if (i % 64 == 0) {
            fixture_grace(&f);
        }
    }
    fixture_set(&f, "hot", 100);
    check_chain();
    fixture_set_until(&f, "hot", 500, fixture_now(&f) + 1000);
    check_chain();
    ck_assert_int_eq(fixture_store(&f, &more, NULL), OUT_STORED);
    check_chain();
    fixture_set(&f, "hot", 200);
    ck_assert_int_eq(fixture_touch(&f, "hot", fixture_now(&f) + 1000), OUT_TOUCHED);
    check_chain();
}

/* ---- work for the home worker ------------------------------------------------------------ */

TEST(an_index_that_became_too_large_is_work)
{
    const unsigned n = 20000;

    for (unsigned i = 0; i < n; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
    }
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert(!shard_wants_work(f.shard));
    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    ck_assert(shard_wants_work(f.shard));
}

TEST(a_shard_over_the_limit_has_work)
{
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    fixture_settle(&f);
    fixture_set(&f, "one", 1000);
    ck_assert(!shard_wants_work(f.shard));
    ck_assert(engine_set_limit(&f.engine, 2 * MIB));
    fixture_set(&f, "two", 1000);
    ck_assert(shard_wants_work(f.shard));
    fixture_settle(&f);
}

/* A writer that finds little room for deadlines makes more when it has left the shard. */
TEST(the_wheel_gets_its_spare_outside_the_shard)
{
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 1000 + i);
        ck_assert(!f.shard->wants_spare);
    }
    fixture_flush(&f, fixture_now(&f));
    fixture_settle(&f);
    for (unsigned i = 0; i < 200; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 1000 + i);
    }
    shard_enter(f.shard);
    uint64_t bytes = wheel_bytes(f.shard->wheel);
    shard_leave(f.shard);
    for (unsigned i = 200; i < 300; i++) { /* more than one slab takes: the spare is used */
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 1000 + i);
    }
    shard_enter(f.shard);
    ck_assert_uint_le(wheel_bytes(f.shard->wheel), bytes + 17 * KIB);
    shard_leave(f.shard);
    ck_assert(!f.shard->wants_spare);
}
