/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * router: how slots are distributed, what a change publishes and what it leaves alone, and that
 * readers see one whole table at any time while it is replaced.
 */
#include "lib/engine/router.h"

#include <pthread.h>
#include <sched.h>

#include "lib/base/check.h"
#include "lib/base/rcu.h"
#include "tests/common/moves.h"
#include "tests/common/unit.h"

#ifdef MAYFLY_TSAN
#define PUBLISHES 200u
#else
#define PUBLISHES 1000u
#endif

/* Shards are only compared by address. */
static char bodies[8];
static struct shard *shards[8] = {
    (struct shard *)(void *)&bodies[0], (struct shard *)(void *)&bodies[1],
    (struct shard *)(void *)&bodies[2], (struct shard *)(void *)&bodies[3],
    (struct shard *)(void *)&bodies[4], (struct shard *)(void *)&bodies[5],
    (struct shard *)(void *)&bodies[6], (struct shard *)(void *)&bodies[7],
};

static uint64_t hash_of_slot(uint32_t slot)
{
    return (uint64_t)slot << (64 - ROUTE_SLOT_BITS) | 0x123456789ULL;
}

/* The table of now; only this thread has the router, so it needs no section. */
static const struct route *published(const struct router *r)
{
    return atomic_load(&r->route);
}

TEST(slots_are_dealt_evenly)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);

    for (uint32_t count = 1; count <= 8; count++) {
        struct router router;
        unsigned dealt[8] = {0};

        ck_assert_int_eq(router_init(&router, shards, count, r), MF_OK);
        const struct route *t = published(&router);
        for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
            const struct route_slot *s = route_slot(t, hash_of_slot(i));

            ck_assert_ptr_eq(s, &t->slot[i]);
            ck_assert(!route_is_moving(s));
            ck_assert_uint_lt(s->from, count);
            ck_assert_ptr_eq(route_shard(t, hash_of_slot(i)), shards[s->from]);
            dealt[s->from]++;
        }
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_uint_ge(dealt[i], ROUTE_SLOTS / count);
            ck_assert_uint_le(dealt[i], ROUTE_SLOTS / count + 1);
        }
        router_fini(&router);
    }
    reclaim_destroy(&r);
}

TEST(each_slot_has_the_version_of_its_change)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct router router;

    ck_assert_int_eq(router_init(&router, shards, 2, r), MF_OK);
    ck_assert_int_eq(router_publish(&router, 5, 3, route_moving(0, 1)), MF_OK);
    ck_assert_int_eq(router_publish(&router, 4, 2, route_moving(0, 1)), MF_OK);
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        const uint64_t wanted = i == 4 ? 2 : i >= 5 && i < 8 ? 1 : 0;

        ck_assert_uint_eq(published(&router)->changed[i], wanted);
    }
    router_fini(&router);
    reclaim_destroy(&r);
}

TEST(publish_changes_a_range_in_a_copy)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct router router;

    ck_assert_int_eq(router_init(&router, shards, 4, r), MF_OK);
    const struct route *before = published(&router);
    struct route_slot was[ROUTE_SLOTS];
    memcpy(was, before->slot, sizeof(was));

    ck_assert_int_eq(router_publish(&router, 100, 50, route_moving(0, 3)), MF_OK);
    const struct route *after = published(&router);
    ck_assert_ptr_ne(after, before);
    ck_assert_mem_eq(before->slot, was, sizeof(was)); /* a reader's table does not change */
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        bool is_moved = i >= 100 && i < 150;

        ck_assert(route_is_moving(&after->slot[i]) == is_moved);
        ck_assert_uint_eq(after->slot[i].from, is_moved ? 0 : was[i].from);
        ck_assert_uint_eq(after->slot[i].to, is_moved ? 3 : was[i].to);
    }
    reclaim_run_once(r); /* the address sanitizer would report a use after this */

    ck_assert_int_eq(router_publish(&router, 0, ROUTE_SLOTS, route_settled(2)), MF_OK);
    ck_assert_ptr_eq(route_shard(published(&router), hash_of_slot(4095)), shards[2]);
    router_fini(&router);
    reclaim_destroy(&r);
}

TEST(what_is_out_of_range_is_refused)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct router router;

    ck_assert_int_eq(router_init(&router, shards, 0, r), MF_EINVAL);
    ck_assert_int_eq(router_init(&router, shards, ROUTE_SLOTS + 1, r), MF_EINVAL);
    ck_assert_int_eq(router_init(&router, shards, 2, r), MF_OK);
    const struct route *t = published(&router);
    ck_assert_int_eq(router_publish(&router, ROUTE_SLOTS, 1, route_moving(0, 1)), MF_EINVAL);
    ck_assert_int_eq(router_publish(&router, 1, ROUTE_SLOTS, route_moving(0, 1)), MF_EINVAL);
    ck_assert_int_eq(router_publish(&router, UINT32_MAX, UINT32_MAX, route_moving(0, 1)),
                     MF_EINVAL);
    ck_assert_int_eq(router_publish(&router, 0, 1, route_moving(2, 0)), MF_EINVAL);
    ck_assert_int_eq(router_publish(&router, 0, 1, route_moving(0, 2)), MF_EINVAL);
    static struct route_slot slots[ROUTE_SLOTS];
    slots[ROUTE_SLOTS - 1] = route_settled(2);
    ck_assert_int_eq(router_publish_all(&router, slots), MF_EINVAL);
    ck_assert_ptr_eq(published(&router), t);
    slots[ROUTE_SLOTS - 1] = route_prepared(0, 1);
    ck_assert_int_eq(router_publish_all(&router, slots), MF_OK);
    ck_assert_uint_eq(published(&router)->version, 1);
    ck_assert_mem_eq(published(&router)->slot, slots, sizeof(slots));
    router_fini(&router);
    reclaim_destroy(&r);
}

struct readers {
    struct router router;
    _Atomic bool is_done;
    _Atomic unsigned started;
};

/* Every table published below has the same state in all slots. */
static void *read_tables(void *arg)
{
    struct readers *x = arg;

    rcu_register();
    atomic_fetch_add(&x->started, 1);
    while (!atomic_load(&x->is_done)) {
        rcu_begin();
        const struct route *t = router_read(&x->router);
        const struct route_slot first = t->slot[0];

        for (uint32_t i = 0; i < ROUTE_SLOTS; i += 7) {
            must(t->slot[i].from == first.from);
            must(t->slot[i].to == first.to);
        }
        rcu_end();
    }
    rcu_unregister();
    return NULL;
}

TEST(readers_see_one_whole_table)
{
    struct reclaimer *r = reclaim_create(NULL, NULL);
    struct readers x;
    pthread_t threads[2];

    atomic_init(&x.is_done, false);
    atomic_init(&x.started, 0);
    ck_assert_int_eq(router_init(&x.router, shards, 8, r), MF_OK);
    ck_assert_int_eq(router_publish(&x.router, 0, ROUTE_SLOTS, route_settled(0)), MF_OK);
    ck_assert_int_eq(reclaim_start(r), MF_OK);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_tables, &x), 0);
    }
    WAIT_UNTIL(atomic_load(&x.started) >= 2);
    for (unsigned i = 0; i < PUBLISHES; i++) {
        ck_assert_int_eq(
            router_publish(&x.router, 0, ROUTE_SLOTS, route_moving(i % 8, i / 8 % 8)), MF_OK);
        if (i % 16 == 0) {
            sched_yield();
        }
    }
    atomic_store(&x.is_done, true);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    router_fini(&x.router);
    reclaim_destroy(&r); /* releases every old table: a leak checker would report the rest */
}
