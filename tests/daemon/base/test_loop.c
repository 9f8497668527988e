/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a loop keeps for descriptors: made before, used by the loop, and given back.
 */
#include "daemon/base/loop.h"

#include "tests/common/unit.h"

#define PROVIDED 4000u

static bool has_come;

static void on_event(uv_poll_t *poll, int status, int events)
{
    has_come = status == 0 && (events & UV_READABLE) != 0;
    uv_close((uv_handle_t *)poll, NULL);
}

/* A high descriptor becomes readable in the loop. */
static void poll_at(uv_loop_t *loop, int number)
{
    int ends[2];
    uv_poll_t poll;

    ck_assert_int_eq(pipe(ends), 0);
    int fd = fcntl(ends[0], F_DUPFD_CLOEXEC, number);
    ck_assert_int_ge(fd, number);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    has_come = false;
    ck_assert_int_eq(uv_poll_init(loop, &poll, fd), 0);
    ck_assert_int_eq(uv_poll_start(&poll, UV_READABLE, on_event), 0);
    uv_run(loop, UV_RUN_DEFAULT);
    ck_assert(has_come);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_loop_uses_what_it_was_provided_with)
{
    uv_loop_t loop;
    const void *watchers;

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    loop_provide(&loop, PROVIDED);
    watchers = loop.watchers;
    ck_assert_uint_eq(loop.nwatchers, PROVIDED);
    loop_provide(&loop, 10);
    ck_assert_ptr_eq(loop.watchers, watchers);
    poll_at(&loop, 900);
    ck_assert_ptr_eq(loop.watchers, watchers);
    loop_rest(&loop);
    poll_at(&loop, 800);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST(a_loop_outgrows_what_it_was_provided_with)
{
    uv_loop_t loop;

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    loop_provide(&loop, 100);
    poll_at(&loop, 900);
    ck_assert_uint_gt(loop.nwatchers, 900);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
