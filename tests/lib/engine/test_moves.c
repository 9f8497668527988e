/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moves: walks run together, a move alone; each gives way to the other, and nobody starves.
 */
#include "lib/engine/moves.h"

#include "lib/base/thread.h"
#include "tests/common/unit.h"

static struct moves m;
static _Atomic bool is_stopped; /* stops the thread's wait */
static _Atomic bool gives_up;   /* stops waits of the test itself at once */
static _Atomic bool may_end;    /* of the thread */
static bool has_begun;          /* the result that the thread got */

static struct moves_info info(void)
{
    struct moves_info i;

    moves_info(&m, &i);
    return i;
}

static void run_walk(void *arg)
{
    has_begun = moves_begin_walk(&m, &is_stopped);
    if (has_begun) {
        WAIT_UNTIL(atomic_load(&may_end));
        moves_end_walk(&m);
    }
}

static void run_move(void *arg)
{
    has_begun = moves_begin_move(&m, &is_stopped);
    if (has_begun) {
        WAIT_UNTIL(atomic_load(&may_end));
        moves_end_move(&m);
    }
}

static const struct thread_kind walk_kind = {.name = "walk", .run = run_walk};
static const struct thread_kind move_kind = {.name = "move", .run = run_move};

static void begin(void)
{
    moves_init(&m);
    atomic_store(&is_stopped, false);
    atomic_store(&gives_up, true);
    atomic_store(&may_end, false);
    has_begun = false;
}

static void end(void)
{
    moves_fini(&m);
}

TEST_FIXTURE(begin, end)

TEST(walks_run_together)
{
    ck_assert(moves_begin_walk(&m, NULL));
    ck_assert(moves_begin_walk(&m, NULL));
    ck_assert(!moves_pause_walk(&m)); /* no move waits */
    ck_assert_uint_eq(info().walks, 2);
    moves_end_walk(&m);
    moves_end_walk(&m);
    ck_assert_uint_eq(info().walks, 0);
}

TEST(a_wait_can_be_stopped)
{
    ck_assert(moves_begin_move(&m, &gives_up)); /* nothing to wait for */
    ck_assert(!moves_begin_move(&m, &gives_up));
    ck_assert(!moves_begin_walk(&m, &gives_up));
    moves_end_move(&m);
    ck_assert(moves_begin_walk(&m, &gives_up));
    ck_assert(!moves_begin_move(&m, &gives_up));
    moves_end_walk(&m);
    ck_assert_uint_eq(info().walks_waiting + info().moves_waiting, 0);
}

/* Walks that overlap each other do not keep it out. */
TEST(a_move_that_waits_goes_before_walks_that_come_later)
{
    struct thread t = {0};

    ck_assert(moves_begin_walk(&m, NULL));
    ck_assert_int_eq(thread_start(&t, &move_kind, NULL), 0);
    WAIT_UNTIL(info().moves_waiting != 0);
    ck_assert(!moves_begin_walk(&m, &gives_up));
    moves_end_walk(&m);
    WAIT_UNTIL(info().moves != 0);
    atomic_store(&may_end, true);
    thread_join(&t);
    ck_assert(has_begun);
    ck_assert(moves_begin_walk(&m, NULL));
    moves_end_walk(&m);
}

TEST(a_walk_gives_way_to_a_move)
{
    struct thread t = {0};

    ck_assert(moves_begin_walk(&m, NULL));
    ck_assert_int_eq(thread_start(&t, &move_kind, NULL), 0);
    WAIT_UNTIL(info().moves_waiting != 0);
    ck_assert(moves_pause_walk(&m));
    WAIT_UNTIL(info().moves != 0);
    ck_assert(!moves_resume_walk(&m));
    ck_assert_uint_eq(info().walks, 0);
    atomic_store(&may_end, true);
    while (!moves_resume_walk(&m)) {
    }
    ck_assert_uint_eq(info().walks, 1);
    moves_end_walk(&m);
    thread_join(&t);
}

TEST(a_move_gives_way_to_walks_that_wait_and_goes_on)
{
    struct thread t = {0};

    ck_assert(moves_begin_move(&m, NULL));
    ck_assert(moves_give_way(&m, NULL)); /* nobody waits */
    ck_assert_int_eq(thread_start(&t, &walk_kind, NULL), 0);
    WAIT_UNTIL(info().walks_waiting != 0);
    atomic_store(&may_end, true);
    ck_assert(moves_give_way(&m, NULL));
    thread_join(&t);
    ck_assert(has_begun);
    ck_assert_uint_eq(info().moves, 1);
    ck_assert_uint_eq(info().walks, 0);
    /* Another move does not slip in meanwhile. */
    ck_assert(!moves_begin_move(&m, &gives_up));
    moves_end_move(&m);
}

/* A walk that was let in does not end: a move that is cancelled does not wait for it. */
TEST(a_move_that_gives_way_can_be_cancelled)
{
    struct thread t = {0};

    ck_assert(moves_begin_move(&m, NULL));
    ck_assert_int_eq(thread_start(&t, &walk_kind, NULL), 0);
    WAIT_UNTIL(info().walks_waiting != 0);
    atomic_store(&is_stopped, true);
    ck_assert(!moves_give_way(&m, &is_stopped));
    moves_end_move(&m);
    atomic_store(&may_end, true);
    thread_join(&t);
}

/* One of those that were let in went away: the move does not wait for it. */
TEST(a_walk_that_was_let_in_and_is_stopped_is_not_waited_for)
{
    struct thread t = {0};

    ck_assert(moves_begin_move(&m, NULL));
    ck_assert_int_eq(thread_start(&t, &walk_kind, NULL), 0);
    WAIT_UNTIL(info().walks_waiting != 0);
    atomic_store(&is_stopped, true);
    thread_join(&t);
    ck_assert(!has_begun);
    ck_assert(moves_give_way(&m, NULL));
    moves_end_move(&m);
    ck_assert(moves_begin_move(&m, NULL));
    moves_end_move(&m);
}
