/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that wait because a turn of the loop has done enough. The worker is paused while
 * requests are sent, so it finds all of them at once, in the order in which they came.
 */
#include <sys/socket.h>

#include "daemon/conn/conn.h"
#include "daemon/conn/conn_steps.h"
#include "daemon/net/sockets.h"
#include "lib/base/budgets.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

TEST_FIXTURE(solo_setup, solo_teardown)

#define FLOODS      60
#define FLOOD_LINES 400u

/* As many requests as make the share of a connection. */
static void flood(int fd)
{
    wire_put_increments(fd, FLOOD_LINES);
}

static void expect_version(int fd)
{
    wire_expect(fd, "VERSION 1.6.45\r\n");
}

/* A connection that the worker knows to need little. */
static int dial_quiet(void)
{
    int fd = wire_dial(0);

    wire_say(fd, "version\r\n");
    expect_version(fd);
    return fd;
}

static uint64_t read_number(int fd)
{
    char line[64];
    char number[32];
    unsigned digits;
    size_t n = 0;

    do {
        wire_get(fd, line + n, 1);
    } while (line[n++] != '\n');
    line[n] = '\0';
    ck_assert_int_eq(sscanf(line, "VALUE n 0 %u\r\n", &digits), 1);
    ck_assert_uint_lt(digits, sizeof(number));
    wire_get(fd, number, digits);
    number[digits] = '\0';
    wire_expect(fd, "\r\nEND\r\n");
    return strtoull(number, NULL, 10);
}

/* How many requests of floods were executed before one that came last? */
static uint64_t executed_before(int *floods, unsigned count, int fd)
{
    struct solo_errand pause;

    wire_store(fd, "n", "0", 1);
    solo_pause(&pause);
    for (unsigned i = 0; i < count; i++) {
        flood(floods[i]);
    }
    wire_say(fd, "get n\r\n");
    solo_resume(&pause);
    uint64_t seen = read_number(fd);
    for (unsigned i = 0; i < count; i++) {
        expect_version(floods[i]);
    }
    wire_say(fd, "get n\r\n");
    ck_assert_uint_eq(read_number(fd), (uint64_t)count * FLOOD_LINES);
    return seen;
}

TEST(many_floods_hold_a_quiet_neighbour_up_no_longer_than_some)
{
    int quiet = dial_quiet();
    int floods[FLOODS];

    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = wire_dial(0);
    }
    uint64_t before = executed_before(floods, FLOODS, quiet);
    ck_assert_uint_lt(before, 3 * BUDGET_loop_units);
    ck_assert_uint_gt(solo_counter(CTR_conn_deferrals), 0);
}

/* Such a one was quiet before: it gets less than its share, and then queues up. */
TEST(floods_of_those_that_were_quiet_are_bounded_too)
{
    int quiet = dial_quiet();
    int floods[FLOODS];

    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = dial_quiet();
    }
    uint64_t before = executed_before(floods, FLOODS, quiet);
    ck_assert_uint_lt(before, BUDGET_light_all_units + 2 * BUDGET_loop_units);
    ck_assert_uint_gt(solo_counter(CTR_conn_deferrals), 0);
    for (unsigned i = 0; i < FLOODS; i++) {
        close(floods[i]);
    }
}

/* Those whose last turn was much work wait, as new ones do. */
TEST(floods_that_go_on_are_bounded_like_new_ones)
{
    int quiet = dial_quiet();
    int floods[FLOODS];

    wire_store(quiet, "n", "0", 1);
    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = dial_quiet();
        wire_put_increments(floods[i], FLOOD_LINES / 2);
        expect_version(floods[i]);
    }
    uint64_t before = executed_before(floods, FLOODS, quiet);
    ck_assert_uint_lt(before, 3 * BUDGET_loop_units);
    for (unsigned i = 0; i < FLOODS; i++) {
        close(floods[i]);
    }
}

/* So do those whose clients have reset the connection, with a reply unread. */
TEST(floods_before_a_reset_are_bounded_too)
{
    int quiet = dial_quiet();
    int floods[FLOODS];
    struct solo_errand pause;
    char byte;

    wire_store(quiet, "n", "0", 1);
    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = dial_quiet();
        flood(floods[i]);
        ck_assert_int_eq(recv(floods[i], &byte, 1, MSG_PEEK), 1);
    }
    wire_store(quiet, "n", "0", 1);
    solo_pause(&pause);
    for (unsigned i = 0; i < FLOODS; i++) {
        flood(floods[i]);
        close(floods[i]);
    }
    wire_say(quiet, "get n\r\n");
    solo_resume(&pause);
    ck_assert_uint_lt(read_number(quiet), 3 * BUDGET_loop_units);
    WAIT_UNTIL(solo_counter(CTR_curr_connections) == 1);
    wire_say(quiet, "get n\r\n");
    ck_assert_uint_eq(read_number(quiet), (uint64_t)FLOODS * FLOOD_LINES);
}

TEST(a_few_do_not_wait_for_each_other)
{
    int quiet = dial_quiet();
    int flood_of_one = wire_dial(0);

    (void)executed_before(&flood_of_one, 1, quiet);
    ck_assert_uint_eq(solo_counter(CTR_conn_deferrals), 0);
}

/* Requests, large answers and large values: whatever has to wait goes on where it was. */
TEST(all_get_what_they_asked_for_although_they_wait)
{
    enum { EACH = 20, VALUE = 150000, FIRST = 100000 };
    int floods[FLOODS];
    int readers[EACH];
    int writers[EACH];
    struct solo_errand pause;
    char *v = wire_value(VALUE, 1);
    int fd = dial_quiet();
    char line[64];

    wire_store(fd, "big", v, VALUE);
    wire_store(fd, "n", "0", 1);
    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = wire_dial(0);
    }
    for (unsigned i = 0; i < EACH; i++) {
        readers[i] = wire_dial(0);
        writers[i] = wire_dial(0);
    }
    solo_pause(&pause);
    for (unsigned i = 0; i < FLOODS; i++) {
        flood(floods[i]);
    }
    for (unsigned i = 0; i < EACH; i++) {
        wire_say(readers[i], "get big\r\nget big\r\nget big\r\nget big\r\n");
        snprintf(line, sizeof(line), "set w%u 0 0 %d\r\n", i, VALUE);
        wire_say(writers[i], line);
        wire_put(writers[i], v, FIRST);
    }
    solo_resume(&pause);
    for (unsigned i = 0; i < EACH; i++) {
        wire_put(writers[i], v + FIRST, VALUE - FIRST);
        wire_say(writers[i], "\r\n");
    }
    for (unsigned i = 0; i < EACH; i++) {
        for (unsigned k = 0; k < 4; k++) {
            wire_expect_value(readers[i], "big", v, VALUE);
            wire_expect(readers[i], "END\r\n");
        }
        wire_expect(writers[i], "STORED\r\n");
        snprintf(line, sizeof(line), "w%u", i);
        wire_say(fd, "get ");
        wire_say(fd, line);
        wire_say(fd, "\r\n");
        wire_expect_value(fd, line, v, VALUE);
        wire_expect(fd, "END\r\n");
        close(readers[i]);
        close(writers[i]);
    }
    for (unsigned i = 0; i < FLOODS; i++) {
        expect_version(floods[i]);
        close(floods[i]);
    }
    ck_assert_uint_gt(solo_counter(CTR_conn_deferrals), 0);
    free(v);
}

/* A waiting connection may leave. */
TEST(those_that_wait_may_close)
{
    int quiet = dial_quiet();
    int floods[FLOODS];
    struct solo_errand pause;

    wire_store(quiet, "n", "0", 1);
    for (unsigned i = 0; i < FLOODS; i++) {
        floods[i] = wire_dial(0);
    }
    solo_pause(&pause);
    for (unsigned i = 0; i < FLOODS; i++) {
        flood(floods[i]);
        if (i % 2 == 0) {
            close(floods[i]);
        }
    }
    solo_resume(&pause);
    for (unsigned i = 1; i < FLOODS; i += 2) {
        expect_version(floods[i]);
        close(floods[i]);
    }
}

/* ---- new connections --------------------------------------------------------------------- */

#define BATCHES 4
#define COMERS  (BATCHES * CONN_ARRIVALS_MAX)

static const struct conn_origin origin = {.transport = CONN_UNIX, .rights = RIGHTS_OPERATOR};

/* Four batches come while the worker is busy. */
static void post_comers(int fd[COMERS])
{
    for (unsigned i = 0; i < BATCHES; i++) {
        struct conn_arrivals *b = conn_arrivals_create();

        for (unsigned k = 0; k < CONN_ARRIVALS_MAX; k++) {
            int fds[2];

            ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
            fd[i * CONN_ARRIVALS_MAX + k] = fds[0];
            atomic_fetch_add(&solo.crew.conns_open, 1);
            atomic_fetch_add(&solo.crew.conns_local, 1);
            conn_arrivals_put(b, fds[1], &origin);
        }
        conn_arrivals_post(&b, solo.worker);
        ck_assert_ptr_null(b);
    }
}

TEST(those_that_come_at_once_begin_in_several_turns)
{
    int fd[COMERS];
    struct solo_errand pause;

    solo_pause(&pause);
    post_comers(fd);
    solo_resume(&pause);
    WAIT_UNTIL(solo_counter(CTR_total_connections) == COMERS);
    /* In each of the first turns a batch begins, and later ones wait. */
    ck_assert_uint_eq(solo_counter(CTR_conn_deferrals), (3 + 2 + 1) * CONN_ARRIVALS_MAX);
    for (unsigned i = 0; i < COMERS; i++) {
        wire_say(fd[i], "version\r\n");
    }
    for (unsigned i = 0; i < COMERS; i++) {
        expect_version(fd[i]);
        close(fd[i]);
    }
}

/* They are answered all the same when the server stops before they have begun. */
TEST(those_that_have_not_begun_are_answered_by_a_stop)
{
    int fd[COMERS];
    struct solo_errand pause;

    solo_pause(&pause);
    post_comers(fd);
    for (unsigned i = 0; i < CONN_ARRIVALS_MAX; i++) {
        close(fd[i]); /* so that none is left of those that begin before the stop */
    }
    for (unsigned i = CONN_ARRIVALS_MAX; i < COMERS; i++) {
        wire_say(fd[i], "version\r\n");
    }
    worker_stop(solo.worker);
    solo_resume(&pause);
    for (unsigned i = CONN_ARRIVALS_MAX; i < COMERS; i++) {
        expect_version(fd[i]);
        close(fd[i]);
    }
    solo_end();
}
