/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of one worker, driven through socket pairs: order, splitting, slow readers,
 * large values both ways, half-close, fairness, limits, draining. The server is built by
 * hand: an engine and a worker, no listener.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/command/turn.h"
#include "daemon/conn/conn.h"
#include "daemon/options/settings.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/worker.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define MIB          (1u << 20)
#define PATIENCE_S   100 /* a socket that is silent for so long has failed the test */
#define SMALL_SOCKET 8192

static struct settings settings;
static struct crew crew;
static struct stats_shared shared;
static struct worker *worker;

/* ---- a server without listeners ---------------------------------------------------------- */

/* One worker; with several shards it is one of as many to the engine. */
static void start_with(uint64_t limit_bytes, uint32_t shards, bool is_frozen)
{
    struct engine_config cfg;

    memset(&crew, 0, sizeof(crew));
    engine_config_init(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit_bytes;
    cfg.item_size_max = settings.item_size_max;
    ck_assert_int_eq(engine_start(&crew.engine, &cfg), MF_OK);
    if (is_frozen) {
        clock_freeze(&crew.engine.clock);
    }
    crew.settings = &settings;
    crew.duties = &conn_duties;
    crew.stats = &shared;
    worker = mem_alloc_aligned(sizeof(*worker), 64);
    memset(worker, 0, sizeof(*worker));
    crew.workers = worker;
    crew.worker_count = 1;
    ck_assert_int_eq(worker_start(worker, &crew, 0), 0);
}

static void start(uint64_t limit_bytes)
{
    start_with(limit_bytes, 1, false);
}

static void setup(void)
{
    settings_init(&settings);
    start(64 * (uint64_t)MIB);
}

static void stop(void)
{
    worker_stop(worker);
    worker_wait_drained(worker);
    worker_end(worker);
    worker_join(worker);
    worker_release(worker);
    ck_assert_ptr_null(worker->conns);
    ck_assert_uint_eq(ctr_get(&worker->counters, CTR_curr_connections), 0);
    ck_assert_uint_eq(ctr_get(&worker->counters, CTR_out_pending_bytes), 0);
    ck_assert_uint_eq(ctr_get(&worker->counters, CTR_body_pending_bytes), 0);
    mem_free(worker);
    worker = NULL;
    engine_stop(&crew.engine);
}

static void teardown(void)
{
    if (worker != NULL) {
        stop();
    }
    settings_fini(&settings);
}

TEST_FIXTURE(setup, teardown)

struct adoption {
    struct message m;
    int fd;
};

static void on_adopt(struct message *m, void *receiver)
{
    struct adoption *a = (struct adoption *)m;

    static const struct conn_origin origin = {.transport = CONN_UNIX};

    conn_adopt(receiver, a->fd, &origin);
    free(a);
}

/* A connection to the worker; the server's end takes `sndbuf` bytes (0: as usual). */
static int dial(int sndbuf)
{
    struct adoption *a = calloc(1, sizeof(*a));
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (sndbuf > 0) {
        setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
    }
    a->m.fn = on_adopt;
    a->fd = fds[1];
    atomic_fetch_add(&crew.conns_open, 1);
    mailbox_post(&worker->mailbox, &a->m);
    return fds[0];
}

/* What the worker does between two turns, while the test waits. */
struct errand {
    struct message m;
    sem_t is_done;
    sem_t may_go_on;
};

static void begin_errand(struct errand *e, void (*fn)(struct message *, void *))
{
    e->m.fn = fn;
    sem_init(&e->is_done, 0, 0);
    sem_init(&e->may_go_on, 0, 0);
    mailbox_post(&worker->mailbox, &e->m);
    while (sem_wait(&e->is_done) != 0) {
    }
}

static void on_scan(struct message *m, void *receiver)
{
    struct worker *w = receiver;

    conn_scan(w, worker_now(w));
    sem_post(&((struct errand *)(void *)m)->is_done);
}

/* The worker looks at all of its connections. */
static void scan(void)
{
    struct errand e;

    begin_errand(&e, on_scan);
}

static void on_pause(struct message *m, void *receiver)
{
    struct errand *e = (struct errand *)(void *)m;

    (void)receiver;
    sem_post(&e->is_done);
    while (sem_wait(&e->may_go_on) != 0) {
    }
}

/* The worker stands still until the test lets it go on. */
static void pause_worker(struct errand *e)
{
    begin_errand(e, on_pause);
}

static void resume_worker(struct errand *e)
{
    sem_post(&e->may_go_on);
}

/* ---- the client's side ------------------------------------------------------------------- */

static void put(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);

        ck_assert_msg(done > 0, "send: %s", strerror(errno));
        bytes += done;
        n -= (size_t)done;
    }
}

static void say(int fd, const char *text)
{
    put(fd, text, strlen(text));
}

/* Read exactly n bytes. */
static void get(int fd, char *to, size_t n)
{
    while (n > 0) {
        ssize_t done = recv(fd, to, n, 0);

        ck_assert_msg(done > 0, "recv: %s, %zu bytes missing",
                      done == 0 ? "end" : strerror(errno), n);
        to += done;
        n -= (size_t)done;
    }
}

static void expect_bytes(int fd, const char *bytes, size_t n)
{
    char *got = malloc(n + 1);

    get(fd, got, n);
    got[n] = '\0';
    if (memcmp(got, bytes, n) != 0) {
        size_t i = 0;

        while (got[i] == bytes[i]) {
            i++;
        }
        ck_abort_msg("at byte %zu of %zu: got \"%.60s\", expected \"%.60s\"", i, n, got + i,
                     bytes + i);
    }
    free(got);
}

static void expect(int fd, const char *text)
{
    expect_bytes(fd, text, strlen(text));
}

static void expect_end(int fd)
{
    char c;

    ck_assert_int_eq(recv(fd, &c, 1, 0), 0);
}

/* n bytes of value that tell where they are and whose. */
static char *make_value(size_t n, unsigned owner)
{
    char *v = malloc(n + 1);

    for (size_t i = 0; i < n; i++) {
        v[i] = (char)('!' + (i * 7 + i / 251 + owner * 13) % 90);
    }
    v[n] = '\0';
    return v;
}

static void store(int fd, const char *key, const char *value, size_t n)
{
    char line[300];

    put(fd, line, (size_t)snprintf(line, sizeof(line), "set %s 0 0 %zu\r\n", key, n));
    put(fd, value, n);
    say(fd, "\r\n");
    expect(fd, "STORED\r\n");
}

static void expect_value(int fd, const char *key, const char *value, size_t n)
{
    char line[300];

    expect_bytes(fd, line, (size_t)snprintf(line, sizeof(line), "VALUE %s 0 %zu\r\n", key, n));
    expect_bytes(fd, value, n);
    expect(fd, "\r\n");
}

static uint64_t counter(enum counter id)
{
    return ctr_get(&worker->counters, id);
}

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
                              "CLIENT_ERROR bad data chunk\r\nERROR\r\n"
                              "DELETED\r\n"
                              "NOT_FOUND\r\n"
                              "END\r\n"
                              "OK\r\n"
                              "END\r\n"
                              "VERSION 1.6.45\r\n";

TEST(pipeline_is_answered_in_order)
{
    int fd = dial(0);

    put(fd, SCRIPT, sizeof(SCRIPT) - 1);
    expect(fd, ANSWERS);
    close(fd);
}

TEST(bytes_one_by_one_give_the_same)
{
    int fd = dial(0);

    for (size_t i = 0; i < sizeof(SCRIPT) - 1; i++) {
        put(fd, SCRIPT + i, 1);
    }
    expect(fd, ANSWERS);
    close(fd);
}

TEST(half_close_gets_all_answers)
{
    int fd = dial(SMALL_SOCKET);
    char *v = make_value(10000, 1);

    store(fd, "k", v, 10000);
    for (int i = 0; i < 200; i++) {
        say(fd, "get k\r\n");
    }
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 200; i++) {
        expect_value(fd, "k", v, 10000);
        expect(fd, "END\r\n");
    }
    expect_end(fd);
    free(v);
    close(fd);
}

TEST(quit_ends_behind_the_pipeline)
{
    int fd = dial(SMALL_SOCKET);
    char *v = make_value(16000, 1);

    store(fd, "k", v, 16000);
    say(fd, "get k k k k k k k k k k k k\r\nquit\r\nget k\r\n");
    for (int i = 0; i < 12; i++) {
        expect_value(fd, "k", v, 16000);
    }
    expect(fd, "END\r\n");
    expect_end(fd);
    free(v);
    close(fd);
}

/* ---- slow readers ------------------------------------------------------------------------ */

TEST(multiget_goes_on_where_the_socket_was_full)
{
    enum { KEYS = 150, LEN = 9000 };
    int fd = dial(SMALL_SOCKET);
    char *line = malloc(KEYS * 8 + 16);
    char *v[KEYS];
    size_t n = (size_t)sprintf(line, "get");

    for (unsigned i = 0; i < KEYS; i++) {
        char key[8];

        sprintf(key, "k%u", i);
        v[i] = make_value(LEN, i);
        store(fd, key, v[i], LEN);
        n += (size_t)sprintf(line + n, " %s", key);
    }
    n += (size_t)sprintf(line + n, "\r\n");
    put(fd, line, n);
    say(fd, "set after 0 0 1\r\nx\r\nget after\r\n");
    put(fd, line, n);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < KEYS; i++) {
            char key[8];

            sprintf(key, "k%u", i);
            expect_value(fd, key, v[i], LEN);
        }
        expect(fd, "END\r\n");
        if (round == 0) {
            expect(fd, "STORED\r\nVALUE after 0 1\r\nx\r\nEND\r\n");
        }
    }
    /* A turn is counted when its replies are sent; the next one begins after that. */
    say(fd, "verbosity 0\r\n");
    expect(fd, "OK\r\n");
    ck_assert_uint_eq(counter(CTR_get_hits), 2 * KEYS + 1);
    for (unsigned i = 0; i < KEYS; i++) {
        free(v[i]);
    }
    free(line);
    close(fd);
}

TEST(large_values_arrive_whole_though_they_are_replaced)
{
    enum { LEN = 1000000 };
    int slow = dial(SMALL_SOCKET);
    int other = dial(0);
    char *old = make_value(LEN, 1);
    char *new = make_value(LEN, 2);
    char first[40];
    size_t n = (size_t)sprintf(first, "VALUE big 0 %d\r\n", LEN);

    store(other, "big", old, LEN);
    say(slow, "get big\r\n");
    expect_bytes(slow, first, n); /* it has begun, and stands */
    store(other, "big", new, LEN);
    say(other, "delete big\r\nflush_all\r\n");
    expect(other, "DELETED\r\nOK\r\n");
    for (int i = 0; i < 40; i++) {
        store(other, "big", new, LEN);
    }
    expect_bytes(slow, old, LEN);
    expect(slow, "\r\nEND\r\n");
    free(old);
    free(new);
    close(slow);
    close(other);
}

TEST(who_never_reads_is_bounded_and_alone)
{
    int slow = dial(SMALL_SOCKET);
    int other = dial(0);
    struct timeval soon = {.tv_usec = 1000};
    char *v = make_value(16000, 1);
    char gets[100 * 8];
    uint64_t sent = 0;

    store(other, "k", v, 16000);
    for (size_t i = 0; i < sizeof(gets); i += 8) {
        memcpy(gets + i, "get k \r\n", 8);
    }
    /* It sends until nobody takes any more. */
    setsockopt(slow, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
    while (send(slow, gets, sizeof(gets), MSG_NOSIGNAL) > 0 && sent < 64 * (uint64_t)MIB) {
        sent += sizeof(gets);
    }
    ck_assert_uint_lt(sent, 8 * (uint64_t)MIB);
    ck_assert_uint_le(counter(CTR_out_pending_bytes), 1 * (uint64_t)MIB);
    say(other, "get k\r\n");
    expect_value(other, "k", v, 16000);
    expect(other, "END\r\n");
    free(v);
    close(slow);
    close(other);
}

/*
 * What a worker keeps for all clients that do not read is its part of 64 MiB; whoever would
 * exceed it is cut off.
 */
TEST(replies_that_wait_are_bounded_for_each_worker)
{
    enum { LEN = 240000, CLIENTS = 300, SHARDS = 2 };
    const uint64_t most = (uint64_t)64 * MIB / SHARDS;
    static const char first[] = "VALUE k 0 240000\r\n";
    char *v = make_value(LEN, 1);
    int fd[CLIENTS];
    int other;
    int n = 0;

    stop();
    start_with(256 * (uint64_t)MIB, SHARDS, false); /* in segments of 256 KiB: it is copied */
    other = dial(0);
    store(other, "k", v, LEN);
    while (counter(CTR_slow_drops) == 0) {
        ck_assert_int_lt(n, CLIENTS);
        fd[n] = dial(SMALL_SOCKET);
        say(fd[n], "get k\r\n");
        expect(fd[n++], first);
        store(other, "turn", "x", 1); /* the turn in which it was sent is over after this */
        ck_assert_uint_le(counter(CTR_out_pending_bytes), most);
    }
    ck_assert_int_ge(n, (int)(most / LEN));
    ck_assert_uint_eq(counter(CTR_slow_drops), 1);
    for (int i = 0; i < n - 1; i++) {
        expect_bytes(fd[i], v, LEN);
        expect(fd[i], "\r\nEND\r\n");
        close(fd[i]);
    }
    close(fd[n - 1]);
    close(other);
    free(v);
}

/* ---- large values on their way in -------------------------------------------------------- */

TEST(large_values_arrive_in_any_portions)
{
    static const size_t sizes[] = {16384,  16385,  65536,  200000,
                                   262144, 300000, 524288, 1000000};
    struct rng rng;
    int fd = dial(0);

    rng_init(&rng, rng_seed());
    for (unsigned round = 0; round < 60; round++) {
        size_t len = sizes[round % 8];
        char *v = make_value(len, round);
        char *bytes = malloc(len + 200);
        size_t n = (size_t)sprintf(bytes, "set big 0 0 %zu\r\n", len);

        memcpy(bytes + n, v, len);
        n += len;
        n += (size_t)sprintf(bytes + n, "\r\nget nothing\r\nget big\r\nset a 0 0 1\r\nx\r\n");
        for (size_t i = 0; i < n;) {
            size_t most = round % 3 == 0 ? n : round % 3 == 1 ? 50000 : 300000;
            size_t part = 1 + rng_below(&rng, most);

            part = part < n - i ? part : n - i;
            put(fd, bytes + i, part);
            i += part;
        }
        expect(fd, "STORED\r\nEND\r\n");
        expect_value(fd, "big", v, len);
        expect(fd, "END\r\nSTORED\r\n");
        free(bytes);
        free(v);
    }
    close(fd);
}

TEST(bad_large_values_leave_the_stream_in_step)
{
    int fd = dial(0);
    char *v = make_value(2 * MIB, 1);

    store(fd, "big", "old", 3);
    say(fd, "set big 0 0 300000\r\n");
    put(fd, v, 300000);
    say(fd, "xxget big\r\n");
    expect(fd, "CLIENT_ERROR bad data chunk\r\n");
    expect_value(fd, "big", "old", 3);
    expect(fd, "END\r\n");
    say(fd, "set big 0 0 2097152\r\n");
    put(fd, v, 2 * MIB);
    say(fd, "\r\nget big\r\n");
    expect(fd, "SERVER_ERROR object too large for cache\r\nEND\r\n");
    ck_assert_uint_eq(counter(CTR_store_too_large), 1);
    free(v);
    close(fd);
}

TEST(bodies_that_never_come_leave_room_for_others)
{
    enum { CLIENTS = 40 };
    int fd[CLIENTS];
    int other = dial(0);
    char *v = make_value(1000000, 1);

    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = dial(0);
        say(fd[i], "set body 0 0 1000000\r\nthat is all");
    }
    store(other, "whole", v, 1000000);
    ck_assert_uint_eq(counter(CTR_body_pending_bytes), 0);
    /* Now they send enough to be believed, all that may be announced and more. */
    for (int i = 0; i < CLIENTS; i++) {
        put(fd[i], v, 100000);
    }
    store(other, "small", "x", 1);
    ck_assert_uint_le(counter(CTR_body_pending_bytes), 8 * (uint64_t)MIB);
    for (int i = 0; i < CLIENTS; i++) {
        close(fd[i]);
    }
    store(other, "whole", v, 1000000);
    free(v);
    close(other);
}

/* ---- limits, fairness, the end ----------------------------------------------------------- */

TEST(long_get_lines_are_served_up_to_their_limit)
{
    enum { KEYS = 40000 };
    int fd = dial(0);
    char *line = malloc(KEYS * 25 + 8);
    size_t n = (size_t)sprintf(line, "get");
    char c;

    store(fd, "key-that-is-there-39999", "v", 1);
    for (unsigned i = 0; i < KEYS; i++) {
        n += (size_t)sprintf(line + n, " key-that-is-there-%05u", i);
    }
    n += (size_t)sprintf(line + n, "\r\n");
    put(fd, line, n);
    expect_value(fd, "key-that-is-there-39999", "v", 1);
    expect(fd, "END\r\n");
    /* Without end it is cut off. */
    for (int i = 0; i < 4; i++) {
        if (send(fd, line, n - 2, MSG_NOSIGNAL) < 0) {
            break;
        }
    }
    ck_assert_int_le(recv(fd, &c, 1, 0), 0);
    free(line);
    close(fd);
}

TEST(yields_are_counted_by_requests)
{
    int fd = dial(0);
    char gets[100 * 7];

    for (size_t i = 0; i < sizeof(gets); i += 7) {
        memcpy(gets + i, "get k\r\n", 7);
    }
    put(fd, gets, sizeof(gets));
    for (int i = 0; i < 100; i++) {
        expect(fd, "END\r\n");
    }
    say(fd, "version\r\n");
    expect(fd, "VERSION 1.6.45\r\n");
    /* 100 requests in one read and -R 20; a pipe may deliver them in two. */
    ck_assert_uint_ge(counter(CTR_conn_yields), 3);
    ck_assert_uint_le(counter(CTR_conn_yields), 4);
    close(fd);
}

/*
 * Both are ready when the worker goes on, the flood first. Its requests count, so that the
 * neighbour reads how many of them came before its own.
 */
TEST(neighbours_of_a_flood_are_served)
{
    enum { FLOOD = 8000, PORTION = 1000 };
    int fd = dial(0);
    int neighbour = dial(0);
    struct errand pause;
    char *incrs = malloc(FLOOD * 10);
    char line[32];
    int before;
    int len;

    store(neighbour, "n", "0", 1);
    say(fd, "get k\r\n");
    expect(fd, "END\r\n");
    for (size_t i = 0; i < FLOOD; i++) {
        memcpy(incrs + 10 * i, "incr n 1\r\n", 10);
    }
    pause_worker(&pause);
    put(fd, incrs, (size_t)FLOOD * 10);
    say(neighbour, "incr n 1\r\n");
    resume_worker(&pause);
    for (len = 0; len == 0 || line[len - 1] != '\n'; len++) {
        get(neighbour, line + len, 1);
    }
    before = atoi(line) - 1;
    ck_assert_int_gt(before, 0);
    ck_assert_int_le(before, PORTION);
    for (int i = 1; i <= FLOOD + 1; i++) {
        if (i != before + 1) {
            expect_bytes(fd, line, (size_t)sprintf(line, "%d\r\n", i));
        }
    }
    free(incrs);
    close(fd);
    close(neighbour);
}

TEST(stop_answers_what_was_received)
{
    int fd = dial(SMALL_SOCKET);
    char *v = make_value(15000, 1);

    store(fd, "k", v, 15000);
    say(fd, "get k k k k k k k k\r\nget k\r\n");
    worker_stop(worker);
    for (int i = 0; i < 8; i++) {
        expect_value(fd, "k", v, 15000);
    }
    expect(fd, "END\r\n");
    expect_value(fd, "k", v, 15000);
    expect(fd, "END\r\n");
    expect_end(fd);
    close(fd);
    free(v);
    worker_wait_drained(worker);
    worker_end(worker);
    worker_join(worker);
    worker_release(worker);
    mem_free(worker);
    worker = NULL;
    engine_stop(&crew.engine);
}

TEST(idle_clients_are_sent_away)
{
    int fd;

    stop();
    settings.idle_timeout_s = 5;
    start_with(64 * (uint64_t)MIB, 1, true);
    fd = dial(0);
    for (int i = 0; i < 3; i++) {
        say(fd, "get k\r\n");
        expect(fd, "END\r\n");
        clock_advance(&crew.engine.clock, 5000); /* not longer than it may */
        scan();
        ck_assert_uint_eq(counter(CTR_idle_kicks), 0);
    }
    clock_advance(&crew.engine.clock, 1);
    scan();
    expect_end(fd);
    ck_assert_uint_eq(counter(CTR_idle_kicks), 1);
    close(fd);
}

/*
 * Memory that died can be used again after a grace period, and this thread holds that up. The
 * client waits for a while, and is refused then.
 */
TEST(waiting_for_room_has_an_end)
{
    enum { LEN = 500000, SETS = 1000 };
    static const char refusal[] = "SERVER_ERROR out of memory storing object\r\n";
    int fd = dial(0);
    char *v = make_value(LEN, 1);
    char first = 'S';
    int n = 0;

    rcu_register();
    rcu_begin();
    for (; n < SETS; n++) {
        say(fd, "set k 0 0 500000\r\n");
        put(fd, v, LEN);
        say(fd, "\r\n");
        get(fd, &first, 1);
        if (first == 'S') {
            char rest[2];

            get(fd, rest, sizeof(rest));
            if (rest[0] == 'E') {
                break;
            }
            expect(fd, "RED\r\n");
        }
    }
    ck_assert_int_lt(n, SETS);
    expect(fd, refusal + 3);
    ck_assert_uint_gt(counter(CTR_room_waits), 0);
    rcu_end();
    rcu_unregister();
    store(fd, "k", v, LEN);
    free(v);
    close(fd);
}

TEST(gathered_answers_keep_their_place)
{
    int fd = dial(0);

    say(fd, "stats detail on\r\nset p:a 0 0 1\r\nx\r\nget p:a\r\nstats detail dump\r\n"
            "get p:a\r\nstats reset\r\nstats detail off\r\n");
    expect(fd, "OK\r\nSTORED\r\nVALUE p:a 0 1\r\nx\r\nEND\r\n"
               "PREFIX p get 1 hit 1 set 1 del 0\r\nEND\r\n"
               "VALUE p:a 0 1\r\nx\r\nEND\r\nRESET\r\nOK\r\n");
    /* Who leaves before the answer is there takes nothing along. */
    say(fd, "stats detail on\r\nstats detail dump\r\n");
    close(fd);
}

/* ---- deadlines --------------------------------------------------------------------------- */

TEST(exptimes_are_read_as_memcached_does)
{
    const msec_t now = 5000;
    const struct turn t = {.e = &crew.engine, .now = now};
    const int64_t month = 60 * 60 * 24 * 30;
    int64_t unix_s = clock_unix_ms(&crew.engine.clock) / 1000;
    msec_t at;

    ck_assert_int_eq(turn_deadline(&t, 0), MSEC_NEVER);
    ck_assert_int_le(turn_deadline(&t, -1), now);
    ck_assert_int_le(turn_deadline(&t, INT64_MIN), now);
    ck_assert_int_eq(turn_deadline(&t, 1), now + 1001);
    ck_assert_int_eq(turn_deadline(&t, month), now + 1 + month * 1000);
    /* One second more is a date, long past. */
    ck_assert_int_le(turn_deadline(&t, month + 1), now);
    at = turn_deadline(&t, unix_s + 100);
    /* Of these 100 seconds so much was over at most, and nothing at least. */
    ck_assert_int_gt(at, now + (unix_s + 100) * 1000 - clock_unix_ms(&crew.engine.clock));
    ck_assert_int_le(at, now + 100001);
    /* Dates beyond 2038 and beyond all reason. */
    ck_assert_int_gt(turn_deadline(&t, INT64_C(1) << 32), now + INT64_C(1000) * 86400);
    ck_assert_int_lt(turn_deadline(&t, INT64_C(1) << 32), MSEC_NEVER);
    ck_assert_int_eq(turn_deadline(&t, INT64_MAX), MSEC_NEVER);
}
