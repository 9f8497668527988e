/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker whose clients are socket pairs, for tests of connections: built from an engine and
 * a worker, without a listener. A function that cannot do its work fails the running test
 * instead of returning an error. Those that start and end the worker, and wire_dial(), end the
 * process instead, so that a program without Check's tests can call them.
 */
#ifndef MAYFLY_TESTS_DAEMON_CONN_SOLO_H
#define MAYFLY_TESTS_DAEMON_CONN_SOLO_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/origin.h"
#include "daemon/options/settings.h"
#include "daemon/replica/replication.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/worker.h"

#define MIB          (1u << 20)
#define SMALL_SOCKET 8192

extern struct solo {
    struct settings settings; /* may be changed while the worker is stopped */
    struct crew crew;
    struct stats_shared shared;
    struct replication replication; /* zeroed, unless the test starts it */
    struct worker *worker;          /* owned; NULL: it was released */
    /* [borrowed] of connections that are dialled from now on; NULL: an operator's */
    const struct conn_origin *origin;
} solo;

/* The fixture of each test: default settings, 64 MiB. */
void solo_setup(void);
void solo_teardown(void);

/*
 * One worker; with several shards it is one of as many to the engine. is_frozen: its clock
 * moves only by clock_advance(), and only solo_check_pace() checks for slow clients. The timers
 * use the machine's clock, and would check clients whenever the machine is late.
 */
void solo_start_with(uint64_t limit_bytes, uint32_t shards, bool is_frozen);
void solo_start(uint64_t limit_bytes);

/* The same fixture with a frozen clock, and a value of SOLO_LEN bytes, nearly a MiB. */
#define SOLO_LEN 1000000
extern char *solo_value;
void solo_setup_frozen(void);
void solo_teardown_frozen(void);

/* End it, after its clients have hung up; no connection may be left then. */
void solo_stop(void);

/* The same after worker_stop(). */
void solo_end(void);

/* A counter of the worker. */
uint64_t solo_counter(enum counter id);

/* Let the worker do something between two turns, and wait for it. */
struct solo_errand {
    struct message m;
    sem_t is_done;
    sem_t may_go_on;
};

/* Let the worker run a function, outside a section, and wait until it has. */
void solo_run(void (*fn)(struct worker *w));

/* Let the worker check for idle connections. */
void solo_check_idle(void);

/* Let the worker check for slow connections. */
void solo_check_pace(void);

/* Stop the worker until the test lets it continue. */
void solo_pause(struct solo_errand *e);
void solo_resume(struct solo_errand *e);

/* ---- the client's side ------------------------------------------------------------------- */

/*
 * A connection to the worker, which the end of the worker closes; the server's end takes
 * `sndbuf` bytes (0: as usual).
 */
int wire_dial(int sndbuf);

/*
 * The same over TCP, with small buffers at both ends, so that little is under way. *server: the
 * worker's descriptor, to look at only.
 */
int wire_dial_tcp(int *server);

/*
 * Read on, from v, until the worker's end sees that bytes were taken. How many were read; it
 * sees about as many.
 */
size_t wire_take_little(int fd, int server, const char *v);

void wire_put(int fd, const char *bytes, size_t n);

/* This number of requests that each add 1 to n, and one that is answered, in one call. */
void wire_put_increments(int fd, size_t count);
void wire_say(int fd, const char *text);

/* Read exactly n bytes; read what is expected; expect only the end. */
void wire_get(int fd, char *to, size_t n);
void wire_expect_bytes(int fd, const char *bytes, size_t n);
void wire_expect(int fd, const char *text);
void wire_expect_end(int fd);

/* A value of n bytes that depend on their place and the key; to be freed. */
char *wire_value(size_t n, unsigned owner);

/* Set a key; expect the VALUE block of a get. */
void wire_store(int fd, const char *key, const char *value, size_t n);
void wire_expect_value(int fd, const char *key, const char *value, size_t n);

#endif
