/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: creates and destroys all other objects, and owns them.
 *
 * daemon/service/ is the top folder below main.c: start and stop (server.[ch]), accepting
 * connections (listener.c), reloading and rewriting configuration files (reconfigure.c),
 * reloading certificates (renewal.c), the process and its privileges (privs*.[ch], filter*.c,
 * landlock.c), the memory file (memory_file.c), upgrades to another program (upgrade.c) and
 * the connections inherited by it (welcome.c), the machine (host.c), the service manager
 * (notify.[ch], vigil.c), and balancing the workers (balancer.c). It passes callbacks to the
 * folders below: conn_duties to the workers, stats_sources to statistics. It may include every
 * folder of daemon/, and lib.
 */
#ifndef MAYFLY_DAEMON_SERVICE_SERVER_H
#define MAYFLY_DAEMON_SERVICE_SERVER_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/net/passed_conns.h"
#include "daemon/net/passed_on.h"
#include "daemon/net/socket_list.h"
#include "daemon/options/settings.h"
#include "daemon/replica/replication.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/balance.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/roster.h"
#include "lib/base/buf.h"

struct server;

/* ---- host.c ------------------------------------------------------------------------------ */

/*
 * The memory and CPUs that the machine allows the server (daemon/base/machine.h), at the start
 * and while it serves. Options that are a share of the machine follow changes.
 */

/* The machine's memory and CPUs when an option's new value was last refused. */
struct host_refusal {
    bool is_there;
    uint32_t cpus;
    uint64_t memory;
};

struct host_watch {
    /* [main] */
    uv_timer_t timer;
    struct host_refusal refusals[2]; /* of memory_limit and threads */
};

/*
 * Log the values of options that are a share of the machine, and each one that does not fit.
 * Context: main, before start.
 */
void host_log(const struct settings *settings);

/* Start checking the machine every few seconds. Context: main. */
void host_begin(struct server *s);

/* ---- upgrade.c --------------------------------------------------------------------------- */

/*
 * SIGUSR2, or the command upgrade: another program, or another version of this one, takes over
 * in place. The process and its id stay the same. Listening sockets, items and connections are
 * kept (conn/conn_pass.c lists which connections; others are closed as by a stop). First the
 * new program is *asked* whether it would start: it runs with --check-config in a child
 * process, inherits the open sockets, and reports whether it can read the format of item
 * blocks.
 */

/* Part of the server. [main] */
struct upgrade {
    char path[PATH_MAX];   /* of the running program, even if the file was replaced */
    char next[PATH_MAX];   /* of the program that is asked and takes over */
    uv_process_t question; /* the program that is asked */
    uv_timer_t patience;   /* time limit of its answer */
    bool is_asked;
    uv_timer_t lull; /* wait for uploads to end, after the program has agreed */
    uint64_t lull_until;
    struct passed_keys keys; /* of the users, if another program takes over */
    uint32_t conns_before;   /* connections when the stop for the upgrade began */
};

/*
 * Record how this program was started, and whether it has taken over from another, or continues
 * because the next program could not be executed. Context: main, at the start.
 */
void upgrade_init(struct server *s);

/*
 * Ask the program with this path (empty: this program's path), and stop the server for it if it
 * agrees. A refusal is logged, and nothing changes. Context: main.
 */
void upgrade_begin(struct server *s, const char *program);

/* Stop waiting for an answer. Context: main, before the last run of the loop. */
void upgrade_end(struct server *s);

/*
 * Apply the live options that the previous program passed on (options.h). tells: log the result
 * for each. Context: main, before any value is derived from the settings.
 */
void upgrade_take_live(struct settings *s, bool tells);

/*
 * The time until which the previous program keeps expired items (engine_config.hold_boot_ns);
 * 0: no hold. Context: main, before start.
 */
int64_t upgrade_hold_ns(const struct passed_on *passed);

/* The server stops: if it stops for an upgrade, record what is passed on. Context: main. */
void upgrade_note(struct server *s);

/*
 * The upgrade is cancelled during the stop: connections are closed from now on. Context: main.
 */
void upgrade_give_up(struct server *s);

/* The workers have ended: log how many connections are passed on. Context: main. */
void upgrade_tell(const struct server *s);

/*
 * The workers have ended, the engine still exists: record changed live options. Context: main.
 */
void upgrade_note_live(struct server *s);

/* Is the server stopping for an upgrade? Context: main. */
bool upgrade_is_wanted(const struct server *s);

/*
 * All resources are released: execute the new program. Returns only on failure, with an exit
 * status. Context: main.
 */
int upgrade_become(struct server *s);

/*
 * upgrade_is_asked(): was this program started by a running server that asks? Then
 * upgrade_knows_blocks(): can it read that server's blocks? To agree, it exits with
 * UPGRADE_AGREES, a status that other programs do not use. Context: main.
 */
#define UPGRADE_AGREES 42
bool upgrade_is_asked(void);
bool upgrade_knows_blocks(void);

/* Is this memory file (memory_file_name()) that of the asking program? True if none asks. */
bool upgrade_has_items(const char *memory);

/*
 * Could a server with this limit, and this number of shards at its start, take over the items
 * of the asking program? True if none asks. Context: main.
 */
bool upgrade_has_room(uint64_t limit_bytes, uint32_t shards);

/* ---- welcome.c --------------------------------------------------------------------------- */

/*
 * Connections inherited from the previous program (upgrade.c). Each is served like an accepted
 * one if there is a listener for its address and -c allows it. Others are closed and counted in
 * a log line.
 */

/* Inherited connections that are not yet assigned to workers. All zero: none. [main] */
struct welcome {
    struct buf bytes;
    struct passed_reader reader; /* of their saved state */
    int *fds;                    /* owned, with the descriptors; -1: not a connection */
};

/*
 * Take over the inherited connections, and the keys of their logins. Context: main, before
 * users are read and before any program is started.
 */
void welcome_open(struct server *s);

/* Assign the connections to the workers. Context: main, the workers run. */
void welcome_all(struct server *s);

/* Close connections that were not assigned, after a failed start. Context: main. */
void welcome_close(struct server *s);

/* ---- balancer.c -------------------------------------------------------------------------- */

/*
 * Timer of the balance between workers (daemon/worker/balance.h). Each second main reads the
 * CPU clocks of the workers and orders an overloaded one to move connections. While none is
 * overloaded, no worker is woken.
 */

struct balancer {
    /* [main] */
    uv_timer_t timer;
    struct balance state;
    uint32_t weighing;     /* the worker that was ordered to measure its connections, or none */
    bool was_told_to_give; /* it was ordered a second ago to move some of them */
    uint64_t given;        /* connections that it had moved by then */
    uint64_t looked_ns;    /* when the clocks were read */
    uint32_t count;        /* number of workers whose clocks were read */
    uint64_t cpu_ns[WORKERS_MAX];
};

/* Start the timer. Context: main, once clients are served. */
void balancer_begin(struct server *s);

/* ---- vigil.c ----------------------------------------------------------------------------- */

/*
 * Keep-alive and status notifications to the service manager. Without a manager there is no
 * timer.
 *
 * The server is alive if main's loop runs and every worker has answered since the last
 * notification (worker.h). So a server with a stuck worker is restarted, a busy one is not.
 */

struct vigil {
    /* [main] */
    uv_timer_t timer;
    bool has_watchdog;
    uint64_t period_ms;
    uint64_t status_due_ms; /* by the loop's clock */
    uint64_t gets, hits;    /* at the last status line */
};

/* Start the timer. Context: main, once clients are served. */
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
    struct metrics *metrics;         /* owned; NULL: metrics are off */

    /* [main] */
    uv_loop_t loop;
    uv_signal_t signals[SERVER_SIGNALS];
    unsigned signal_count;
    sigset_t signal_mask; /* the caller's, while signals are blocked during start */
    int step;             /* how far the start has got, see server.c */
    enum crew_stop stopping;
    struct vigil vigil;
    struct balancer balancer;
    struct host_watch host_watch;
    struct welcome welcome;
    struct passed_on passed_on; /* settings point to it */
    struct upgrade upgrade;
    bool is_tls_abandoned;    /* a thread still uses the certificates: do not free them */
    bool is_started;          /* clients were served: a stop may save */
    enum crew_stop stop_next; /* how to stop when the failover at the stop has ended */
    struct late_ask handover; /* the request for that failover */
    bool has_handed_over;     /* the failover was requested */
    bool is_for_upgrade;      /* the stop is for another program to take over */
    bool is_draining;         /* the loop runs until the workers have drained */
};

/* The server a crew is part of. Context: any thread. */
static inline const struct server *server_of_crew(const struct crew *crew)
{
    return (const struct server *)(const void *)((const char *)crew -
                                                 offsetof(struct server, crew));
}

/* Was it told to stop? It may still be waiting for its replicas. Context: main. */
static inline bool server_was_told_to_stop(const struct server *s)
{
    return s->stopping != CREW_STOP_NONE || s->has_handed_over;
}

/*
 * Start everything in the order of "Start and stop" in DESIGN.md, serve until told to stop, and
 * release everything. Returns the exit status of the process. Context: main.
 */
int server_run(struct settings *settings);

/*
 * The same in three parts, for test programs. server_start() returns 0, or the exit status
 * after a failure; it has then logged a message and released everything. No client is served
 * before server_serve(), which returns when the server is asked to stop. server_stop() then
 * drains and releases everything. Context: main.
 */
int server_start(struct server *s, struct settings *settings);
void server_serve(struct server *s);
void server_stop(struct server *s);

/* Start to stop, so that another program takes over (upgrade.c). Context: main. */
void server_stop_for_upgrade(struct server *s);

/* ---- server_check.c ---------------------------------------------------------------------- */

/*
 * Checks whether a start would succeed, as far as that can be told without acquiring resources
 * from the system.
 */

/*
 * Is the number of shards (or of threads, if shards is not set) possible with -m? Returns 0, or
 * the exit status after a message. Context: main.
 */
int server_check_shards(const struct settings *settings);

/*
 * Open the log file, if there is one, by log_open_file(), or check by log_file_check() whether
 * it can be opened. Returns 0, or the exit status after a message. Context: main.
 */
int server_try_log(const struct settings *settings,
                   bool (*open)(const char *path, const char **why));

/*
 * --check-config: reads and resolves everything that a start does, in the same order and with
 * the same rights, so the process gives up root's rights like a start. Every error is reported,
 * or "ok" if there is none. Binds no address, asks no name server, creates no file and no
 * process. If a running server asks (upgrade.c), it briefly binds the addresses that the other
 * does not have yet, and prints no "ok". Returns the exit status of the first error, or 0.
 * Context: main, instead of a start.
 */
int server_check(struct settings *settings);

/* ---- listener.c -------------------------------------------------------------------------- */

/*
 * Listening sockets. They are created before privileges are dropped. The main thread accepts
 * connections and assigns each to the worker with the fewest. Only this module handles the
 * limit on connections (-c) and the lack of descriptors.
 */

/*
 * Check whether all sockets of the settings could be opened while the running program keeps its
 * own (passed_on.h): new addresses are bound briefly, including those of metrics.
 * Returns 0, or the exit status after a message. Context: main, instead of a start.
 */
int listeners_check(const struct settings *settings);

/* Call fn with each socket, one for each address of UDP. Context: main, while it serves. */
void listeners_each_socket(const struct server *s, void (*fn)(void *arg, int fd), void *arg);

/*
 * Bind and listen on all addresses of the settings, or take over the sockets that a service
 * manager passed (LISTEN_FDS). On success s->listeners is set. Returns 0, or the exit status
 * after a message was written. Context: main, before start.
 */
int listeners_open(struct server *s);

/*
 * Warn of rules of --access for listeners that do not exist, since they restrict no client.
 * Context: main, after listeners_open(), before listeners_close().
 */
void listeners_check_rules(struct server *s);

/*
 * Write the names of all sockets for clients, each preceded by a space, as far as there is
 * room. Sockets with the same address are named once. Context: main.
 */
void listeners_describe(const struct server *s, char *out, size_t size);

/* Start accepting. Returns 0 or a libuv error. Context: main, the workers run. */
int listeners_accept(struct server *s);

/*
 * The origin for a connection that another program accepted: that of the listener of this kind
 * at its address. NULL: no such listener. Context: main.
 */
const struct conn_origin *listeners_find(const struct server *s, int fd, uint8_t transport,
                                         bool is_control);

/*
 * May another connection with this origin be accepted? Context: main, after listeners_accept().
 */
bool listeners_have_place(const struct server *s, const struct conn_origin *origin);

/*
 * A connection was closed, or descriptors may be available again: resume accepting if it was
 * paused. Context: main.
 */
void listeners_resume(struct server *s);

/*
 * Pass the sockets, with their accept queues, on to another program (passed_on.h). Context:
 * main, before listeners_close().
 */
void listeners_pass_on(struct server *s);

/*
 * Stop accepting and close the sockets; the file of a unix socket is removed. When this
 * returns, the workers have all accepted connections. Accepts NULL listeners. Context: main.
 */
void listeners_close(struct server *s);

/*
 * Release the memory of the listeners, once the loop has closed their handles. Context: main.
 */
void listeners_destroy(struct server *s);

/*
 * struct stats_sources: each_listener(), count_listeners(). Context: any thread between accept
 * and close.
 */
void listeners_each(const struct crew *crew, stats_socket_fn fn, void *arg);
uint32_t listeners_count(const struct crew *crew);

/* ---- listener_list.c --------------------------------------------------------------------- */

/*
 * Checks and values derived from the listening sockets once they are open. Context: main,
 * before start.
 */

/*
 * Record the ports to which a replica can connect. Listeners for balancers are excluded,
 * because connections there begin with a header.
 */
void listener_list_note_ports(const struct socket_list *list, struct crew *crew);

/*
 * Give each socket to which a replica may connect a second origin, for connections beyond -c.
 * Returns the array of origins, owned by the caller, which must outlive all connections; NULL:
 * no memory, which was logged.
 */
struct conn_origin *listener_list_make_beyond(struct socket_list *list,
                                              const struct settings *settings);

/* Log options that have no effect because there is no listener for them. */
void listener_list_warn(const struct socket_list *list, const struct settings *settings);

/* ---- memory_file.c ----------------------------------------------------------------------- */

/*
 * The memory file (memory_file), which keeps the items across a restart. The operator names it,
 * or (fdstore) it has no name and the service manager keeps its descriptor. lib/engine/attach.h
 * defines its format and when it is used. This module adds messages and exit statuses.
 */

/* Is it a relative path? Context: any thread. */
bool memory_file_is_relative(const struct settings *set);

/*
 * Write an identifier of the memory file that does not depend on its path: of the open file fd,
 * or (fd < 0) of the one that would be opened; "fdstore" if it has no name. Context: main.
 */
#define MEMORY_FILE_NAME_BYTES 48
void memory_file_name(const struct settings *set, int fd, char out[MEMORY_FILE_NAME_BYTES]);

/*
 * Check whether a start could open and lock the file. Creates no file, and does not disturb one
 * in use. Returns 0, or the exit status after a message. Context: main, as the server's user.
 */
int memory_file_check(const struct settings *set);

/*
 * Open the file, if the settings have one, and lock it. Returns 0 or an exit status.
 * Context: main, before the engine starts, as the server's user.
 */
int memory_file_open(struct server *s);

/*
 * Log the result of the takeover. From now on the process exits with EX_IOERR if the file loses
 * pages. Context: main, the engine runs.
 */
void memory_file_tell(struct server *s);

/* Close it, and log whether the next start can use it. Context: main, after the engine. */
void memory_file_close(struct server *s);

/* ---- reconfigure.c ----------------------------------------------------------------------- */

/*
 * Reloading configuration, user and rule files, and rewriting configuration files, for SIGHUP,
 * `config reload` and `config rewrite`. Main reads files and computes their new content. A
 * separate thread writes them, so that a slow disk does not stop main from accepting
 * connections and from notifying the service manager.
 *
 * One rewrite runs at a time. Requests that arrive meanwhile are answered by the next rewrite,
 * which writes the values of that time.
 */

/*
 * Create the thread. Returns 0, or the exit status after a message. Context: main, signals are
 * blocked.
 */
int reconfigure_start(struct server *s);

/*
 * Reload everything that can change while the server runs (SIGHUP): options, users and rules at
 * once, and TLS certificates soon. If a file cannot be used, that is logged, and its previous
 * content stays in use. Context: main.
 */
void reconfigure_reload(struct server *s);

/* Takes a struct main_ask, for struct crew. Context: main. */
void reconfigure_on_ask(struct message *m, void *receiver);

/*
 * Answer waiting requests, and stop the thread. Later requests are not answered. May be called
 * if it was never started. Context: main, the workers still receive messages.
 */
void reconfigure_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void reconfigure_destroy(struct server *s);

/* ---- renewal.c --------------------------------------------------------------------------- */

/*
 * Reloading certificates, for refresh_certs and SIGHUP. Clients may request it at any rate, and
 * reading files and checking keys takes milliseconds. So a separate thread does it, one load at
 * a time, and at most one per RENEWAL_LOAD_MS. Requests that arrive meanwhile are answered by
 * the next load, because the running one may have read the files before they changed.
 */

/*
 * Minimum time from the start of one load to the start of the next, in milliseconds; the second
 * one applies if the files were unchanged.
 */
#define RENEWAL_LOAD_MS 1000
#define RENEWAL_LOOK_MS 100

/*
 * Create the thread; does nothing without TLS. Returns 0, or the exit status after a message.
 * Context: main, signals are blocked.
 */
int renewal_start(struct server *s);

/* Reload soon, and log the result. Context: main, TLS is on. */
void renewal_want(struct server *s);

/* Reload the certificates and answer; TLS is on. Context: main. */
void renewal_ask(struct server *s, struct main_ask *ask);

/*
 * Answer waiting requests, and stop the thread. Later requests are not answered. May be called
 * if it was never started. Context: main, the workers still take messages.
 */
void renewal_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void renewal_destroy(struct server *s);

/* ---- replicate.c ------------------------------------------------------------------------- */

/*
 * Starting and stopping replication (daemon/replica/replication.h). Context: main, unless it
 * says otherwise.
 */

/*
 * replication_start(). The history continues if the items in the memory file belong to it. A
 * history saved by another version of this program is not used.
 */
int replicate_start(struct server *s);

/*
 * replication_stop(); saves the history in the memory file. False: the items must be neither
 * left there nor saved in a snapshot.
 */
bool replicate_stop(struct server *s);

/* Options have changed. Context: any thread. */
void replicate_on_options(struct crew *crew);

/*
 * The server is about to stop. Must a replica become the primary first (failover_on_stop), or
 * must replicas catch up, so that they can continue with the next process (memory_file)? If so,
 * returns true, and calls when_over with the server, in main's loop, when that has ended.
 * Returns true only once: a second signal does not wait.
 */
bool replicate_hands_over(struct server *s, enum crew_stop how,
                          void (*when_over)(struct message *m, void *receiver));

#endif
