/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * roster: which worker has the fewest connections, which shall have what, and what is moving
 * when moves are forbidden. No worker runs; two threads race for the last.
 */
#include "daemon/worker/roster.h"

#include <pthread.h>

#include "tests/common/unit.h"

static struct roster r;

static void setup(void)
{
    memset(&r, 0, sizeof(r));
    atomic_store(&r.created, 6);
    roster_set_active(&r, 4);
}

TEST_FIXTURE(setup, NULL)

TEST(the_one_with_the_fewest_is_active)
{
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t n = 0; n < 3 + i; n++) {
            roster_add_conn(&r, i); /* 3, 4, 5, 6, and 0 for those that do not serve */
        }
    }
    for (uint32_t from = 0; from < 10; from++) {
        ck_assert_uint_eq(roster_least(&r, from), 0);
    }
    roster_remove_conn(&r, 3);
    roster_remove_conn(&r, 3);
    roster_remove_conn(&r, 3);
    ck_assert_uint_eq(roster_least(&r, 1), 3); /* as few as the first, which comes later */
    ck_assert_uint_eq(roster_least(&r, 0), 0);
    roster_set_active(&r, 1);
    ck_assert_uint_eq(roster_least(&r, 3), 0);
}

TEST(numbers_are_counted_round)
{
    for (uint32_t active = 1; active <= 6; active++) {
        roster_set_active(&r, active);
        for (uint32_t n = 0; n < 20; n++) {
            ck_assert_uint_eq(roster_wanted(&r, n), n % active);
        }
    }
}

TEST(those_that_leave_are_counted)
{
    ck_assert_uint_eq(roster_leaving(&r), 0);
    roster_set_role(&r, 5, WORKER_LEAVING);
    roster_set_role(&r, 4, WORKER_PARKED);
    roster_set_role(&r, 7, WORKER_LEAVING); /* there is none */
    ck_assert_uint_eq(roster_leaving(&r), 1);
}

#define ROUNDS 1000u

static void *send_one(void *arg)
{
    *(bool *)arg = roster_may_go(&r, 2);
    return NULL;
}

/* A crew that forbids moves sees those that have begun. */
TEST(nothing_is_on_its_way_unseen)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool has_gone = false;
        pthread_t thread;

        setup();
        ck_assert_int_eq(pthread_create(&thread, NULL, send_one, &has_gone), 0);
        roster_stay(&r);
        bool was_quiet = roster_is_quiet(&r, 2);
        pthread_join(thread, NULL);
        ck_assert(!(has_gone && was_quiet));
        if (has_gone) {
            roster_has_come(&r, 2);
        }
        ck_assert(roster_is_quiet(&r, 2) && !roster_may_go(&r, 2));
        ck_assert(roster_is_quiet(&r, 2));
    }
}
