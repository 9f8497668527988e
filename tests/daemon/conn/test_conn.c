/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of one worker, driven through socket pairs: order, splitting, slow readers,
 * large values both ways, half-close, draining.
 */
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "daemon/conn/conn_state.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

TEST_FIXTURE(solo_setup, solo_teardown)

/* ---- requests and replies ---------------------------------------------------------------- */

static const char SCRIPT[] = "set a 5 0 3\r\nabc\r\n"
                             "get a\r\n"
                             "add a 0 0 1\r\nx\r\n"
                             "append a 0 0 3\r\ndef\r\n"
                             "get a b a\r\n"
                             "set n 0 0 2 noreply\r\n41\r\n"
                             "incr n 1\r\n"
                             "decr n 50\r\n"
                             "touch n 100\r\n"
                             "gat 100 n b\r\n"
                             "nonsense\r\n"
                             "set c 0 0 3\r\nabcd\r\n"
                             "delete a\r\n"
                             "delete a\r\n"
                             "get a\n"
                             "flush_all\r\n"
                             "get n\r\n"
                             "version\r\n";

static const char ANSWERS[] = "STORED\r\n"
                              "VALUE a 5 3\r\nabc\r\nEND\r\n"
                              "NOT_STORED\r\n"
                              "STORED\r\n"
                              "VALUE a 5 6\r\nabcdef\r\nVALUE a 5 6\r\nabcdef\r\nEND\r\n"
                              "42\r\n"
                              "0\r\n"
                              "TOUCHED\r\n"
                              "VALUE n 0 2\r\n0 \r\nEND\r\n"
                              "ERROR\r\n"
                              "CLIENT_ERROR bad data chunk\r\n"
                              "CLIENT_ERROR bad command line format\r\n"
                              "DELETED\r\n"
                              "NOT_FOUND\r\n"
                              "END\r\n"
                              "OK\r\n"
                              "END\r\n"
                              "VERSION 1.6.45\r\n";

TEST(pipeline_is_answered_in_order)
{
    int fd = wire_dial(0);

    wire_put(fd, SCRIPT, sizeof(SCRIPT) - 1);
    wire_expect(fd, ANSWERS);
}

TEST(bytes_one_by_one_give_the_same)
{
    int fd = wire_dial(0);

    for (size_t i = 0; i < sizeof(SCRIPT) - 1; i++) {
        wire_put(fd, SCRIPT + i, 1);
    }
    wire_expect(fd, ANSWERS);
}

TEST(half_close_gets_all_answers)
{
    int fd = wire_dial(SMALL_SOCKET);
    char *v = wire_value(10000, 1);

    wire_store(fd, "k", v, 10000);
    for (int i = 0; i < 200; i++) {
        wire_say(fd, "get k\r\n");
    }
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 200; i++) {
        wire_expect_value(fd, "k", v, 10000);
        wire_expect(fd, "END\r\n");
    }
    wire_expect_end(fd);
    free(v);
}

/*
 * A client that closes without having read its answers resets the connection. What it has sent
 * before that is executed, as by memcached, and the connection is closed.
 */
TEST_LOOP(requests_before_a_reset_are_executed, 2)
{
    static const char *const last[] = {"set k 0 0 1\r\nx\r\n", "set k 0 0 1\r\nx\r\nget "};
    struct solo_errand pause;
    int fd = wire_dial(0);
    int other = wire_dial(0);

    wire_say(fd, "mn\r\n");
    WAIT_UNTIL(solo_counter(CTR_bytes_written) == 4);
    solo_pause(&pause);
    wire_say(fd, last[_i]);
    close(fd);
    solo_resume(&pause);
    WAIT_UNTIL(solo_counter(CTR_curr_connections) == 1);
    wire_say(other, "get k\r\n");
    wire_expect(other, "VALUE k 0 1\r\nx\r\nEND\r\n");
}

TEST(quit_ends_after_the_pipeline)
{
    int fd = wire_dial(SMALL_SOCKET);
    char *v = wire_value(16000, 1);

    wire_store(fd, "k", v, 16000);
    wire_say(fd, "get k k k k k k k k k k k k\r\nquit\r\nget k\r\n");
    for (int i = 0; i < 12; i++) {
        wire_expect_value(fd, "k", v, 16000);
    }
    wire_expect(fd, "END\r\n");
    wire_expect_end(fd);
    free(v);
}

/* ---- slow readers ------------------------------------------------------------------------ */

TEST(multiget_goes_on_where_the_socket_was_full)
{
    enum { KEYS = 150, LEN = 9000 };
    int fd = wire_dial(SMALL_SOCKET);
    char *line = malloc(KEYS * 8 + 16);
    char *v[KEYS];
    size_t n = (size_t)sprintf(line, "get");

    for (unsigned i = 0; i < KEYS; i++) {
        char key[8];

        sprintf(key, "k%u", i);
        v[i] = wire_value(LEN, i);
        wire_store(fd, key, v[i], LEN);
        n += (size_t)sprintf(line + n, " %s", key);
    }
    n += (size_t)sprintf(line + n, "\r\n");
    wire_put(fd, line, n);
    wire_say(fd, "set after 0 0 1\r\nx\r\nget after\r\n");
    wire_put(fd, line, n);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < KEYS; i++) {
            char key[8];

            sprintf(key, "k%u", i);
            wire_expect_value(fd, key, v[i], LEN);
        }
        wire_expect(fd, "END\r\n");
        if (round == 0) {
            wire_expect(fd, "STORED\r\nVALUE after 0 1\r\nx\r\nEND\r\n");
        }
    }
    /* A turn is counted when its replies are sent; the next one begins after that. */
    wire_say(fd, "verbosity 0\r\n");
    wire_expect(fd, "OK\r\n");
    ck_assert_uint_eq(solo_counter(CTR_get_hits), 2 * KEYS + 1);
    for (unsigned i = 0; i < KEYS; i++) {
        free(v[i]);
    }
    free(line);
}

TEST(large_values_arrive_whole_though_they_are_replaced)
{
    enum { LEN = 1000000 };
    int slow = wire_dial(SMALL_SOCKET);
    int other = wire_dial(0);
    char *old = wire_value(LEN, 1);
    char *new = wire_value(LEN, 2);
    char first[40];
    size_t n = (size_t)sprintf(first, "VALUE big 0 %d\r\n", LEN);

    wire_store(other, "big", old, LEN);
    wire_say(slow, "get big\r\n");
    wire_expect_bytes(slow, first, n); /* it has begun, and the socket is full */
    wire_store(other, "big", new, LEN);
    wire_say(other, "delete big\r\nflush_all\r\n");
    wire_expect(other, "DELETED\r\nOK\r\n");
    for (int i = 0; i < 40; i++) {
        wire_store(other, "big", new, LEN);
    }
    wire_expect_bytes(slow, old, LEN);
    wire_expect(slow, "\r\nEND\r\n");
    free(old);
    free(new);
}

/* ---- large values on their way in -------------------------------------------------------- */

TEST(large_values_arrive_in_any_portions)
{
    static const size_t sizes[] = {16384,  16385,  65536,  200000,
                                   262144, 300000, 524288, 1000000};
    struct rng rng;
    int fd = wire_dial(0);

    rng_init(&rng, rng_seed());
    for (unsigned round = 0; round < 60; round++) {
        size_t len = sizes[round % 8];
        char *v = wire_value(len, round);
        char *bytes = malloc(len + 200);
        size_t n = (size_t)sprintf(bytes, "set big 0 0 %zu\r\n", len);

        memcpy(bytes + n, v, len);
        n += len;
        n += (size_t)sprintf(bytes + n, "\r\nget nothing\r\nget big\r\nset a 0 0 1\r\nx\r\n");
        for (size_t i = 0; i < n;) {
            size_t most = round % 3 == 0 ? n : round % 3 == 1 ? 50000 : 300000;
            size_t part = 1 + rng_below(&rng, most);

            part = part < n - i ? part : n - i;
            wire_put(fd, bytes + i, part);
            i += part;
        }
        wire_expect(fd, "STORED\r\nEND\r\n");
        wire_expect_value(fd, "big", v, len);
        wire_expect(fd, "END\r\nSTORED\r\n");
        free(bytes);
        free(v);
    }
}

TEST(bad_large_values_leave_the_stream_in_step)
{
    int fd = wire_dial(0);
    char *v = wire_value(2 * MIB, 1);

    wire_store(fd, "big", "old", 3);
    wire_say(fd, "set big 0 0 300000\r\n");
    wire_put(fd, v, 300000);
    wire_say(fd, "xxget big\r\n");
    wire_expect(fd, "CLIENT_ERROR bad data chunk\r\n");
    wire_expect_value(fd, "big", "old", 3);
    wire_expect(fd, "END\r\n");
    wire_say(fd, "set big 0 0 2097152\r\n");
    wire_put(fd, v, 2 * MIB);
    wire_say(fd, "\r\nget big\r\n");
    wire_expect(fd, "SERVER_ERROR object too large for cache\r\nEND\r\n");
    ck_assert_uint_eq(solo_counter(CTR_store_too_large), 1);
    free(v);
}

/* ---- the end ----------------------------------------------------------------------------- */

TEST(stop_answers_what_was_received)
{
    int fd = wire_dial(SMALL_SOCKET);
    char *v = wire_value(15000, 1);

    wire_store(fd, "k", v, 15000);
    wire_say(fd, "get k k k k k k k k\r\nget k\r\n");
    worker_stop(solo.worker);
    for (int i = 0; i < 8; i++) {
        wire_expect_value(fd, "k", v, 15000);
    }
    wire_expect(fd, "END\r\n");
    wire_expect_value(fd, "k", v, 15000);
    wire_expect(fd, "END\r\n");
    wire_expect_end(fd);
    free(v);
    solo_end();
}

/* Wait until the worker has read all that was sent to it. */
static void wait_until_read(int fd)
{
    int unread;

    do {
        ck_assert_int_eq(ioctl(fd, SIOCOUTQ, &unread), 0);
        sched_yield();
    } while (unread > 0);
}

static void drain(struct worker *w)
{
    w->is_stopping = true;
    w->phase = WORKER_DRAINING;
    w->crew->duties->drain(w);
}

/* As long after the stop as nothing more is executed. */
static void finish(struct worker *w)
{
    w->phase = WORKER_FINISHING;
    w->crew->duties->check_drain(w);
}

static void check_four_times(struct worker *w)
{
    for (unsigned i = 0; i < 4; i++) {
        w->crew->duties->check_drain(w);
    }
}

static void expect_open(struct worker *w)
{
    ck_assert_uint_eq(w->conn_count, 1);
}

static void expect_closed(struct worker *w)
{
    ck_assert_uint_eq(w->conn_count, 0);
}

/* What is seen of the only connection, on its worker. */
static enum conn_state state_seen;
static bool keeps_anything;

static void see(struct worker *w)
{
    const struct conn *c = w->conns->first;

    state_seen = (enum conn_state)c->state;
    keeps_anything = c->client.kept != NULL;
}

/* Only what is not done yet takes memory beyond the connection itself. */
TEST(one_that_waits_keeps_nothing)
{
    int fd = wire_dial(0);

    wire_say(fd, "mn\r\n");
    wire_expect(fd, "MN\r\n");
    solo_run(see);
    ck_assert_int_eq(state_seen, CONN_INPUT);
    ck_assert(!keeps_anything);
    wire_say(fd, "mn\r\nset k 0 0 ");
    wire_expect(fd, "MN\r\n");
    solo_run(see);
    ck_assert_int_eq(state_seen, CONN_INPUT);
    ck_assert(keeps_anything);
    wire_say(fd, "1\r\nv\r\n");
    wire_expect(fd, "STORED\r\n");
    solo_run(see);
    ck_assert_int_eq(state_seen, CONN_INPUT);
    ck_assert(!keeps_anything);
}

TEST(stop_is_no_reset)
{
    int fd = wire_dial(0);

    wire_say(fd, "mn\r\n");
    solo_run(drain);
    wire_expect(fd, "MN\r\n");
    wire_expect_end(fd);
    /* What is sent now is taken and dropped. */
    wire_say(fd, "set k 0 0 3\r\nabc\r\nget k\r\n");
    wait_until_read(fd);
    wire_expect_end(fd);
    solo_run(expect_open);
}

TEST(stop_does_not_wait_for_quiet_clients)
{
    int fd = wire_dial(0);

    wire_say(fd, "mn\r\n");
    wire_expect(fd, "MN\r\n");
    solo_run(drain);
    solo_run(expect_open);
    solo_run(check_four_times);
    solo_run(expect_closed);
}

TEST(stop_waits_while_answers_are_under_way)
{
    int fd = wire_dial(0);

    wire_say(fd, "mn\r\n");
    wait_until_read(fd);
    solo_run(drain);
    solo_run(check_four_times);
    solo_run(expect_open); /* the reply was not taken yet */
    wire_expect(fd, "MN\r\n");
    wire_expect_end(fd);
    solo_run(check_four_times);
    solo_run(expect_closed);
}

TEST(stop_ends_between_two_replies)
{
    int fd = wire_dial(SMALL_SOCKET);
    char *v = wire_value(500000, 1);

    wire_store(fd, "k", v, 500000);
    wire_say(fd, "get k k\r\nget k\r\nget k\r\n");
    wait_until_read(fd);
    solo_run(drain);
    solo_run(finish);
    wire_expect_value(fd, "k", v, 500000);
    wire_expect_value(fd, "k", v, 500000); /* the rest of the line that was begun */
    wire_expect(fd, "END\r\n");
    wire_expect_end(fd);
    free(v);
}

TEST(stop_ends_half_a_request)
{
    int fd = wire_dial(0);
    char *v = wire_value(700000, 1);

    wire_say(fd, "mn\r\nset k 0 0 900000\r\n");
    wire_put(fd, v, 700000);
    wait_until_read(fd);
    solo_run(drain);
    wire_expect(fd, "MN\r\n");
    wire_expect_end(fd);
    ck_assert_uint_eq(solo_counter(CTR_body_pending_bytes), 0);
    free(v);
}

TEST(stop_lets_the_last_bytes_of_a_value_in)
{
    int fd = wire_dial(0);
    struct solo_errand pause;
    char *v = wire_value(100000, 1);

    wire_say(fd, "set k 0 0 100000\r\n");
    wire_put(fd, v, 50000);
    wait_until_read(fd);
    solo_pause(&pause);
    wire_put(fd, v + 50000, 50000);
    wire_say(fd, "\r\nget k\r\n");
    worker_stop(solo.worker);
    solo_resume(&pause);
    wire_expect(fd, "STORED\r\n");
    wire_expect_value(fd, "k", v, 100000);
    wire_expect(fd, "END\r\n");
    wire_expect_end(fd);
    free(v);
    solo_end();
}

TEST(gathered_answers_keep_their_place)
{
    int fd = wire_dial(0);

    wire_say(fd, "stats detail on\r\nset p:a 0 0 1\r\nx\r\nget p:a\r\nstats detail dump\r\n"
                 "get p:a\r\nstats reset\r\nstats detail off\r\n");
    wire_expect(fd, "OK\r\nSTORED\r\nVALUE p:a 0 1\r\nx\r\nEND\r\n"
                    "PREFIX p get 1 hit 1 set 1 del 0\r\nEND\r\n"
                    "VALUE p:a 0 1\r\nx\r\nEND\r\nRESET\r\nOK\r\n");
    /* A client that leaves before its answer is there frees everything. */
    wire_say(fd, "stats detail on\r\nstats detail dump\r\n");
}

/* What is sent in one piece, as memcached 1.6.45 answers it. */
TEST(streams_do_not_follow_replies_that_were_not_sent)
{
    static const char *const answers[][2] = {
        {"mg foo v\r\nlru_crawler metadump all\r\nversion\r\n",
         "EN\r\nERROR cannot pipeline other commands before metadump\r\nVERSION 1.6.45\r\n"},
        {"get foo\r\nlru_crawler mgdump hash\r\n",
         "END\r\nERROR cannot pipeline other commands before mgdump\r\n"},
        {"mg foo q\r\nlru_crawler mgdump all\r\n",
         "ERROR cannot pipeline other commands before mgdump\r\n"},
        {"mn\r\nlru_crawler mgdump all\r\n", "MN\r\nOK\r\nmg key\r\nEN\r\n"},
        {"lru_crawler mgdump all\r\nlru_crawler mgdump 1\r\nversion\r\n",
         "OK\r\nmg key\r\nEN\r\nOK\r\nmg key\r\nEN\r\nVERSION 1.6.45\r\n"},
        {"version\r\nwatch\r\n",
         "VERSION 1.6.45\r\nERROR cannot pipeline other commands before watch\r\n"},
    };
    int fd = wire_dial(0);

    wire_store(fd, "key", "abc", 3);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct solo_errand pause;

        solo_pause(&pause);
        wire_say(fd, answers[i][0]);
        solo_resume(&pause);
        wire_expect(fd, answers[i][1]);
    }
}
