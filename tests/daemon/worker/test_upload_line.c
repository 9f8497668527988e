/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upload_line: which upload continues at the bound, and which ones when less is held.
 */
#include "daemon/worker/upload_line.h"

#include "daemon/worker/worker.h"
#include "tests/common/unit.h"

static struct upload_line line;
static struct upload_place places[4];
static struct worker worker;

static void setup(void)
{
    memset(&line, 0, sizeof(line));
    list_init(&line.places);
    memset(places, 0, sizeof(places));
    memset(&worker, 0, sizeof(worker));
    /* Its mailbox has no loop: messages are on their way already. */
    atomic_store(&worker.retry.is_posted, true);
}

TEST_FIXTURE(setup, NULL)

static bool lets(unsigned i, bool is_full)
{
    return upload_line_lets(&line, &places[i], &worker, is_full);
}

static void leave(unsigned i)
{
    upload_line_leave(&line, &places[i]);
}

TEST(nobody_waits_below_the_bound)
{
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(lets(i, false));
        ck_assert(places[i].worker == NULL);
    }
    leave(0);
}

TEST(only_the_first_goes_on_beyond_it)
{
    ck_assert(lets(2, true));
    ck_assert(!lets(0, true));
    ck_assert(!lets(1, true));
    for (unsigned i = 0; i < 10; i++) {
        uint32_t moves = atomic_load(&line.moves);

        ck_assert(lets(2, true)); /* until it is done */
        ck_assert_uint_ne(atomic_load(&line.moves), moves);
    }
    leave(2);
    ck_assert(!lets(1, true));
    ck_assert(lets(0, true));
    leave(0);
    ck_assert(lets(1, true));
    leave(1);
    ck_assert_uint_eq(atomic_load(&line.waiting), 0);
    ck_assert(list_is_empty(&line.places));
}

TEST(those_that_come_new_are_behind_those_that_wait)
{
    ck_assert(lets(0, true));
    ck_assert(!lets(1, true));
    ck_assert(!lets(2, true));
    /* Less is held now. */
    ck_assert(!lets(3, false));
    ck_assert(!lets(2, false)); /* number 1 comes first */
    ck_assert(lets(1, false));
    ck_assert(lets(2, false));
    ck_assert(lets(3, false));
    ck_assert_uint_eq(atomic_load(&line.waiting), 0);
    for (unsigned i = 0; i < 4; i++) {
        leave(i);
    }
    ck_assert(list_is_empty(&line.places));
}

TEST(one_that_gives_up_holds_nobody_up)
{
    ck_assert(lets(0, true));
    ck_assert(!lets(1, true));
    ck_assert(!lets(2, true));
    leave(1);
    ck_assert_uint_eq(atomic_load(&line.waiting), 1);
    ck_assert(lets(2, false));
    leave(0);
    leave(2);
}
