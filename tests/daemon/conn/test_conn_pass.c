/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are passed on: each is given away as another program would find it, and
 * comes back to the same worker, which continues with it.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/conn/conn.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

#define IDLE_S 5

static const struct conn_origin origin = {.transport = CONN_UNIX, .rights = RIGHTS_OPERATOR};

static void start(void)
{
    solo_start_with(64 * (uint64_t)MIB, 1, true);
    passed_conns_init(&solo.crew.passed);
    atomic_store(&solo.crew.passes_conns, true);
}

/* What is still open is closed, and goes nowhere. */
static void stop(void)
{
    atomic_store(&solo.crew.passes_conns, false);
    solo_stop();
    passed_conns_fini(&solo.crew.passed);
}

static void setup(void)
{
    settings_init(&solo.settings);
    solo.settings.idle_timeout_s = IDLE_S;
    start();
}

static void teardown(void)
{
    stop();
    solo.settings.auth_file = NULL; /* it is not to be released */
    settings_fini(&solo.settings);
}

TEST_FIXTURE(setup, teardown)

static void end_turn(struct worker *w)
{
}

static bool is_given;

static void give(struct worker *w)
{
    is_given = conn_pass_on(w->conns->first);
}

/* Give away the only connection, and read what was written of it. The bytes are to be kept. */
static void pass_away(struct buf *bytes, struct passed_conn *out)
{
    static const struct passed_keys keys;
    struct passed_reader r;

    solo_run(give);
    ck_assert(is_given);
    *bytes = (struct buf){0};
    ck_assert(passed_conns_encode(&solo.crew.passed, &keys, bytes));
    ck_assert_int_eq(passed_conns_open(&r, buf_span(bytes)), PASSED_GOOD);
    ck_assert(passed_conns_next(&r, out));
    passed_conns_fini(&solo.crew.passed);
    passed_conns_init(&solo.crew.passed);
}

/* Give it to the worker, as the next program does. */
static void come_back(struct buf *bytes, const struct passed_conn *state)
{
    struct conn_heirs *heirs = conn_heirs_create(1);

    atomic_fetch_add(&solo.crew.conns_open, 1);
    atomic_fetch_add(&solo.crew.conns_local, 1);
    ck_assert(conn_heirs_put(heirs, state, &origin));
    conn_heirs_post(&heirs, solo.worker);
    solo_run(end_turn);
    buf_fini(bytes);
}

static void pass_on(void)
{
    struct passed_conn state;
    struct buf bytes;

    pass_away(&bytes, &state);
    come_back(&bytes, &state);
}

/* A client that has had an answer, and whose turn is over. */
static int dial(void)
{
    int fd = wire_dial(0);

    wire_store(fd, "k", "v", 1);
    solo_run(end_turn);
    return fd;
}

TEST(idle_time_is_kept)
{
    int fd = dial();

    clock_advance(&solo.crew.engine.clock, (IDLE_S - 1) * 1000);
    pass_on();
    clock_advance(&solo.crew.engine.clock, 1000); /* not longer than it may */
    solo_check_idle();
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 0);
    clock_advance(&solo.crew.engine.clock, 1);
    solo_check_idle();
    ck_assert_uint_eq(solo_counter(CTR_idle_kicks), 1);
    wire_expect_end(fd);
}

static void fail_two_logins(struct worker *w)
{
    w->conns->first->client.login_failures = 2;
}

static uint8_t failures_seen;

static void see_failures(struct worker *w)
{
    failures_seen = w->conns->first->client.login_failures;
}

TEST(failed_logins_are_kept)
{
    (void)dial();
    solo_run(fail_two_logins);
    pass_on();
    solo_run(see_failures);
    ck_assert_uint_eq(failures_seen, 2);
}

#define REFUSED 1500000

/* The rest of a value that was refused is not read as commands. */
TEST(bytes_to_be_dropped_are_dropped)
{
    static const char line[] = "get k\r\n";
    char *v = wire_value(REFUSED, 1);
    int fd = dial();

    wire_say(fd, "set large 0 0 1500000\r\n");
    wire_expect(fd, "SERVER_ERROR object too large for cache\r\n");
    wire_say(fd, line);
    pass_on();
    wire_say(fd, line);
    wire_put(fd, v, REFUSED + 2 - 2 * strlen(line));
    wire_say(fd, "mn\r\n");
    wire_expect(fd, "MN\r\n");
    free(v);
}

/* Half a line comes along; the other half makes it whole. */
TEST(half_a_line_is_kept)
{
    int fd = dial();

    wire_say(fd, "mn\r\nget ");
    wire_expect(fd, "MN\r\n");
    pass_on();
    wire_say(fd, "k\r\n");
    wire_expect_value(fd, "k", "v", 1);
    wire_expect(fd, "END\r\n");
}

#define KEYS 100
#define LEN  9000

/* Read a line up to its end. */
static void read_line(int fd, char *line, size_t room)
{
    size_t len = 0;

    do {
        ck_assert_uint_lt(len + 1, room);
        wire_get(fd, line + len, 1);
    } while (line[len++] != '\n');
    line[len] = '\0';
}

/*
 * A line of many keys whose client does not read: the keys that are left become a line with the
 * same name and the same time.
 */
TEST_LOOP(a_line_of_many_keys_is_continued, 4)
{
    static const char *const begins[] = {"get", "gets", "gat 1000", "gats 1000"};
    static const int fields[] = {3, 4, 3, 4};
    char *v = wire_value(LEN, 1);
    char text[KEYS * 2 + 32];
    int fd = wire_dial(SMALL_SOCKET);
    size_t n = (size_t)sprintf(text, "%s", begins[_i]);

    for (int i = 0; i < KEYS; i++) {
        n += (size_t)sprintf(text + n, " k");
    }
    n += (size_t)sprintf(text + n, "\r\nmg k t\r\n");
    wire_store(fd, "k", v, LEN);
    wire_put(fd, text, n);
    for (int i = 0; i < KEYS; i++) {
        unsigned long cas;
        int len;

        read_line(fd, text, sizeof(text));
        ck_assert_int_eq(sscanf(text, "VALUE k 0 %d %lu", &len, &cas), fields[_i] - 2);
        ck_assert_int_eq(len, LEN);
        if (i == 0) {
            pass_on();
        }
        wire_expect_bytes(fd, v, LEN);
        wire_expect(fd, "\r\n");
    }
    wire_expect(fd, "END\r\n");
    wire_expect(fd, _i < 2 ? "HD t-1\r\n" : "HD t1000\r\n");
    free(v);
}

static bool is_passable;

static void ask_later(struct worker *w)
{
    is_passable = conn_passes_later(w->conns->first);
}

/* What it restores is known to this process only. */
TEST(who_restores_stays)
{
    int fd = dial();

    solo_run(ask_later);
    ck_assert(is_passable);
    wire_say(fd, "restore begin 10\r\n");
    wire_expect(fd, "OK\r\n");
    solo_run(ask_later);
    ck_assert(!is_passable);
    solo_run(give);
    ck_assert(!is_given);
}

/* No other program would serve it, and the others would wait for it. */
TEST(who_has_a_place_for_replicas_stays)
{
    static const struct conn_origin beyond = {.transport = CONN_UNIX, .is_beyond = true};

    solo.origin = &beyond;
    (void)wire_dial(0);
    solo_run(ask_later);
    ck_assert(!is_passable);
}

static void ask_follower(struct worker *w)
{
    struct client *client = &w->conns->first->client;

    client->follows = true;
    is_passable = conn_passes_later(w->conns->first);
    client->follows = false;
}

/* Its answers have no end: the others would wait for it until the stop is overdue. */
TEST(who_follows_stays)
{
    (void)dial();
    solo_run(ask_follower);
    ck_assert(!is_passable);
}

static void begin_to_stop(struct worker *w)
{
    w->deferred_batches++; /* until it has begun */
    w->is_stopping = true;
    w->phase = WORKER_DRAINING;
    w->crew->duties->drain(w);
}

static void end_batch(struct worker *w)
{
    w->deferred_batches--;
}

static void check_drain(struct worker *w)
{
    worker_now(w);
    w->crew->duties->check_drain(w);
}

static bool waits_for_socket;

static void look_at_first(struct worker *w)
{
    waits_for_socket = w->conns->first->state == CONN_OUTPUT;
}

static bool is_stuck(void)
{
    solo_run(look_at_first);
    return waits_for_socket;
}

#define DUMPED 500

/*
 * The others, who are passed on, wait for it no longer than for a value that does not come: for
 * one that restores, and in the middle of a dump.
 */
TEST_LOOP(who_does_not_read_and_cannot_be_passed_on_is_closed, 2)
{
    static const char *const ask[] = {"restore begin 10\r\nget k\r\n",
                                      "lru_crawler metadump all\r\n"};
    static const char *const answer[] = {"OK\r\nVALUE k 0 524288\r\n", "OK\r\nkey="};
    char *v = wire_value(MIB / 2, 1);
    int fd = wire_dial(SMALL_SOCKET);
    char key[64];

    wire_store(fd, "k", v, MIB / 2);
    for (int i = 0; i < DUMPED; i++) {
        snprintf(key, sizeof(key), "a-key-that-makes-the-dump-longer-%d", i);
        wire_store(fd, key, "v", 1);
    }
    wire_say(fd, ask[_i]);
    wire_expect(fd, answer[_i]);
    WAIT_UNTIL(is_stuck()); /* while it takes slices, it makes progress */
    solo_run(begin_to_stop);
    clock_advance(&solo.crew.engine.clock, WORKER_STALL_MS - 1);
    solo_run(check_drain);
    ck_assert_uint_eq(solo_counter(CTR_curr_connections), 1);
    clock_advance(&solo.crew.engine.clock, 1);
    solo_run(check_drain);
    ck_assert_uint_eq(solo_counter(CTR_curr_connections), 0);
    solo_run(end_batch);
    free(v);
}

/* It was accepted before the server stopped, and its header may be on its way. */
TEST(a_balancer_that_comes_late_is_passed_on)
{
    static const struct conn_origin balanced = {.transport = CONN_TCP, .is_proxied = true};
    int server;

    ck_assert_ptr_null(networks_parse("127.0.0.1", &solo.crew.access.proxies));
    solo_run(begin_to_stop);
    solo.origin = &balanced;
    (void)wire_dial_tcp(&server);
    solo_run(end_batch);
    ck_assert_uint_eq(passed_conns_count(&solo.crew.passed), 1);
    close(passed_conns_fd(&solo.crew.passed, 0));
}

static void ask_watcher(struct worker *w)
{
    struct client *client = &w->conns->first->client;

    client->watcher = (struct watcher *)(void *)client; /* only looked at for NULL */
    is_passable = conn_passes_later(w->conns->first);
    client->watcher = NULL;
}

/* Its lines come from threads of this process. */
TEST(who_watches_stays)
{
    (void)dial();
    solo_run(ask_watcher);
    ck_assert(!is_passable);
}

static struct client seen;
static char user_seen[16];

static void see_client(struct worker *w)
{
    seen = w->conns->first->client;
    snprintf(user_seen, sizeof(user_seen), "%s", seen.user != NULL ? seen.user : "");
}

/* The users may be others by now: the login is looked at again before the next request. */
TEST(a_login_is_kept_and_looked_at_again)
{
    static char users[] = "users";
    struct passed_conn state;
    struct buf bytes;

    (void)dial();
    pass_away(&bytes, &state);
    solo.settings.auth_file = users;
    state.user = span_str("ann");
    state.has_login = true;
    state.login = (struct siphash_digest){5, 6};
    come_back(&bytes, &state);
    solo_run(see_client);
    ck_assert(seen.login_state == LOGIN_DOUBTED);
    ck_assert_int_eq(siphash_same(&seen.login, &state.login), 1);
    ck_assert_str_eq(user_seen, "ann");
}

#define LARGE (3u * MIB) /* more than is copied */

static enum worker_phase phase;

static void give_finishing(struct worker *w)
{
    const enum worker_phase was = w->phase;

    w->phase = phase;
    is_given = conn_pass_on(w->conns->first);
    w->phase = was;
}

/*
 * A value on its way out is pinned, which another program cannot take over: while the server
 * finishes it is copied, unless it is very large.
 */
TEST_LOOP(a_pinned_value_is_copied_up_to_a_bound, 2)
{
    const size_t len = _i == 0 ? MIB : LARGE;
    char *v = wire_value(len, 1);
    char line[64];

    stop();
    solo.settings.item_size_max = 8 * MIB;
    start();
    int fd = wire_dial(SMALL_SOCKET);
    wire_store(fd, "k", v, len);
    wire_say(fd, "get k\r\n");
    snprintf(line, sizeof(line), "VALUE k 0 %zu\r\n", len);
    wire_expect(fd, line);
    phase = WORKER_SERVING;
    solo_run(give_finishing);
    ck_assert(!is_given);
    phase = WORKER_FINISHING;
    solo_run(give_finishing);
    ck_assert(is_given == (len < LARGE));
    if (is_given) {
        close(passed_conns_fd(&solo.crew.passed, 0));
    }
    free(v);
}
