/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: room that one shard takes from another. The work of one search is the same however
 * many shards there are, and it waits for nobody.
 */
#include "lib/engine/engine.h"

#include "lib/store/body.h"
#include "tests/lib/fixture.h"

#define SHARDS 64u
#define LOOKS  8u /* shards looked at in one search */

static struct fixture f;

static void start(void)
{
    fixture_start_sized(&f, SHARDS, SHARDS * 4 * MIB);
}

/* Store values until one shard holds some megabyte, and return it. */
static struct shard *fill_one(void)
{
    struct shard *full = f.engine.shards[SHARDS - 1];
    unsigned stored = 0;

    for (unsigned i = 0; stored < 60; i++) {
        const char *key = fixture_key("key-", i);

        rcu_begin();
        const struct shard *s =
            route_shard(router_read(&f.engine.router), fixture_hash(&f, key));
        rcu_end();
        if (s == full) {
            fixture_set(&f, key, 32 * KIB);
            stored++;
        }
    }
    return full;
}

/* Searches until one is successful. */
static unsigned searches(struct shard *needy, unsigned most)
{
    unsigned n = 1;

    while (engine_steal(&f.engine, needy) == STEAL_NOTHING && n < most) {
        n++;
    }
    return n;
}

TEST(all_shards_are_looked_at_in_turn)
{
    start();
    (void)fill_one();
    unsigned n = searches(f.shard, 2 * SHARDS);
    ck_assert_uint_gt(n, 1); /* it is the last one: a search does not go through all of them */
    ck_assert_uint_le(n, SHARDS / LOOKS);
}

TEST(a_search_does_not_wait_for_who_is_in_another_shard)
{
    start();
    struct shard *full = fill_one();
    shard_enter(full);
    ck_assert_uint_eq(searches(f.shard, SHARDS), SHARDS);
    shard_leave(full);
    ck_assert_uint_le(searches(f.shard, SHARDS), SHARDS / LOOKS);
}

/* An eviction frees a whole value, of which a search takes only a part. */
TEST(what_a_shard_does_not_use_is_taken_before_anything_is_evicted)
{
    struct engine_config cfg;
    unsigned kept = 0;

    fixture_config(&cfg);
    cfg.shards = 8;
    cfg.limit_bytes = 16 * MIB;
    cfg.item_size_max = 4 * MIB;
    fixture_start(&f, &cfg);
    for (unsigned i = 0; i < 16; i++) {
        fixture_set(&f, fixture_key("large", i), 4 * MIB - 200);
    }
    for (unsigned i = 0; i < 16; i++) {
        kept += fixture_has(&f, fixture_key("large", i));
    }
    ck_assert_uint_eq(kept, 3); /* as many as there is room for */
}

/* The n-th key of a shard, counted from 0. */
static const char *key_in(const struct shard *s, unsigned n)
{
    const struct shard *owner = NULL;
    const char *key = NULL;

    for (unsigned i = 0; owner != s || n-- > 0; i++) {
        key = fixture_key("key-", i);
        rcu_begin();
        owner = route_shard(router_read(&f.engine.router), fixture_hash(&f, key));
        rcu_end();
    }
    return key;
}

/* While segments of a shard wait for a grace period, a large value takes none of another. */
TEST(a_large_value_waits_for_what_its_own_shard_retired)
{
    const unsigned each = 26;

    fixture_start_sized(&f, 2, 16 * MIB);
    struct shard *rich = f.engine.shards[1];
    for (unsigned i = 0; i < each; i++) {
        fixture_set(&f, key_in(f.shard, i), 256 * KIB);
        fixture_set(&f, key_in(rich, i), 256 * KIB);
    }
    for (unsigned i = 0; i < each; i++) {
        ck_assert_int_eq(fixture_delete(&f, key_in(rich, i)), OUT_DELETED);
    }
    fixture_settle(&f);
    ck_assert_uint_gt(rich->memory.arena.free_count, 100);
    uint64_t hash = fixture_hash(&f, key_in(f.shard, each));
    rcu_begin();
    struct body *b = body_begin(&f.engine, hash, 7 * MIB);
    enum outcome out = body_take(b, false);
    ck_assert_int_eq(out, OUT_NO_MEMORY);
    shard_enter(f.shard);
    ck_assert_uint_gt(arena_waiting(&f.shard->memory.arena), 0);
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_segments_discarded), 0);
    rcu_end();
    for (unsigned periods = 0; out != OUT_OK; periods++) {
        ck_assert_uint_lt(periods, 100);
        fixture_settle(&f);
        rcu_begin();
        out = body_take(b, false);
        rcu_end();
    }
    body_abort(&b);
}

/* ---- none to take ------------------------------------------------------------------------ */

/* A store that may wait, and does not;. */
static enum outcome store_once(const char *key, size_t len)
{
    struct store st = {.mode = STORE_SET,
                       .hash = fixture_hash(&f, key),
                       .key = span_str(key),
                       .deadline = MSEC_NEVER,
                       .may_wait = true};
    char value[1000] = {0};

    ck_assert_uint_le(len, sizeof(value));
    st.value = span_of(value, len);
    rcu_begin();
    enum outcome out = engine_store(&f.engine, &st, fixture_now(&f));
    rcu_end();
    return out;
}

/* Where nothing may be dropped that has no deadline, and all have none. */
TEST(who_stores_in_vain_need_not_wait)
{
    unsigned stored = 0;

    fixture_start_sized(&f, 4, 16 * MIB);
    fixture_policy(CHOICE_VOLATILE_LRU);
    for (unsigned vain = 0; vain < 200; stored++) {
        vain += fixture_try(&f, fixture_key("stays-", stored), 1000, MSEC_NEVER) != OUT_STORED;
    }
    ck_assert_uint_gt(stored, 4000);
    fixture_settle(&f);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(store_once(fixture_key("new-", i), 1000), OUT_NO_MEMORY);
    }

    /* Either an item may be dropped, or a thread is in a shard. */
    ck_assert(engine_is_barren(&f.engine));
    for (unsigned i = 0; i < stored / 2; i++) {
        (void)fixture_delete(&f, fixture_key("stays-", i));
    }
    fixture_settle(&f);
    fixture_set_until(&f, "goes", 1000, fixture_now(&f) + 100000);
    ck_assert(!engine_is_barren(&f.engine));
    ck_assert_int_eq(fixture_delete(&f, "goes"), OUT_DELETED);
    fixture_settle(&f);
    shard_enter(f.engine.shards[2]);
    ck_assert(!engine_is_barren(&f.engine));
    shard_leave(f.engine.shards[2]);
    ck_assert(engine_is_barren(&f.engine));
    fixture_policy(CHOICE_ALLKEYS_LRU);
    ck_assert(!engine_is_barren(&f.engine));
}
