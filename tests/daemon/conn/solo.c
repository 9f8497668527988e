/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker and its clients: see solo.h.
 */
#include "tests/daemon/conn/solo.h"

#include <check.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/conn/conn.h"
#include "daemon/conn/conn_steps.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"

#define PATIENCE_S 100 /* a socket that is silent this long fails the test */

#define DIALLED_MAX 1024u

struct solo solo;

/* The latest clients. What a test has closed itself may have left its number to others. */
static struct {
    int fd;
    uint64_t cookie;
} dialled[DIALLED_MAX];
static unsigned dial_count;

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);

    (void)getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
    return cookie;
}

static void hang_up(void)
{
    for (; dial_count > 0; dial_count--) {
        unsigned i = (dial_count - 1) % DIALLED_MAX;

        if (dialled[i].cookie != 0 && cookie_of(dialled[i].fd) == dialled[i].cookie) {
            close(dialled[i].fd);
        }
        dialled[i].cookie = 0;
    }
}

/* The duties of a worker whose clock is frozen: no check is made unless the test asks. */
static struct worker_duties frozen_duties;

static void check_nobody(struct worker *w)
{
    (void)w;
}

static const struct worker_duties *duties_frozen(void)
{
    frozen_duties = conn_duties;
    frozen_duties.check_pace = check_nobody;
    return &frozen_duties;
}

/* ---- a server without listeners ---------------------------------------------------------- */

static void no_listener(const struct crew *crew, stats_socket_fn fn, void *arg)
{
    (void)crew;
    (void)fn;
    (void)arg;
}

static uint32_t no_listeners(const struct crew *crew)
{
    (void)crew;
    return 0;
}

static const struct stats_sources sources = {
    .each_listener = no_listener,
    .count_listeners = no_listeners,
    .each_datagram = udp_each,
    .each_conn = conn_each,
    .leave_conns = conn_each_end,
};

void solo_start_with(uint64_t limit_bytes, uint32_t shards, bool is_frozen)
{
    struct engine_config cfg;

    memset(&solo.crew, 0, sizeof(solo.crew));
    engine_config_init(&cfg);
    cfg.shards = shards;
    solo.settings.threads = shards;
    cfg.limit_bytes = limit_bytes;
    cfg.item_size_max = solo.settings.item_size_max;
    must(engine_start(&solo.crew.engine, &cfg) == MF_OK);
    if (is_frozen) {
        clock_freeze(&solo.crew.engine.clock);
    }
    solo.crew.settings = &solo.settings;
    solo.crew.duties = is_frozen ? duties_frozen() : &conn_duties;
    solo.crew.stats = &solo.shared;
    solo.crew.replication = &solo.replication;
    solo.shared.sources = sources;
    watch_init(&solo.crew.watch, &solo.crew);
    slowlog_init(&solo.crew.slowlog);
    live_init(&solo.crew);
    list_init(&solo.crew.uploads.places);
    solo.worker = mem_alloc_aligned(sizeof(*solo.worker), 64);
    memset(solo.worker, 0, sizeof(*solo.worker));
    solo.crew.workers = solo.worker;
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        roster_move_in(&solo.crew.roster, i, i); /* nobody is at home in the others */
    }
    atomic_store(&solo.crew.roster.created, 1);
    atomic_store(&solo.crew.roster.active, 1);
    must(worker_start(solo.worker, &solo.crew, 0) == 0);
}

void solo_start(uint64_t limit_bytes)
{
    solo_start_with(limit_bytes, 1, false);
}

void solo_setup(void)
{
    settings_init(&solo.settings);
    solo_start(64 * (uint64_t)MIB);
}

void solo_stop(void)
{
    hang_up();
    worker_stop(solo.worker);
    solo_end();
    solo.origin = NULL;
}

char *solo_value;

void solo_setup_frozen(void)
{
    settings_init(&solo.settings);
    solo_start_with(64 * (uint64_t)MIB, 1, true);
    solo_value = wire_value(SOLO_LEN, 1);
}

void solo_teardown_frozen(void)
{
    free(solo_value);
    solo_teardown();
}

void solo_end(void)
{
    hang_up();
    worker_wait_drained(solo.worker);
    worker_end(solo.worker);
    worker_join(solo.worker);
    worker_release(solo.worker);
    must(solo.worker->conns == NULL);
    must(solo_counter(CTR_curr_connections) == 0);
    must(solo_counter(CTR_out_pending_bytes) == 0);
    must(solo_counter(CTR_in_pending_bytes) == 0);
    must(solo_counter(CTR_body_pending_bytes) == 0);
    must(atomic_load(&solo.crew.held_bytes) == 0);
    mem_free(solo.worker);
    solo.worker = NULL;
    solo.crew.workers = NULL;
    /* A notice that comes late finds nobody, as in crew_stop(). */
    atomic_store(&solo.crew.roster.created, 0);
    engine_stop(&solo.crew.engine);
    if (solo.crew.main_mailbox.async.data != NULL) {
        mailbox_close(
            &solo.crew.main_mailbox); /* a test made it; its last messages are the watch's */
    }
    watch_fini(&solo.crew.watch);
    slowlog_fini(&solo.crew.slowlog);
}

void solo_teardown(void)
{
    if (solo.worker != NULL) {
        solo_stop();
    }
    settings_fini(&solo.settings);
}

static const struct conn_origin operators = {.transport = CONN_UNIX, .rights = RIGHTS_OPERATOR};

struct adoption {
    struct message m;
    int fd;
    const struct conn_origin *origin;
};

static void on_adopt(struct message *m, void *receiver)
{
    struct adoption *a = (struct adoption *)m;

    conn_adopt(receiver, a->fd, a->origin);
    free(a);
}

/* Hand the second end of a connection to the worker; returns the first, the client's. */
static int hand_over(const int fds[2], int sndbuf)
{
    struct adoption *a = calloc(1, sizeof(*a));
    struct timeval patience = {.tv_sec = PATIENCE_S};

    dialled[dial_count % DIALLED_MAX].fd = fds[0];
    dialled[dial_count++ % DIALLED_MAX].cookie = cookie_of(fds[0]);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (sndbuf > 0) {
        setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
    }
    a->m.fn = on_adopt;
    a->fd = fds[1];
    a->origin = solo.origin != NULL ? solo.origin : &operators;
    atomic_fetch_add(&solo.crew.conns_open, 1);
    atomic_fetch_add(&solo.crew.conns_local, 1);
    roster_add_conn(&solo.crew.roster, solo.worker->id);
    mailbox_post(&solo.worker->mailbox, &a->m);
    return fds[0];
}

int wire_dial(int sndbuf)
{
    int fds[2];

    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    return hand_over(fds, sndbuf);
}

int wire_dial_tcp(int *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int little = 1024;
    int fds[2];

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    ck_assert_int_eq(connect(fds[0], (struct sockaddr *)&at, sizeof(at)), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    ck_assert_int_ge(fds[1], 0);
    close(listener);
    *server = fds[1];
    return hand_over(fds, SMALL_SOCKET);
}

static int unsent(int server)
{
    int bytes = 0;

    ck_assert_int_eq(ioctl(server, SIOCOUTQ, &bytes), 0);
    return bytes;
}

size_t wire_take_little(int fd, int server, const char *v)
{
    int before = unsent(server);
    size_t n = 0;

    /* Its buffers grow again once the worker learns that there is room. */
    while (unsent(server) == before) {
        wire_expect_bytes(fd, v + n, 1);
        n++;
    }
    return n;
}

static void begin_errand(struct solo_errand *e, void (*fn)(struct message *, void *))
{
    e->m.fn = fn;
    sem_init(&e->is_done, 0, 0);
    sem_init(&e->may_go_on, 0, 0);
    mailbox_post(&solo.worker->mailbox, &e->m);
    while (sem_wait(&e->is_done) != 0) {
    }
}

static void (*to_run)(struct worker *w);

static void on_run(struct message *m, void *receiver)
{
    to_run(receiver);
    sem_post(&((struct solo_errand *)(void *)m)->is_done);
}

void solo_run(void (*fn)(struct worker *w))
{
    struct solo_errand e;

    to_run = fn;
    begin_errand(&e, on_run);
}

static void check_idle(struct worker *w)
{
    w->crew->duties->check_idle(w, worker_now(w));
}

void solo_check_idle(void)
{
    solo_run(check_idle);
}

static void on_check_pace(struct message *m, void *receiver)
{
    conn_duties.check_pace(receiver);
    sem_post(&((struct solo_errand *)(void *)m)->is_done);
}

void solo_check_pace(void)
{
    struct solo_errand e;

    begin_errand(&e, on_check_pace);
}

static void on_pause(struct message *m, void *receiver)
{
    struct solo_errand *e = (struct solo_errand *)(void *)m;

    (void)receiver;
    sem_post(&e->is_done);
    while (sem_wait(&e->may_go_on) != 0) {
    }
}

void solo_pause(struct solo_errand *e)
{
    begin_errand(e, on_pause);
}

void solo_resume(struct solo_errand *e)
{
    sem_post(&e->may_go_on);
}

uint64_t solo_counter(enum counter id)
{
    return ctr_get(&solo.worker->counters, id);
}

/* ---- the client's side ------------------------------------------------------------------- */

void wire_put(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);

        ck_assert_msg(done > 0, "send: %s", strerror(errno));
        bytes += done;
        n -= (size_t)done;
    }
}

void wire_put_increments(int fd, size_t count)
{
    static const char line[] = "incr n 1 noreply\r\n";
    static const char last[] = "version\r\n";
    size_t n = sizeof(line) - 1;
    char *lines = malloc(count * n + sizeof(last));

    for (size_t i = 0; i < count; i++) {
        memcpy(lines + i * n, line, n);
    }
    memcpy(lines + count * n, last, sizeof(last));
    wire_put(fd, lines, count * n + sizeof(last) - 1);
    free(lines);
}

void wire_say(int fd, const char *text)
{
    wire_put(fd, text, strlen(text));
}

void wire_get(int fd, char *to, size_t n)
{
    while (n > 0) {
        ssize_t done = recv(fd, to, n, 0);

        if (done < 0 && errno == EINTR) {
            continue; /* this process was stopped for a while: signal(7) */
        }
        ck_assert_msg(done > 0, "recv: %s, %zu bytes missing",
                      done == 0 ? "end" : strerror(errno), n);
        to += done;
        n -= (size_t)done;
    }
}

void wire_expect_bytes(int fd, const char *bytes, size_t n)
{
    char *got = malloc(n + 1);

    wire_get(fd, got, n);
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

void wire_expect(int fd, const char *text)
{
    wire_expect_bytes(fd, text, strlen(text));
}

void wire_expect_end(int fd)
{
    char c;

    ck_assert_int_eq(recv(fd, &c, 1, 0), 0);
}

char *wire_value(size_t n, unsigned owner)
{
    char *v = malloc(n + 1);

    for (size_t i = 0; i < n; i++) {
        v[i] = (char)('!' + (i * 7 + i / 251 + owner * 13) % 90);
    }
    v[n] = '\0';
    return v;
}

void wire_store(int fd, const char *key, const char *value, size_t n)
{
    char line[300];

    wire_put(fd, line, (size_t)snprintf(line, sizeof(line), "set %s 0 0 %zu\r\n", key, n));
    wire_put(fd, value, n);
    wire_say(fd, "\r\n");
    wire_expect(fd, "STORED\r\n");
}

void wire_expect_value(int fd, const char *key, const char *value, size_t n)
{
    char line[300];

    wire_expect_bytes(fd, line,
                      (size_t)snprintf(line, sizeof(line), "VALUE %s 0 %zu\r\n", key, n));
    wire_expect_bytes(fd, value, n);
    wire_expect(fd, "\r\n");
}
