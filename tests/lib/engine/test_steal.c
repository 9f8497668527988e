/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: room that one shard takes from another. The work of one search is the same however
 * many shards there are, and it waits for nobody.
 */
#include "lib/engine/engine.h"

#include "tests/common/unit.h"
#include "tests/lib/fixture.h"

#define SHARDS 64u
#define LOOKS  8u /* shards looked at in one search */

static struct fixture f;

static void start(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = SHARDS;
    cfg.limit_bytes = SHARDS * 4 * MIB;
    fixture_start(&f, &cfg);
}

/* Store values until one shard holds some megabyte, and return it. */
static struct shard *fill_one(void)
{
    struct shard *full = f.engine.shards[SHARDS - 1];
    unsigned stored = 0;

    for (unsigned i = 0; stored < 60; i++) {
        const char *key = fixture_key("key-", i);
        const struct shard *s;

        rcu_begin();
        s = route_shard(router_read(&f.engine.router), fixture_hash(&f, key));
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
    unsigned n;

    start();
    (void)fill_one();
    n = searches(f.shard, 2 * SHARDS);
    ck_assert_uint_gt(n, 1); /* it is the last one: a search does not go through all of them */
    ck_assert_uint_le(n, SHARDS / LOOKS);
    fixture_stop(&f);
}

TEST(a_search_does_not_wait_for_who_is_in_another_shard)
{
    struct shard *full;

    start();
    full = fill_one();
    shard_enter(full);
    ck_assert_uint_eq(searches(f.shard, SHARDS), SHARDS);
    shard_leave(full);
    ck_assert_uint_le(searches(f.shard, SHARDS), SHARDS / LOOKS);
    fixture_stop(&f);
}
