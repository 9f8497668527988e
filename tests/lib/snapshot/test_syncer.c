/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syncer: each file that is given is synced, by another thread, and its error is told.
 */
#include "lib/snapshot/syncer.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "tests/common/unit.h"

static _Atomic int asked, begun, ended, error_of_call;
static _Atomic bool is_held;
static pthread_t owner;

static int count_sync(int fd)
{
    ck_assert(!pthread_equal(pthread_self(), owner));
    asked = fd;
    while (is_held) {
        sched_yield();
    }
    errno = error_of_call;
    return error_of_call != 0 ? -1 : 0;
}

static void on_change(void *arg)
{
    ck_assert(arg == &ended);
    if (pthread_equal(pthread_self(), owner)) {
        begun++;
    } else {
        ended++;
    }
}

TEST(what_is_given_is_synced_and_errors_are_told)
{
    struct io_calls io = io_system;
    struct syncer *s;

    io.fsync = count_sync;
    owner = pthread_self();
    is_held = false;
    s = syncer_create(&io, on_change, (void *)&ended);
    ck_assert_ptr_nonnull(s);
    for (int i = 0; i < 1000; i++) {
        error_of_call = i % 3 == 0 ? EIO : 0;
        is_held = i % 2 == 0;
        syncer_begin(s, 1000 + i);
        ck_assert(!is_held || !syncer_is_over(s));
        is_held = false;
        while (i % 5 == 0 && !syncer_is_over(s)) {
            sched_yield();
        }
        ck_assert_int_eq(syncer_end(s), error_of_call);
        ck_assert(syncer_is_over(s));
        ck_assert_int_eq(asked, 1000 + i);
    }
    ck_assert_int_eq(begun, 1000);
    syncer_destroy(&s);
    ck_assert_ptr_null(s);
    ck_assert_int_eq(ended, 1000);
    syncer_destroy(&s);
}

TEST(one_that_was_given_nothing_ends)
{
    struct syncer *s = syncer_create(&io_system, on_change, (void *)&ended);

    ck_assert_ptr_nonnull(s);
    syncer_destroy(&s);
}
