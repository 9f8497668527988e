/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: creates and destroys everything; the root of ownership.
 *
 * daemon/service/ is the top folder below main.c: start and stop (server.[ch]), accepting
 * (listener.[ch]), reloading and rewriting files while it runs (reconfigure.[ch]), reloading
 * certificates (renewal.[ch]), the process and its privileges (privs*.[ch], filter*.c,
 * landlock.c), the file that has the items (memory_file.[ch]), upgrades to another program
 * (upgrade.[ch]) and the connections inherited by it (welcome.c), the machine (host.[ch]),
 * the service manager (notify.[ch], vigil.c), the load of the workers (balancer.c). It
 * passes callbacks to the folders below: conn_duties to the workers, stats_sources to
 * statistics. It may include every folder of daemon/, and lib.
 */
#ifndef MAYFLY_DAEMON_SERVICE_SERVER_H
#define MAYFLY_DAEMON_SERVICE_SERVER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/net/passed_conns.h"
#include "daemon/net/passed_on.h"
#include "daemon/options/settings.h"
#include "daemon/replica/replication.h"
#include "daemon/service/host.h"
#include "daemon/service/upgrade.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/balance.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/roster.h"
#include "lib/base/buf.h"

struct listeners;
struct metrics;
struct reconfigure;
struct renewal;
struct server;

/* ---- welcome.c --------------------------------------------------------------------------- */

/*
 * Connections inherited from the previous program (upgrade.h). Each is served like an accepted
 * one, if there is a listener at its address and a place. Others are closed, and counted in a
 * line of the log.
 */

/* What was passed and not given to the workers yet. Zeroed storage: nothing. [main] */
struct welcome {
    struct buf bytes;
    struct passed_reader reader; /* of these */
    int *fds;                    /* owned, and so are they; -1: it was no connection */
};

/*
 * Take what was passed, and the keys of its logins. Context: main, before users are read and
 * before any program is started.
 */
void welcome_open(struct server *s);

/* Deal the connections to the workers. Context: main, the workers run. */
void welcome_all(struct server *s);

/* Close what is left, after a failed start. Context: main. */
void welcome_close(struct server *s);

/* ---- balancer.c -------------------------------------------------------------------------- */

/*
 * The timer of the balance between workers (daemon/worker/balance.h). Main reads the CPU clocks
 * of the workers each second, and gives orders to a hot one. While none is hot, no worker is
 * woken.
 */

struct balancer {
    /* [main] */
    uv_timer_t timer;
    struct balance state;
    uint32_t weighing;     /* the worker that was ordered to measure its connections, or none */
    bool was_told_to_give; /* it was ordered to give some away a second ago */
    uint64_t given;        /* connections that it had given away by then */
    uint64_t looked_ns;    /* when the clocks were read */
    uint32_t count;        /* number of workers whose clocks were read */
    uint64_t cpu_ns[WORKERS_MAX];
};

/* Begin, now that clients are served. Context: main. */
void balancer_begin(struct server *s);

/* ---- vigil.c ----------------------------------------------------------------------------- */

/*
 * Notifies the service manager while the server runs: that it is alive, if the manager has a
 * watchdog, and a line of status. Without a manager there is no timer.
 *
 * The server is alive if main's loop turns and every worker has answered since the last notice
 * (worker.h). So a server with a stuck worker is restarted, and a busy one is not.
 */

struct vigil {
    /* [main] */
    uv_timer_t timer;
    bool has_watchdog;
    uint64_t period_ms;
    uint64_t status_due_ms; /* by the loop's clock */
    uint64_t gets, hits;    /* at the last status line */
};

/* Begin, now that clients are served. Context: main. */
void vigil_begin(struct server *s);

/* ---- the server -------------------------------------------------------------------------- */

#define SERVER_SIGNALS 5

struct server {
    struct crew crew; /* what the workers share */
    struct stats_shared stats;
    struct replication replication;

    struct listeners *listeners; /* owned; what it listens on is const, the rest is [main] */

    struct reconfigure *reconfigure; /* owned */
    struct renewal *renewal;         /* owned; NULL: TLS is off */
    struct metrics *metrics;         /* owned; NULL: none are asked for */

    /* [main] */
    uv_loop_t loop;
    uv_signal_t signals[SERVER_SIGNALS];
    unsigned signal_count;
    sigset_t signal_mask; /* the caller's, while signals are blocked during start */
    int step;             /* how far the start came, see server.c */
    enum crew_stop stopping;
    struct vigil vigil;
    struct balancer balancer;
    struct host_watch host_watch;
    struct welcome welcome;
    struct passed_on passed_on; /* settings point to it */
    struct upgrade upgrade;
    bool is_tls_abandoned;    /* a thread still uses the certificates: they stay */
    bool is_started;          /* it has served: a stop may save */
    enum crew_stop stop_next; /* how it stops when the failover at the stop has ended */
    struct repl_ask handover; /* the request for that failover */
    bool has_handed_over;     /* the failover was requested */
    bool is_for_upgrade;      /* it stops so that another program takes over */
    bool is_draining;         /* the loop runs until the workers have drained */
};

/* The server a crew is part of. Context: any thread. */
static inline const struct server *server_of_crew(const struct crew *crew)
{
    return (const struct server *)(const void *)((const char *)crew -
                                                 offsetof(struct server, crew));
}

/* Was it told to stop? It may still wait for its replicas. Context: main. */
static inline bool server_was_told_to_stop(const struct server *s)
{
    return s->stopping != CREW_STOP_NONE || s->has_handed_over;
}

/*
 * Start everything in the order of "Start and stop" in DESIGN.md, serve until told to stop, and
 * take everything down. Returns the process's exit status. Context: main.
 */
int server_run(struct settings *settings);

/*
 * The same in three parts, for test programs. server_start() returns 0, or the exit status
 * after a failure; a message was then written, and everything released. No client is served
 * before server_serve(), which returns when the server is asked to stop. server_stop() then
 * drains and releases everything. Context: main.
 */
int server_start(struct server *s, struct settings *settings);
void server_serve(struct server *s);
void server_stop(struct server *s);

/* Begin to stop, so that another program takes over (upgrade.h). Context: main. */
void server_stop_for_upgrade(struct server *s);

/* ---- server_check.c ---------------------------------------------------------------------- */

/*
 * Checks whether a start would succeed, as far as possible without acquiring anything from the
 * system.
 */

struct settings;

/*
 * Does the number of shards (or of threads, if it is not set) suit -m? Returns 0, or the exit
 * status after a message. Context: main.
 */
int server_check_shards(const struct settings *settings);

/*
 * Open the file of the log, if there is one, by log_open_file(), or see by log_file_check()
 * whether that can be done. Returns 0, or the exit status after a message. Context: main.
 */
int server_try_log(const struct settings *settings,
                   bool (*open)(const char *path, const char **why));

/*
 * --check-config: reads and resolves all that a start does, in the same order and with the same
 * rights, so the process gives up root's rights like a start. Every error is reported, or "ok"
 * if there is none. Binds no address, asks no name server, makes no file and no process. If
 * another program asks (upgrade.h), it also binds briefly the addresses that the other does not
 * have yet, and prints no "ok". Returns the exit status of the first error, or 0. Context:
 * main, instead of a start.
 */
int server_check(struct settings *settings);

#endif
