/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff: slots arrive in order, each belongs to one side at a time, and errors and the end
 * reach the other side whether it waits or not.
 */
#include "lib/base/handoff.h"

#include <sched.h>

#include "lib/base/thread.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#ifdef __SANITIZE_THREAD__
#define ROUNDS 5000
#else
#define ROUNDS 50000
#endif

#define CLOSES    500
#define SLOTS_MAX 5

static struct handoff h;
static uint64_t slot[SLOTS_MAX]; /* not atomic: the thread sanitizer sees if both touch one */
static int told;

static void count_tell(void *arg)
{
    ck_assert_ptr_eq(arg, slot);
    told++;
}

/* ---- one thread is both sides ------------------------------------------------------------ */

TEST_ALONE(slots_are_counted_round)
{
    told = 0;
    handoff_init(&h, 3, count_tell, slot);
    ck_assert(handoff_is_idle(&h));
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_eq(handoff_next(&h), i % 3);
        ck_assert(handoff_give(&h));
        ck_assert(!handoff_is_idle(&h));
        ck_assert_int_eq(handoff_take(&h), (int)(i % 3));
        ck_assert_int_eq(handoff_take(&h), (int)(i % 3)); /* until it is done */
        handoff_done(&h, 0);
        ck_assert_uint_eq(handoff_given(&h), i + 1);
        ck_assert_uint_eq(handoff_finished(&h), i + 1);
    }
    ck_assert_int_eq(told, 20);
    ck_assert_int_eq(handoff_wait(&h, 0, HANDOFF_EVER), 0);
    handoff_close(&h, 0);
    ck_assert_int_eq(told, 21);
    handoff_fini(&h);
}

TEST_ALONE(a_wait_ends_with_the_time_or_the_room)
{
    handoff_init(&h, 3, NULL, NULL);
    ck_assert(handoff_give(&h) && handoff_give(&h) && handoff_give(&h));
    ck_assert_int_eq(handoff_wait(&h, 2, 1), ETIMEDOUT);
    handoff_done(&h, 0);
    ck_assert_int_eq(handoff_wait(&h, 2, 0), 0);
    ck_assert_int_eq(handoff_wait(&h, 1, 0), ETIMEDOUT);
    handoff_done(&h, 0);
    handoff_done(&h, 0);
    ck_assert_int_eq(handoff_wait(&h, 0, 0), 0);
    handoff_fini(&h);
}

TEST_ALONE(the_first_error_is_told_until_all_is_done)
{
    handoff_init(&h, 4, NULL, NULL);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(handoff_give(&h) && handoff_give(&h) && handoff_give(&h));
        handoff_done(&h, 0);
        ck_assert_int_eq(handoff_wait(&h, 2, 0), 0);
        handoff_done(&h, ENOSPC);
        ck_assert_int_eq(handoff_wait(&h, 2, 0), ENOSPC);
        ck_assert_int_eq(handoff_wait(&h, 0, 0), ETIMEDOUT);
        handoff_done(&h, EIO);
        ck_assert_int_eq(handoff_wait(&h, 1, 0), ENOSPC);
        ck_assert_int_eq(handoff_wait(&h, 0, 0), ENOSPC);
        ck_assert_int_eq(handoff_wait(&h, 0, 0), 0);
    }
    handoff_fini(&h);
}

TEST_ALONE(what_was_given_before_the_end_is_taken)
{
    handoff_init(&h, 2, NULL, NULL);
    ck_assert(handoff_give(&h) && handoff_give(&h));
    handoff_close(&h, 0);
    ck_assert_int_eq(handoff_wait(&h, 0, 0), ETIMEDOUT);
    ck_assert_int_eq(handoff_take(&h), 0);
    handoff_done(&h, EIO);
    ck_assert(!handoff_give(&h));
    ck_assert_int_eq(handoff_take(&h), 1);
    handoff_done(&h, 0);
    ck_assert_int_eq(handoff_take(&h), -EPIPE);
    ck_assert(!handoff_give(&h));
    ck_assert_int_eq(handoff_wait(&h, 0, 0), EIO);
    handoff_fini(&h);
}

TEST_ALONE(an_error_at_the_end_reaches_both_sides_at_once)
{
    handoff_init(&h, 2, NULL, NULL);
    ck_assert(handoff_give(&h));
    handoff_close(&h, 0);
    handoff_close(&h, ECANCELED); /* also later */
    handoff_close(&h, EIO);
    ck_assert_int_eq(handoff_take(&h), -ECANCELED);
    ck_assert_int_eq(handoff_wait(&h, 0, HANDOFF_EVER), ECANCELED);
    ck_assert(!handoff_give(&h));
    handoff_done(&h, 0); /* of a consumer that had it */
    ck_assert_int_eq(handoff_wait(&h, 0, HANDOFF_EVER), ECANCELED);
    handoff_fini(&h);
}

/* ---- two threads ------------------------------------------------------------------------- */

/* The result of the call in which a side waits. */
static int got;

static void wait_for_slot(void *arg)
{
    got = handoff_take(&h);
}

static void wait_for_room(void *arg)
{
    got = handoff_wait(&h, 0, HANDOFF_EVER);
}

static const struct thread_kind slot_kind = {.name = "slot", .run = wait_for_slot};
static const struct thread_kind room_kind = {.name = "room", .run = wait_for_room};

/* The other side does something now, while this one waits or before it does. */
static void start_waiting(struct thread *t, const struct thread_kind *kind, int round)
{
    ck_assert_int_eq(thread_start(t, kind, NULL), 0);
    for (int i = 0; i < round % 20; i++) {
        (void)sched_yield();
    }
}

TEST_LOOP(the_end_finds_a_consumer_that_waits, 2)
{
    struct thread t = {0};

    for (int round = 0; round < CLOSES; round++) {
        handoff_init(&h, 1, NULL, NULL);
        start_waiting(&t, &slot_kind, round);
        handoff_close(&h, _i == 0 ? 0 : EIO);
        thread_join(&t);
        ck_assert_int_eq(got, _i == 0 ? -EPIPE : -EIO);
        handoff_fini(&h);
    }
}

TEST_LOOP(the_end_or_an_error_finds_a_producer_that_waits, 3)
{
    static const int errors[] = {0, ENOSPC, ECANCELED};
    struct thread t = {0};

    for (int round = 0; round < CLOSES; round++) {
        handoff_init(&h, 1, NULL, NULL);
        ck_assert(handoff_give(&h));
        start_waiting(&t, &room_kind, round);
        if (_i == 2) {
            handoff_close(&h, errors[_i]);
        } else {
            handoff_close(&h, 0);
            handoff_done(&h, errors[_i]);
        }
        thread_join(&t);
        ck_assert_int_eq(got, errors[_i]);
        handoff_fini(&h);
    }
}

/* ---- many slots -------------------------------------------------------------------------- */

static void pause_at_random(struct rng *rng)
{
    if (rng_below(rng, 64) == 0) {
        (void)sched_yield();
    }
}

/* Each value is found as it was put, and then changed: nobody else touches it meanwhile. */
static void consume(void *arg)
{
    struct rng rng;
    uint64_t expected = 0;
    int i;

    rng_init(&rng, *(uint64_t *)arg);
    while ((i = handoff_take(&h)) >= 0) {
        ck_assert(slot[i] == ++expected);
        pause_at_random(&rng);
        slot[i] = 0;
        handoff_done(&h, expected % 1000 == 0 ? (int)(expected / 1000) : 0);
    }
    got = i;
    ck_assert(expected == ROUNDS);
}

static const struct thread_kind consumer_kind = {.name = "consumer", .run = consume};

TEST_LOOP(many_slots_arrive_in_order, SLOTS_MAX)
{
    const unsigned slots = (unsigned)_i + 1;
    uint64_t seed = rng_seed();
    struct thread t = {0};
    struct rng rng;
    int error = 0;

    rng_init(&rng, seed + 1);
    handoff_init(&h, slots, NULL, NULL);
    ck_assert_int_eq(thread_start(&t, &consumer_kind, &seed), 0);
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        bool wants_all = rng_below(&rng, 100) == 0;

        error = handoff_wait(&h, wants_all ? 0 : slots - 1, HANDOFF_EVER);
        ck_assert(error == 0 || (uint64_t)error * 1000 < n);
        slot[handoff_next(&h)] = n;
        ck_assert(handoff_give(&h));
        pause_at_random(&rng);
    }
    error = handoff_wait(&h, 0, HANDOFF_EVER);
    ck_assert_int_ge(ROUNDS / 1000, error);
    ck_assert_int_ne(error, 0);
    ck_assert_int_eq(handoff_wait(&h, 0, HANDOFF_EVER), 0);
    handoff_close(&h, 0);
    thread_join(&t);
    ck_assert_int_eq(got, -EPIPE);
    handoff_fini(&h);
}
