/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logins that take too long. Their begin is moved back, so that nothing is waited for.
 */
#include "daemon/conn/conn_steps.h"

#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

#define LIMIT_S 1000
#define SLACK_S 100 /* a machine that hangs for longer fails the test */

static char users[] = "users"; /* nobody reads it: nobody logs in */

static void setup(void)
{
    settings_init(&solo.settings);
    solo.settings.auth_file = users;
    solo.settings.auth_timeout_s = LIMIT_S;
    solo_start_with(64 * (uint64_t)MIB, 1, true);
}

static void teardown(void)
{
    solo_stop();
    solo.settings.auth_file = NULL;
    settings_fini(&solo.settings);
}

TEST_FIXTURE(setup, teardown)

/* Let the login of the only connection have begun `seconds` ago, and check. */
static msec_t seconds;

static void check_after(struct worker *w)
{
    w->conns->first->deadline_since = conn_wait_now() - seconds * 1000;
    conn_pace_check_deadlines(w);
}

TEST(who_does_not_log_in_is_closed)
{
    int fd = wire_dial(0);

    seconds = LIMIT_S - SLACK_S;
    solo_run(check_after);
    ck_assert_uint_eq(solo_counter(CTR_curr_connections), 1);
    ck_assert_uint_eq(solo_counter(CTR_auth_timeouts), 0);
    seconds = LIMIT_S;
    solo_run(check_after);
    ck_assert_uint_eq(solo_counter(CTR_auth_timeouts), 1);
    wire_expect_end(fd);
}

static void begin_again(struct worker *w)
{
    struct conn *c = w->conns->first;
    const msec_t since = conn_wait_now() - SLACK_S * 1000;

    c->deadline_since = since;
    conn_deadline_set(c, DEADLINE_LOGIN);
    seconds = since == c->deadline_since;
}

/* Else a client that says something now and then could stay for ever. */
TEST(what_it_says_moves_no_deadline)
{
    int fd = wire_dial(0);

    solo_run(begin_again);
    ck_assert_int_eq(seconds, 1);
    wire_say(fd, "get k\r\n");
    wire_expect(fd, "CLIENT_ERROR unauthenticated\r\n");
    seconds = LIMIT_S;
    solo_run(check_after);
    wire_expect_end(fd);
}

static void set_no_limit(struct worker *w)
{
    setting_set(w->crew->settings, auth_timeout_s, 0);
    seconds = 1000 * LIMIT_S;
    check_after(w);
}

TEST(without_a_limit_it_stays)
{
    (void)wire_dial(0);
    solo_run(set_no_limit);
    ck_assert_uint_eq(solo_counter(CTR_curr_connections), 1);
}

static void await_header(struct worker *w)
{
    w->conns->first->state = CONN_HEADER;
    seconds = LIMIT_S;
    check_after(w);
}

/* A balancer that sends no header: that is a separate error. */
TEST(a_header_that_is_late_is_an_error)
{
    int fd = wire_dial(0);

    solo_run(await_header);
    ck_assert_uint_eq(solo_counter(CTR_proxy_errors), 1);
    wire_expect_end(fd);
}
