/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How walks of `stats sizes` are shared. There is no thread and no shard, so each walk is over
 * at once: the test serves the tasks of the worker by hand.
 */
#include "daemon/stats/stats_parts.h"

#include "lib/base/rcu.h"
#include "tests/common/unit.h"

#define ASKERS 8u

static struct worker *w;
static struct engine engine;
static struct buf answers[ASKERS];
static unsigned answered;
static unsigned more; /* number of clients that ask again after the answer */

static void ask(unsigned i);

static void on_answer(void *arg, struct buf *out, struct stats_gather *rest)
{
    ck_assert_ptr_null(rest);
    ck_assert_ptr_eq(out, arg);
    ck_assert_ptr_eq(out, &answers[answered % ASKERS]); /* in the order in which they asked */
    ck_assert_uint_eq(buf_len(out), strlen("END\r\n"));
    ck_assert_mem_eq(buf_begin(out), "END\r\n", strlen("END\r\n"));
    buf_clear(out);
    answered++;
    if (more > 0) {
        more--;
        ask((answered - 1) % ASKERS);
    }
}

static void ask(unsigned i)
{
    ck_assert_int_eq(stats_sizes(w, &answers[i], on_answer, &answers[i]), STATS_LATER);
}

static void serve(void)
{
    while (!list_is_empty(&w->tasks.waiting)) {
        tasks_run(w);
    }
}

static void setup(void)
{
    w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(w);
    memset(w, 0, sizeof(*w));
    list_init(&w->tasks.waiting);
    memset(&engine, 0, sizeof(engine));
    clock_init(&engine.clock);
    w->engine = &engine;
    rcu_register();
    answered = 0;
    more = 0;
}

static void teardown(void)
{
    ck_assert_ptr_null(w->sizes);
    ck_assert_uint_eq(w->later_count, 0);
    for (unsigned i = 0; i < ASKERS; i++) {
        buf_fini(&answers[i]);
    }
    rcu_unregister();
    free(w);
}

TEST_FIXTURE(setup, teardown)

TEST(one_walk_for_one_who_asks)
{
    ask(0);
    serve();
    ck_assert_uint_eq(answered, 1);
    ck_assert_uint_eq(ctr_get(&w->counters, CTR_size_walks), 1);
}

TEST(all_who_ask_during_a_walk_share_the_next)
{
    for (unsigned i = 0; i < ASKERS; i++) {
        ask(i);
    }
    ck_assert_uint_eq(w->later_count, ASKERS);
    serve();
    ck_assert_uint_eq(answered, ASKERS);
    ck_assert_uint_eq(ctr_get(&w->counters, CTR_size_walks), 2);
}

TEST(whoever_asks_again_when_answered_has_a_new_walk)
{
    more = 2 * ASKERS;
    for (unsigned i = 0; i < ASKERS; i++) {
        ask(i);
    }
    serve();
    ck_assert_uint_eq(answered, 3 * ASKERS);
    /* 0; 1 to 7 and 0 again; from then on all of them. */
    ck_assert_uint_le(ctr_get(&w->counters, CTR_size_walks), 6);
}
