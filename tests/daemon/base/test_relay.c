/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The relay: messages that come while the receiver is another one than when they were posted,
 * or none; their order, and that none is lost, while a thread posts and the receiver changes.
 */
#include "daemon/base/mailbox.h"

#include <sched.h>

#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define PLACES 3u
#define POSTS  3000u
#define AHEAD  32u /* messages that wait at most, so that the receiver changes meanwhile */

/* A receiver, with a loop of its own. */
struct place {
    uv_loop_t loop;
    struct mailbox box;
    uint32_t count; /* messages that have run here */
};

struct numbered {
    struct message message; /* must be first */
    uint32_t number;        /* from 1 */
};

static struct place places[PLACES];
static struct relay relay;
static _Atomic uint32_t last; /* number of the last message that has run */
static bool is_disordered;

static void setup(void)
{
    last = 0;
    is_disordered = false;
    for (unsigned i = 0; i < PLACES; i++) {
        places[i].count = 0;
        ck_assert_int_eq(uv_loop_init(&places[i].loop), 0);
        ck_assert_int_eq(mailbox_init(&places[i].box, &places[i].loop, &places[i]), 0);
    }
    relay_init(&relay, &places[0].box);
}

static void teardown(void)
{
    for (unsigned i = 0; i < PLACES; i++) {
        mailbox_close(&places[i].box);
        uv_run(&places[i].loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&places[i].loop), 0);
    }
}

TEST_FIXTURE(setup, teardown)

static void take(struct message *m, void *receiver)
{
    struct numbered *n = (struct numbered *)(void *)m;
    struct place *p = receiver;

    is_disordered |= n->number != last + 1;
    last = n->number;
    p->count++;
}

/* The last one releases the relay, as the end of an export does. */
static void take_last(struct message *m, void *receiver)
{
    take(m, receiver);
    relay_fini(&relay);
}

static void post(struct numbered *n, uint32_t number, void (*fn)(struct message *m, void *r))
{
    *n = (struct numbered){.message.fn = fn, .number = number};
    relay_post(&relay, &n->message);
}

static void run(unsigned place)
{
    uv_run(&places[place].loop, UV_RUN_NOWAIT);
}

static void run_all(void)
{
    for (unsigned i = 0; i < PLACES; i++) {
        run(i);
    }
}

TEST(what_was_posted_to_one_runs_on_the_next)
{
    struct numbered n[2];

    post(&n[0], 1, take);
    relay_leave(&relay);
    run_all();
    ck_assert_uint_eq(last, 0);
    post(&n[1], 2, take_last);
    run_all();
    ck_assert_uint_eq(last, 0);
    relay_join(&relay, &places[1].box);
    run_all();
    ck_assert_uint_eq(places[1].count, 2);
    ck_assert(!is_disordered);
}

TEST(a_wake_up_that_has_not_come_yet_is_sent_on)
{
    struct numbered n[2];

    post(&n[0], 1, take);
    relay_leave(&relay);
    relay_join(&relay, &places[1].box);
    run(1);
    ck_assert_uint_eq(last, 0); /* it is with the first one yet */
    relay_leave(&relay);
    relay_join(&relay, &places[2].box);
    post(&n[1], 2, take_last);
    run(0);
    run(2);
    ck_assert_uint_eq(places[2].count, 2);
    ck_assert(!is_disordered);
}

TEST(leaving_and_joining_twice_does_nothing_more)
{
    struct numbered n[2];

    relay_leave(&relay);
    relay_leave(&relay);
    post(&n[0], 1, take);
    relay_join(&relay, &places[2].box);
    relay_join(&relay, &places[2].box);
    run_all();
    ck_assert_uint_eq(places[2].count, 1);
    post(&n[1], 2, take_last);
    run_all();
    ck_assert_uint_eq(places[2].count, 2);
}

static void *post_many(void *arg)
{
    struct numbered *all = arg;

    for (uint32_t i = 0; i < POSTS; i++) {
        while (i - last >= AHEAD) {
            sched_yield();
        }
        post(&all[i], i + 1, i + 1 < POSTS ? take : take_last);
    }
    return NULL;
}

TEST(nothing_is_lost_while_the_receiver_changes)
{
    struct numbered *all = calloc(POSTS, sizeof(*all));
    pthread_t poster;
    struct rng rng;

    ck_assert_ptr_nonnull(all);
    rng_init(&rng, rng_seed());
    ck_assert_int_eq(pthread_create(&poster, NULL, post_many, all), 0);
    while (last < POSTS) {
        run((unsigned)rng_below(&rng, PLACES));
        if (last == POSTS) {
            break; /* the relay is gone */
        }
        relay_leave(&relay);
        run((unsigned)rng_below(&rng, PLACES));
        relay_join(&relay, &places[rng_below(&rng, PLACES)].box);
    }
    ck_assert_int_eq(pthread_join(poster, NULL), 0);
    ck_assert(!is_disordered);
    ck_assert_uint_eq(places[0].count + places[1].count + places[2].count, POSTS);
    for (unsigned i = 0; i < PLACES; i++) {
        ck_assert_uint_gt(places[i].count, 0);
    }
    free(all);
}
