/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one client may cost: replies and bodies that wait, turns, idle time, and the wait for
 * room.
 */
#include <sys/socket.h>
#include <sys/time.h>

#include "daemon/conn/conn_steps.h"
#include "lib/base/rcu.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

TEST_FIXTURE(solo_setup, solo_teardown)

/* Another worker, whose clock is frozen. */
static void restart(uint64_t limit_mib, uint32_t shards)
{
    solo_stop();
    solo_start_with(limit_mib * MIB, shards, true);
}

static void restart_with_idle_timeout(uint32_t seconds)
{
    solo_stop();
    solo.settings.idle_timeout_s = seconds;
    solo_start_with(64 * (uint64_t)MIB, 1, true);
}

TEST(who_never_reads_is_bounded_and_alone)
{
    int slow = wire_dial(SMALL_SOCKET);
    int other = wire_dial(0);
    struct timeval soon = {.tv_usec = 1000};
    char *v = wire_value(16000, 1);
    char gets[100 * 8];
    uint64_t sent = 0;

    wire_store(other, "k", v, 16000);
    for (size_t i = 0; i < sizeof(gets); i += 8) {
        memcpy(gets + i, "get k \r\n", 8);
    }
    /* It sends until the server takes no more. */
    setsockopt(slow, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
    while (send(slow, gets, sizeof(gets), MSG_NOSIGNAL) > 0 && sent < 64 * (uint64_t)MIB) {
        sent += sizeof(gets);
    }
    ck_assert_uint_lt(sent, 8 * (uint64_t)MIB);
    ck_assert_uint_le(solo_counter(CTR_out_pending_bytes), 1 * (uint64_t)MIB);
    wire_say(other, "get k\r\n");
    wire_expect_value(other, "k", v, 16000);
    wire_expect(other, "END\r\n");
    free(v);
}

#define KEPT_MAX (24 * (uint64_t)MIB) /* by all connections together, if no limit is given */
#define READ_LEN 240000               /* in segments of 256 KiB: what is not taken is copied */

/* A client that asks for the value and reads only its first line. */
static int begin_to_read(int other)
{
    static const char first[] = "VALUE k 0 240000\r\n";
    int fd = wire_dial(SMALL_SOCKET);

    wire_say(fd, "get k\r\n");
    wire_expect(fd, first);
    wire_store(other, "turn", "x", 1); /* after this, the turn that sent it is over */
    return fd;
}

static uint64_t kept(void)
{
    return solo_counter(CTR_out_pending_bytes) + solo_counter(CTR_in_pending_bytes);
}

static void wait_for_value(int fd, const char *v, size_t from)
{
    wire_expect_bytes(fd, v + from, READ_LEN - from);
    wire_expect(fd, "\r\nEND\r\n");
    close(fd);
}

/*
 * When too much is kept of replies that clients do not read, one of them goes: where all keep
 * the same, the one that does so for the longest time.
 */
TEST(replies_that_wait_are_bounded)
{
    enum { CLIENTS = 300 };
    char *v = wire_value(READ_LEN, 1);
    int fd[CLIENTS];
    int n = 0;

    restart(256, 2);
    int other = wire_dial(0);
    wire_store(other, "k", v, READ_LEN);
    while (solo_counter(CTR_slow_drops) == 0) {
        ck_assert_int_lt(n, CLIENTS);
        fd[n++] = begin_to_read(other);
        ck_assert_uint_le(kept(), KEPT_MAX);
    }
    ck_assert_int_ge(n, (int)(KEPT_MAX / 4 * 3 / READ_LEN));
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 1);
    close(fd[0]);
    for (int i = 1; i < n; i++) {
        wait_for_value(fd[i], v, 0);
    }
    free(v);
}

/* Others do not read, and keep as much as it does: it stays, and gets all of its value. */
TEST(a_reader_that_moves_stays)
{
    enum { DEAF = 60, LATE = 60, TAKEN = 100000 };
    char *v = wire_value(READ_LEN, 1);
    int fd[DEAF + LATE];

    restart(256, 2);
    int other = wire_dial(0);
    wire_store(other, "k", v, READ_LEN);
    int reader = begin_to_read(other);
    for (int i = 0; i < DEAF; i++) {
        fd[i] = begin_to_read(other);
    }
    clock_advance(&solo.crew.engine.clock, 4000);
    wire_expect_bytes(reader, v, TAKEN);
    clock_advance(&solo.crew.engine.clock, 2000);
    ck_assert_uint_eq(solo_counter(CTR_slow_drops), 0);
    for (int i = DEAF; i < DEAF + LATE; i++) {
        fd[i] = begin_to_read(other);
        ck_assert_uint_le(kept(), KEPT_MAX);
    }
    ck_assert_uint_gt(solo_counter(CTR_slow_drops), 0);
    ck_assert_uint_le(solo_counter(CTR_slow_drops), DEAF);
    wait_for_value(reader, v, TAKEN);
    for (int i = DEAF; i < DEAF + LATE; i++) {
        wait_for_value(fd[i], v, 0);
    }
    free(v);
}

/* The others take nothing, and keep no more than it does: it stays, though it takes little. */
TEST(a_reader_that_takes_any_byte_stays)
{
    enum { DEAF = 100, ROUNDS = 5 };
    char *v = wire_value(READ_LEN, 1);
    int server;
    size_t at = 0;

    restart(256, 2);
    int other = wire_dial(0);
    wire_store(other, "k", v, READ_LEN);
    int reader = wire_dial_tcp(&server);
    wire_say(reader, "get k\r\n");
    wire_expect(reader, "VALUE k 0 240000\r\n");
    wire_store(other, "turn", "x", 1);
    for (int i = 0; i < DEAF; i++) {
        if (i % (DEAF / ROUNDS) == 0) {
            size_t took = wire_take_little(reader, server, v + at);

            ck_assert_uint_lt(took, 4096);
            at += took;
            clock_advance(&solo.crew.engine.clock, 5000);
        }
        (void)begin_to_read(other);
        ck_assert_uint_le(kept(), KEPT_MAX);
    }
    ck_assert_uint_gt(solo_counter(CTR_slow_drops), 0);
    wait_for_value(reader, v, at);
    free(v);
}

/* Send what a client sends that does not care whether it is disconnected. */
static void push(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);

        if (done <= 0) {
            return;
        }
        bytes += done;
        n -= (size_t)done;
    }
}

/* Connections that keep most are closed, not the last one, which sends a useful value. */
TEST(lines_without_end_are_bounded)
{
    enum { CLIENTS = 40, LINE = 1900000, VALUE = 150000 };
    char *line = malloc(LINE);
    char *v = wire_value(VALUE, 1);
    int fd[CLIENTS];

    restart(64, 1);
    int other = wire_dial(0);
    memset(line, 'k', LINE);
    memcpy(line, "get ", 4);
    for (size_t i = 100; i < LINE; i += 100) {
        line[i] = ' ';
    }
    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = wire_dial(0);
        push(fd[i], line, LINE);
        wire_store(other, "turn", "x", 1);
        WAIT_UNTIL(kept() <= KEPT_MAX); /* it may be over it until the end of a turn */
    }
    ck_assert_uint_gt(solo_counter(CTR_slow_drops), 0);
    wire_say(other, "set v 0 0 150000\r\n");
    for (int i = 0; i < VALUE; i += VALUE / 10) {
        wire_put(other, v + i, VALUE / 10);
    }
    wire_say(other, "\r\n");
    wire_expect(other, "STORED\r\n");
    free(line);
    free(v);
}

/* Of those that keep as much, and all came lately, those go that have stopped sending. */
TEST(who_still_sends_stays)
{
    enum { CLIENTS = 60, LINE = 1000000, BEGIN = 600000, MORE = 5000 };
    char *line = malloc(LINE);
    int fd[CLIENTS];

    restart(64, 1);
    int other = wire_dial(0);
    int sender = wire_dial(0);
    memset(line, ' ', LINE);
    memcpy(line, "get k", 5);
    wire_put(sender, line, BEGIN);
    for (int i = 0; i < CLIENTS; i++) {
        clock_advance(&solo.crew.engine.clock, 20);
        wire_put(sender, line + 5, MORE);
        wire_store(other, "turn", "x", 1);
        fd[i] = wire_dial(0);
        push(fd[i], line, LINE);
        wire_store(other, "turn", "x", 1);
    }
    ck_assert_uint_gt(solo_counter(CTR_slow_drops), CLIENTS / 4);
    wire_say(sender, "\r\n");
    wire_expect(sender, "END\r\n");
    free(line);
}

TEST(one_connection_keeps_a_share_at_most)
{
    enum { LINE = 1900000 };
    char *line = malloc(LINE);

    solo_stop();
    solo.settings.read_buf_mem_limit_bytes = 4 * MIB;
    solo_start_with(64 * (uint64_t)MIB, 1, true);
    int fd = wire_dial(0);
    memset(line, ' ', LINE);
    memcpy(line, "get k", 5);
    push(fd, line, LINE);
    close(fd);
    fd = wire_dial(0);
    wire_store(fd, "turn", "x", 1);
    ck_assert_uint_eq(solo_counter(CTR_read_buf_oom), 1);
    ck_assert_uint_eq(kept(), 0);
    free(line);
}

TEST(bodies_that_never_come_leave_room_for_others)
{
    enum { CLIENTS = 40 };
    int fd[CLIENTS];
    int other = wire_dial(0);
    char *v = wire_value(1000000, 1);

    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = wire_dial(0);
        wire_say(fd[i], "set body 0 0 1000000\r\nthat is all");
    }
    wire_store(other, "whole", v, 1000000);
    ck_assert_uint_eq(solo_counter(CTR_body_pending_bytes), 0);
    /* Now they send enough to be believed, more than may be announced. */
    for (int i = 0; i < CLIENTS; i++) {
        wire_put(fd[i], v, 100000);
    }
    wire_store(other, "small", "x", 1);
    ck_assert_uint_le(solo_counter(CTR_body_pending_bytes), 8 * (uint64_t)MIB);
    for (int i = 0; i < CLIENTS; i++) {
        close(fd[i]);
    }
    wire_store(other, "whole", v, 1000000);
    free(v);
}

TEST(long_get_lines_are_served_up_to_their_limit)
{
    enum { KEYS = 40000 };
    int fd = wire_dial(0);
    char *line = malloc(KEYS * 25 + 8);
    size_t n = (size_t)sprintf(line, "get");
    char c;

    wire_store(fd, "key-that-is-there-39999", "v", 1);
    for (unsigned i = 0; i < KEYS; i++) {
        n += (size_t)sprintf(line + n, " key-that-is-there-%05u", i);
    }
    n += (size_t)sprintf(line + n, "\r\n");
    wire_put(fd, line, n);
    wire_expect_value(fd, "key-that-is-there-39999", "v", 1);
    wire_expect(fd, "END\r\n");
    /* A line without an end is cut off. */
    for (int i = 0; i < 4; i++) {
        if (send(fd, line, n - 2, MSG_NOSIGNAL) < 0) {
            break;
        }
    }
    ck_assert_int_le(recv(fd, &c, 1, 0), 0);
    free(line);
}

TEST(yields_are_counted_by_requests)
{
    int fd = wire_dial(0);
    char gets[100 * 7];

    for (size_t i = 0; i < sizeof(gets); i += 7) {
        memcpy(gets + i, "get k\r\n", 7);
    }
    wire_put(fd, gets, sizeof(gets));
    for (int i = 0; i < 100; i++) {
        wire_expect(fd, "END\r\n");
    }
    wire_say(fd, "version\r\n");
    wire_expect(fd, "VERSION 1.6.45\r\n");
    /* 100 requests in one read and -R 20; a pipe may deliver them in two. */
    ck_assert_uint_ge(solo_counter(CTR_conn_yields), 3);
    ck_assert_uint_le(solo_counter(CTR_conn_yields), 4);
}

/*
 * Both are ready when the worker continues, the flood first. Its requests increment a number,
 * so that the neighbour reads how many of them came before its own.
 */
TEST(neighbours_of_a_flood_are_served)
{
    enum { FLOOD = 8000, PORTION = 1000 };
    int fd = wire_dial(0);
    int neighbour = wire_dial(0);
    struct solo_errand pause;
    char *incrs = malloc(FLOOD * 10);
    char line[32];

    wire_store(neighbour, "n", "0", 1);
    wire_say(fd, "get k\r\n");
    wire_expect(fd, "END\r\n");
    for (size_t i = 0; i < FLOOD; i++) {
        memcpy(incrs + 10 * i, "incr n 1\r\n", 10);
    }
    solo_pause(&pause);
    wire_put(fd, incrs, (size_t)FLOOD * 10);
    wire_say(neighbour, "incr n 1\r\n");
    solo_resume(&pause);
    for (int len = 0; len == 0 || line[len - 1] != '\n'; len++) {
        wire_get(neighbour, line + len, 1);
    }
    int before = atoi(line) - 1;
    ck_assert_int_gt(before, 0);
    ck_assert_int_le(before, PORTION);
    for (int i = 1; i <= FLOOD + 1; i++) {
        if (i != before + 1) {
            wire_expect_bytes(fd, line, (size_t)sprintf(line, "%d\r\n", i));
        }
    }
    free(incrs);
}

TEST(statistics_count_as_the_work_they_are)
{
    enum { FLOOD = 40 };
    static const char request[] = "stats settings\r\nincr n 1\r\n";
    int fd = wire_dial(0);
    int neighbour = wire_dial(0);
    struct solo_errand pause;
    char line[32];

    wire_store(neighbour, "n", "0", 1);
    wire_say(fd, "get k\r\n");
    wire_expect(fd, "END\r\n");
    solo_pause(&pause);
    for (int i = 0; i < FLOOD; i++) {
        wire_say(fd, request);
    }
    wire_say(neighbour, "incr n 1\r\n");
    solo_resume(&pause);
    for (int len = 0; len == 0 || line[len - 1] != '\n'; len++) {
        wire_get(neighbour, line + len, 1);
    }
    ck_assert_int_gt(atoi(line), 1);
    ck_assert_int_le(atoi(line), FLOOD * 3 / 4);
}

TEST(idle_clients_are_sent_away)
{
    restart_with_idle_timeout(5);
    int fd = wire_dial(0);
    for (int i = 0; i < 3; i++) {
        wire_say(fd, "get k\r\n");
        wire_expect(fd, "END\r\n");
        clock_advance(&solo.crew.engine.clock, 5000); /* not longer than it may */
        solo_check_idle();
        ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 0);
    }
    clock_advance(&solo.crew.engine.clock, 1);
    solo_check_idle();
    wire_expect_end(fd);
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 1);
}

/* The parts of a long value that waits in the connection's buffer are read in several ways. */
TEST(a_client_that_sends_parts_is_not_idle)
{
    enum { LEN = 150000, PART = 10000 };
    char *v = wire_value(LEN, 1);

    restart_with_idle_timeout(5);
    int fd = wire_dial(0);
    wire_say(fd, "set k 0 0 150000\r\n");
    for (size_t n = 0; n < LEN; n += PART) {
        uint64_t read = solo_counter(CTR_bytes_read);

        wire_put(fd, v + n, PART);
        WAIT_UNTIL(solo_counter(CTR_bytes_read) >= read + PART);
        clock_advance(&solo.crew.engine.clock, 5000);
        solo_check_idle();
        ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 0);
    }
    wire_say(fd, "\r\n");
    wire_expect(fd, "STORED\r\n");
    free(v);
}

static uint32_t seconds_allowed;
static uint32_t idle_count;

static void allow_seconds(struct worker *w)
{
    setting_set(w->crew->settings, idle_timeout_s, seconds_allowed);
    conn_idle_changed(w);
    idle_count = w->conns->idle.count;
}

/* Also for connections that are there, each of which is looked at once. */
TEST(another_idle_timeout_holds_at_once)
{
    static const uint32_t timeouts[] = {1000, 0, 7};

    restart_with_idle_timeout(5);
    int fd = wire_dial(0);
    wire_say(fd, "get k\r\n");
    wire_expect(fd, "END\r\n");
    for (int i = 0; i < 3; i++) {
        seconds_allowed = timeouts[i];
        solo_run(allow_seconds);
        ck_assert_uint_eq(idle_count, timeouts[i] > 0);
    }
    clock_advance(&solo.crew.engine.clock, 7000);
    solo_check_idle();
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 0);
    clock_advance(&solo.crew.engine.clock, 1);
    solo_check_idle();
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 1);
}

#define IDLE_CLIENTS 40
#define IDLE_S       30

static uint32_t looked_at; /* connections that the last check for idle ones looked at */

static void count_looks(struct worker *w)
{
    looked_at = 0;
    for (const struct conn *c = w->conns->first; c != NULL; c = c->next) {
        looked_at += c->idle_pass == w->conns->idle.pass - 1;
    }
}

/* Seconds pass; how many were looked at in those? */
static unsigned pass_seconds(unsigned seconds)
{
    unsigned looks = 0;

    for (unsigned i = 0; i < seconds; i++) {
        clock_advance(&solo.crew.engine.clock, 1000);
        solo_check_idle();
        solo_run(count_looks);
        looks += looked_at;
    }
    return looks;
}

static void wait_for_kicks(uint64_t n)
{
    WAIT_UNTIL(solo_counter(CTR_idle_kicks) == n);
}

TEST(a_check_looks_at_those_that_may_be_idle)
{
    int fd[IDLE_CLIENTS];

    restart_with_idle_timeout(IDLE_S);
    for (unsigned i = 0; i < IDLE_CLIENTS; i++) {
        fd[i] = wire_dial(0);
        wire_store(fd[i], "k", "v", 1);
    }
    ck_assert_uint_eq(pass_seconds(20), 0);
    for (unsigned i = 0; i < IDLE_CLIENTS / 2; i++) {
        wire_store(fd[i], "k", "v", 1);
    }
    ck_assert_uint_eq(pass_seconds(9), 0);
    (void)pass_seconds(2); /* more of them go than one check may close */
    wait_for_kicks(IDLE_CLIENTS / 2);
    for (unsigned i = IDLE_CLIENTS / 2; i < IDLE_CLIENTS; i++) {
        wire_expect_end(fd[i]);
        close(fd[i]);
    }
    ck_assert_uint_eq(pass_seconds(18), 0);
    (void)pass_seconds(2);
    wait_for_kicks(IDLE_CLIENTS);
}

/* Longer than the worker sorts by. */
TEST(a_long_timeout_is_kept_to_the_millisecond)
{
    restart_with_idle_timeout(1000);
    int fd = wire_dial(0);
    wire_store(fd, "k", "v", 1);
    ck_assert_uint_le(pass_seconds(1000), 1000 / IDLE_SLOTS + 2);
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 0);
    clock_advance(&solo.crew.engine.clock, 1);
    solo_check_idle();
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 1);
}

/* Send all of it, and read a line; false when the other side does neither. */
static bool try_request(int fd, const char *bytes, size_t n, char *line, size_t room)
{
    size_t len = 0;

    while (n > 0) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);

        if (done <= 0) {
            return false;
        }
        bytes += done;
        n -= (size_t)done;
    }
    while (len + 1 < room && (len == 0 || line[len - 1] != '\n')) {
        if (recv(fd, line + len, 1, 0) != 1) {
            return false;
        }
        len++;
    }
    line[len] = '\0';
    return true;
}

enum { LINE_BYTES = 80, SETS = 1000 };

/* Set k until that is refused. False: it is not, or the other side is silent. */
static bool set_until_refused(int fd, const char *v, size_t len, char line[LINE_BYTES])
{
    char *set = malloc(len + 40);
    size_t n = (size_t)sprintf(set, "set k 0 0 %zu\r\n", len);
    bool is_stored = true;
    bool is_answered = true;

    memcpy(set + n, v, len);
    memcpy(set + n + len, "\r\n", 2);
    for (int i = 0; i < SETS && is_answered && is_stored; i++) {
        is_answered = try_request(fd, set, n + len + 2, line, LINE_BYTES);
        is_stored = is_answered && strcmp(line, "STORED\r\n") == 0;
    }
    free(set);
    return is_answered && !is_stored;
}

/*
 * Dead memory can be reused after a grace period, which this thread delays. The client waits
 * for a while, and is then refused.
 */
TEST(waiting_for_room_has_an_end)
{
    enum { LEN = 500000 };
    int fd = wire_dial(0);
    char *v = wire_value(LEN, 1);
    char line[LINE_BYTES];

    /* Nothing is asserted within the section: a failure there would leave it open. */
    rcu_register();
    rcu_begin();
    bool is_refused = set_until_refused(fd, v, LEN, line);
    rcu_end();
    rcu_unregister();
    ck_assert(is_refused);
    ck_assert_str_eq(line, "SERVER_ERROR out of memory storing object\r\n");
    ck_assert_uint_gt(solo_counter(CTR_room_waits), 0);
    wire_store(fd, "k", v, LEN);
    free(v);
}

/* Send this in one call, and wait until its store waits for room. */
static bool begin_to_wait(int fd, const char *bytes, size_t n)
{
    uint64_t before = solo_counter(CTR_room_waits);
    bool is_sent = send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;

    for (int i = 0; i < 100000 && is_sent && solo_counter(CTR_room_waits) == before; i++) {
        usleep(1000);
    }
    return is_sent && solo_counter(CTR_room_waits) > before;
}

/*
 * A store that waits for room has a place in the line of its shard. It is not retried before
 * its client takes the replies to earlier requests. Until then others get the room.
 */
TEST(a_client_that_does_not_read_keeps_no_room_from_others)
{
    enum { LEN = 500000, SMALL = 66000, BEGUN = 40000, SLOW = 40 };
    static const char asks[] = "get first\r\nset slow 0 0 500000\r\n";
    int other = wire_dial(0);
    char *v = wire_value(LEN, 1);
    char *bytes = wire_value(BEGUN, 1);
    bool is_waiting = true;
    char line[LINE_BYTES];
    int slow[SLOW];

    memcpy(bytes, asks, sizeof(asks) - 1);
    wire_store(other, "first", v, SMALL);
    for (int i = 0; i < SLOW; i++) {
        slow[i] = wire_dial(SMALL_SOCKET);
    }
    rcu_register();
    rcu_begin();
    bool is_full =
        set_until_refused(other, v, LEN, line) && set_until_refused(other, v, SMALL, line);
    for (int i = 0; i < SLOW && is_waiting; i++) {
        is_waiting = begin_to_wait(slow[i], bytes, BEGUN);
    }
    rcu_end();
    rcu_unregister();
    ck_assert(is_full && is_waiting);
    for (int i = 0; i < 128 * (int)MIB / LEN; i++) {
        sprintf(line, "k%d", i);
        wire_store(other, line, v, LEN);
    }
    free(bytes);
    free(v);
}

static bool is_in_line;

static void look_at_line(struct worker *w)
{
    is_in_line = w->copy_waiter.memory != NULL;
}

/* An append waits in the line too; its client is gone when its turn sends earlier replies. */
TEST(a_client_that_is_gone_keeps_no_room_from_others)
{
    enum { LEN = 500000, SMALL = 66000, LONG = 200000 };
    static const char asks[] = "version\r\nappend long 0 0 1\r\nx\r\n";
    int other = wire_dial(0);
    int gone = wire_dial(0);
    char *v = wire_value(LEN, 1);
    char line[LINE_BYTES];
    struct solo_errand e;

    wire_store(other, "long", v, LONG);
    rcu_register();
    rcu_begin();
    bool is_full =
        set_until_refused(other, v, LEN, line) && set_until_refused(other, v, SMALL, line);
    solo_pause(&e);
    bool is_sent = send(gone, asks, sizeof(asks) - 1, MSG_NOSIGNAL) == sizeof(asks) - 1;
    close(gone);
    solo_resume(&e);
    for (int i = 0; i < 100000 && solo_counter(CTR_curr_connections) > 1; i++) {
        usleep(1000);
    }
    rcu_end();
    rcu_unregister();
    ck_assert(is_full && is_sent);
    ck_assert_uint_eq(solo_counter(CTR_curr_connections), 1);
    solo_run(look_at_line);
    ck_assert(!is_in_line);
    free(v);
}
