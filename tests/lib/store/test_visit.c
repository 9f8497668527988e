/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * visit: a writer that waits for the lock of a shard while slots move. When it gets the lock,
 * the table that it read before may be out of date, so it must start over with the present one.
 */
#include "lib/store/visit.h"

#include <pthread.h>
#include <time.h>

#include "tests/lib/fixture.h"

#define PATIENCE_US 60000000 /* after this long the writer hangs */

static struct fixture f;

static struct shard *shard(unsigned i)
{
    return f.engine.shards[i];
}

static uint64_t items_in(unsigned i)
{
    return ctr_get(&shard(i)->counters, CTR_curr_items);
}

static void publish(struct route_slot state)
{
    ck_assert_int_eq(router_publish(&f.engine.router, 0, ROUTE_SLOTS, state), MF_OK);
}

static void *set_key(void *arg)
{
    struct store st = {.mode = STORE_SET, .deadline = MSEC_NEVER, .may_wait = true};

    rcu_register();
    st.key = span_of("key", 3);
    st.hash = fixture_hash(&f, "key");
    st.value = span_of("value", 5);
    rcu_begin();
    *(enum outcome *)arg = engine_store(&f.engine, &st, fixture_now(&f));
    rcu_end();
    rcu_unregister();
    return NULL;
}

static void wait_until_waited_for(struct shard *s)
{
    const usec_t until = clock_mono_us() + PATIENCE_US;

    while (atomic_load(&s->lock.sleepers) == 0) {
        struct timespec ts = {.tv_nsec = 100000};

        must(clock_mono_us() < until && "the writer never came to the shard");
        nanosleep(&ts, NULL);
    }
}

static const struct {
    struct route_slot before;
    struct route_slot after;
    unsigned waits_for; /* the shard whose lock it finds taken */
    unsigned stores_in;
} moves[] = {
    {{0, 0, 0}, {1, 1, 1}, 0, 1}, /* settled elsewhere */
    {{0, 0, 0}, {0, 1, 1}, 0, 1}, /* moving: new items go to the other one */
    {{0, 1, 1}, {0, 0, 0}, 0, 0}, /* not moving any more: the slow path has to check that too */
    {{0, 1, 1}, {1, 1, 1}, 1, 1},
};

TEST_LOOP(a_writer_that_waited_looks_at_the_table_again, 4)
{
    pthread_t writer;
    enum outcome out = OUT_MISS;

    fixture_start_sized(&f, 2, FIXTURE_LIMIT);
    publish(moves[_i].before);
    struct shard *taken = shard(moves[_i].waits_for);
    shard_enter(taken);
    ck_assert_int_eq(pthread_create(&writer, NULL, set_key, &out), 0);
    wait_until_waited_for(taken);
    publish(moves[_i].after);
    shard_leave(taken);
    pthread_join(writer, NULL);
    ck_assert_int_eq(out, OUT_STORED);
    ck_assert_uint_eq(items_in(moves[_i].stores_in), 1);
    ck_assert_uint_eq(items_in(!moves[_i].stores_in), 0);
    ck_assert(fixture_has(&f, "key"));
    publish(route_settled((uint16_t)moves[_i].stores_in));
    fixture_settle(&f);
}
