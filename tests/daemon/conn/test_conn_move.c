/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections on their way between workers. The one worker here gives them to itself, so that a
 * test decides what happens while they are in no list; tests/it/it_threads*.py has several
 * workers.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/worker/crew.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

#define MOVES 100u

TEST_FIXTURE(solo_setup, solo_teardown)

static bool has_gone;

static void go(struct worker *w)
{
    has_gone = w->conns->first != NULL && conn_move_to(w->conns->first, w);
}

/* The only connection goes, and has come again when this returns. */
static void move(void)
{
    const uint64_t before = solo_counter(CTR_conns_moved);

    solo_run(go);
    ck_assert(has_gone);
    /* The worker counts it a little before the roster learns that it has arrived. */
    WAIT_UNTIL(solo_counter(CTR_conns_moved) != before &&
               roster_conns_moving(&solo.crew.roster) == 0);
}

static void move_often(void)
{
    for (unsigned i = 0; i < MOVES; i++) {
        move();
    }
}

/* A connection that the worker has served, so that it waits for input. */
static int dial(int sndbuf)
{
    int fd = wire_dial(sndbuf);

    wire_say(fd, "mn\r\n");
    wire_expect(fd, "MN\r\n");
    return fd;
}

static void await_output(void)
{
    WAIT_UNTIL(solo_counter(CTR_out_pending_bytes) != 0);
}

TEST(replies_that_wait_go_along)
{
    const size_t n = MIB - 1000;
    char *value = wire_value(n, 1);
    int fd = dial(SMALL_SOCKET);

    wire_store(fd, "k", value, n);
    move_often();
    wire_say(fd, "get k\r\nmn\r\n");
    await_output();
    move_often();
    wire_expect(fd, "VALUE k 0 1047576\r\n");
    wire_expect_bytes(fd, value, n);
    wire_expect(fd, "\r\nEND\r\nMN\r\n");
    free(value);
}

TEST(half_a_request_goes_along)
{
    int fd = dial(0);

    wire_say(fd, "set k 0 0 4\r\nab");
    WAIT_UNTIL(solo_counter(CTR_in_pending_bytes) != 0);
    move_often();
    wire_say(fd, "cd\r\nget k\r\n");
    wire_expect(fd, "STORED\r\nVALUE k 0 4\r\nabcd\r\nEND\r\n");
}

/* ---- what happens while it is in no list ------------------------------------------------- */

static void go_and_dismiss(struct worker *w)
{
    go(w);
    crew_close_clients(&solo.crew);
    w->farewells = atomic_load(&solo.crew.farewells); /* as if it had learned of them */
}

TEST(clients_are_dismissed_meanwhile)
{
    int fd = dial(0);

    solo_run(go_and_dismiss);
    ck_assert(has_gone);
    wire_expect_end(fd);
}

static uint8_t login_state;

static void log_in(struct worker *w)
{
    w->conns->first->client.login_state = LOGIN_GOOD;
}

static void look_at_login(struct worker *w)
{
    login_state = w->conns->first->client.login_state;
    w->conns->first->client.login_state = LOGIN_NONE;
}

static void go_and_doubt(struct worker *w)
{
    go(w);
    w->doubts++;
}

TEST(users_are_read_again_meanwhile)
{
    (void)dial(0);
    solo_run(log_in);
    move();
    solo_run(look_at_login);
    ck_assert_int_eq(login_state, LOGIN_GOOD);
    solo_run(log_in);
    solo_run(go_and_doubt);
    ck_assert(has_gone);
    WAIT_UNTIL(solo_counter(CTR_conns_moved) == 2);
    solo_run(look_at_login);
    ck_assert_int_eq(login_state, LOGIN_DOUBTED);
}

static void go_and_stop(struct worker *w)
{
    go(w);
    roster_stay(&w->crew->roster);
    mailbox_post(&w->mailbox, &w->drain_message); /* before it can have come */
}

TEST(the_server_stops_meanwhile)
{
    int fd = dial(0);

    wire_say(fd, "mn\r\n");
    wire_expect(fd, "MN\r\n");
    solo_run(go_and_stop);
    ck_assert(has_gone);
    wire_expect_end(fd);
    close(fd);
    solo_end();
    solo_start(64 * (uint64_t)MIB); /* for the end of the test */
}

/* ---- those that stay --------------------------------------------------------------------- */

TEST(nothing_goes_once_the_server_stops)
{
    int fd = dial(0);

    atomic_store(&solo.crew.roster.stays, true);
    solo_run(go);
    ck_assert(!has_gone);
    ck_assert(roster_is_quiet(&solo.crew.roster, 0));
    atomic_store(&solo.crew.roster.stays, false);
    wire_say(fd, "mn\r\n");
    wire_expect(fd, "MN\r\n");
}

TEST(an_upload_stays)
{
    char *value = wire_value(MIB - 1000, 1);
    int fd = dial(0);

    wire_say(fd, "set k 0 0 1047576\r\n");
    wire_put(fd, value, 100000);
    WAIT_UNTIL(solo_counter(CTR_body_pending_bytes) != 0);
    solo_run(go);
    ck_assert(!has_gone);
    wire_put(fd, value + 100000, MIB - 1000 - 100000);
    wire_say(fd, "\r\n");
    wire_expect(fd, "STORED\r\n");
    move_often();
    wire_say(fd, "get k\r\n");
    wire_expect_value(fd, "k", value, MIB - 1000);
    wire_expect(fd, "END\r\n");
    free(value);
}

/* A late answer that does not pass a relay, as with most commands. */
static struct late_answer late;

static void begin_to_wait(struct worker *w)
{
    struct conn *c = w->conns->first;

    client_expect(&c->client, &late);
    c->then = CONN_ANSWER;
    c->state = CONN_ANSWER;
}

static void answer(struct worker *w)
{
    (void)client_answer(&late, span_str("ANSWERED\r\n"), true);
}

TEST(who_waits_for_an_answer_stays)
{
    int fd = dial(0);

    solo_run(begin_to_wait);
    solo_run(go);
    ck_assert(!has_gone);
    solo_run(answer);
    wire_expect(fd, "ANSWERED\r\n");
    move_often();
}
