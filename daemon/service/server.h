/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: creates and destroys everything; the root of ownership.
 *
 * daemon/service/ is the top folder below main.c: start and stop (server.[ch]), accepting
 * (listener.c), reloading and rewriting files while it runs (reconfigure.c), reloading
 * certificates (renewal.c), the process and its privileges (privs*.[ch], filter*.c,
 * landlock.c), the file that has the items (memory_file.c), upgrades to another program
 * (upgrade.c) and the connections inherited by it (welcome.c), the machine (host.c),
 * the service manager (notify.[ch], vigil.c), the load of the workers (balancer.c). It
 * passes callbacks to the folders below: conn_duties to the workers, stats_sources to
 * statistics. It may include every folder of daemon/, and lib.
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
 * and while it serves. Options that were set to a share of the machine follow changes.
 */

/* The machine's memory and CPUs when the number of an option was last refused. */
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
 * Log the numbers of options that were set to a share of the machine, and what does not fit, a
 * line for each. Context: main, before start.
 */
void host_log(const struct settings *settings);

/* Start checking the machine every few seconds. Context: main. */
void host_begin(struct server *s);

/* ---- upgrade.c --------------------------------------------------------------------------- */

/*
 * SIGUSR2, or the command upgrade: another program, or another version of this one, takes over
 * in place. The process stays the same, with its number. Listening sockets, items and
 * connections are kept (conn/conn_pass.c says which connections; others are closed as by a
 * stop). First the new program is *asked* whether it would start: it is run with --check-config
 * in a child process, inherits the open sockets, and reports whether it can read the format of
 * item blocks.
 */

/* Of the server. [main] */
struct upgrade {
    char path[PATH_MAX];   /* of this program, even if it was replaced by another file */
    char next[PATH_MAX];   /* of the program that is asked, and takes over */
    uv_process_t question; /* the program that is asked */
    uv_timer_t patience;   /* time limit of its answer */
    bool is_asked;
    uv_timer_t lull; /* wait for uploads to end, after the program agreed */
    uint64_t lull_until;
    struct passed_keys keys; /* of the users, if another program takes over */
    uint32_t conns_before;   /* connections when the server began to stop for the upgrade */
};

/*
 * Note how this program was started, and whether it has taken over from another, or continues
 * because the next program could not be executed.
 * Context: main, at the start.
 */
void upgrade_init(struct server *s);

/*
 * Ask the program with this path (empty: this program's), and if it agrees stop the server for
 * it. A refusal is logged, and nothing changes. Context: main.
 */
void upgrade_begin(struct server *s, const char *program);

/* Stop waiting for an answer. Context: main, before the last run of the loop. */
void upgrade_end(struct server *s);

/*
 * Take the live options that the previous program has passed on (options.h). tells: log
 * the result for each. Context: main, before anything is derived from the settings.
 */
void upgrade_take_live(struct settings *s, bool tells);

/*
 * The time until which the previous program keeps expired items (engine_config.hold_boot_ns);
 * 0: it does not. Context: main, before start.
 */
int64_t upgrade_hold_ns(const struct passed_on *passed);

/* The server stops: if it stops for an upgrade, note what is passed on. Context: main. */
void upgrade_note(struct server *s);

/* The server stops for good after all: connections are closed from now on. Context: main. */
void upgrade_give_up(struct server *s);

/* The workers have ended: log how many connections are passed on. Context: main. */
void upgrade_tell(const struct server *s);

/* The workers have ended, the engine still exists: note changed live options. Context: main. */
void upgrade_note_live(struct server *s);

/* Does the server stop for an upgrade? Context: main. */
bool upgrade_is_wanted(const struct server *s);

/*
 * Everything was released: execute the new program. Returns only on failure, an exit status.
 * Context: main.
 */
int upgrade_become(struct server *s);

/*
 * upgrade_is_asked(): is this program being asked by a running server? upgrade_knows_blocks():
 * can it read that server's blocks? If it agrees to take over it exits with UPGRADE_AGREES, a
 * status that other programs do not use. Context: main.
 */
#define UPGRADE_AGREES 42
bool upgrade_is_asked(void);
bool upgrade_knows_blocks(void);

/* Is this file of items (memory_file_name()) that of the asking program? True if none asks. */
bool upgrade_has_items(const char *memory);

/*
 * Could a server with this limit, and this number of shards at its start, take over the items
 * of the asking program? True if none asks. Context: main.
 */
bool upgrade_has_room(uint64_t limit_bytes, uint32_t shards);

/* ---- welcome.c --------------------------------------------------------------------------- */

/*
 * Connections inherited from the previous program (upgrade.c). Each is served like an accepted
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
    struct late_ask handover; /* the request for that failover */
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

/* Begin to stop, so that another program takes over (upgrade.c). Context: main. */
void server_stop_for_upgrade(struct server *s);

/* ---- server_check.c ---------------------------------------------------------------------- */

/*
 * Checks whether a start would succeed, as far as possible without acquiring anything from the
 * system.
 */

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
 * another program asks (upgrade.c), it also binds briefly the addresses that the other does not
 * have yet, and prints no "ok". Returns the exit status of the first error, or 0. Context:
 * main, instead of a start.
 */
int server_check(struct settings *settings);

/* ---- listener.c -------------------------------------------------------------------------- */

/*
 * Listening sockets. They are created before privileges are dropped. The main thread accepts
 * connections and assigns each to the worker with the fewest. Only this module knows the limit
 * on connections (-c) and what to do when descriptors run out.
 */

/*
 * Check whether all that the settings ask for could be opened beside the running program, whose
 * sockets were shown (passed_on.h): new addresses are bound briefly, also those of metrics.
 * Returns 0, or the exit status after a message. Context: main, instead of a start.
 */
int listeners_check(const struct settings *settings);

/* Call fn with each socket, one for each address of UDP. Context: main, while it serves. */
void listeners_each_socket(const struct server *s, void (*fn)(void *arg, int fd), void *arg);

/*
 * Bind and listen on everything the settings ask for, or take over the sockets that a service
 * manager passed (LISTEN_FDS). On success s->listeners is set. Returns 0, or the exit status
 * after a message was written. Context: main, before start.
 */
int listeners_open(struct server *s);

/*
 * Warn of rules of --access for listeners that do not exist: their author meant to restrict
 * clients. Context: main, after listeners_open(), before listeners_close().
 */
void listeners_check_rules(struct server *s);

/*
 * Write the names of all sockets for clients, each after a space, as far as there is room;
 * those that share an address once. Context: main.
 */
void listeners_describe(const struct server *s, char *out, size_t size);

/* Begin to accept. Returns 0 or a libuv error. Context: main, the workers run. */
int listeners_accept(struct server *s);

/*
 * What a connection that was accepted by another program inherits here: the origin of the
 * listener at its address, of this kind; NULL: there is none. Context: main.
 */
const struct conn_origin *listeners_find(const struct server *s, int fd, uint8_t transport,
                                         bool is_control);

/*
 * May another connection of this origin be accepted? Context: main, after listeners_accept().
 */
bool listeners_have_place(const struct server *s, const struct conn_origin *origin);

/*
 * A connection closed, or descriptors may be free again: accept if that was paused. Context:
 * main.
 */
void listeners_resume(struct server *s);

/*
 * Pass the sockets, with the connections that wait to be accepted, on to another program
 * (passed_on.h). Context: main, before listeners_close().
 */
void listeners_pass_on(struct server *s);

/*
 * Stop accepting and close the sockets; the file of a unix socket is removed. What was accepted
 * is with the workers when this returns. Accepts NULL listeners. Context: main.
 */
void listeners_close(struct server *s);

/*
 * Release what listeners_close() left, once the loop has let go of the handles. Context: main.
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
 * Note the ports to which a replica can connect: listeners for balancers are not among them,
 * because connections there begin with a header.
 */
void listener_list_note_ports(const struct socket_list *list, struct crew *crew);

/*
 * Give each socket where a replica may come in a second origin, of places beyond -c. Returns
 * them, owned by the caller, which are to last as long as connections; NULL: no memory, which
 * was logged.
 */
struct conn_origin *listener_list_make_beyond(struct socket_list *list,
                                              const struct settings *settings);

/* Log options that have no effect because there is no listener for them. */
void listener_list_warn(const struct socket_list *list, const struct settings *settings);

/* ---- memory_file.c ----------------------------------------------------------------------- */

/*
 * The file that has the items (memory_file), so that they outlive a restart. The operator names
 * it, or (fdstore) it has no name and the service manager keeps its descriptor.
 * lib/engine/attach.h defines the file and when it is used. This module adds messages and exit
 * statuses.
 */

/* Is it a relative path? Context: any thread. */
bool memory_file_is_relative(const struct settings *set);

/*
 * Write an identifier of a file that does not depend on its path: the file of a descriptor, or
 * (fd < 0) the one that would be opened; "fdstore" for the file without a name. Context: main.
 */
#define MEMORY_FILE_NAME_BYTES 48
void memory_file_name(const struct settings *set, int fd, char out[MEMORY_FILE_NAME_BYTES]);

/*
 * Would a start get the file? Makes none, and leaves one that is in use alone. Returns 0, or
 * the exit status after a message. Context: main, as the user that the server runs as.
 */
int memory_file_check(const struct settings *set);

/*
 * Open the file, if the settings have one, and lock it. Returns 0 or an exit status.
 * Context: main, before the engine starts, as the user that the server runs as.
 */
int memory_file_open(struct server *s);

/*
 * Log the result of the take-over. From now on the process ends with EX_IOERR if it loses
 * pages. Context: main, the engine runs.
 */
void memory_file_tell(struct server *s);

/* Close it, and log whether the next start can use it. Context: main, after the engine. */
void memory_file_close(struct server *s);

/* ---- reconfigure.c ----------------------------------------------------------------------- */

/*
 * Reloading files of options and of access, and rewriting files of options, for SIGHUP and for
 * `config reload` and `config rewrite`. Main reads files and computes their new content. A
 * separate thread writes them, because a disk may be slow, and main has to accept connections
 * and notify the service manager that the server is alive.
 *
 * One rewrite runs at a time. Requests that come meanwhile get the answer of the next one,
 * which writes the values of that time.
 */

/*
 * Prepare for it. Returns 0, or the exit status after a message was written. Context: main,
 * signals are blocked.
 */
int reconfigure_start(struct server *s);

/*
 * Read again what can change while the server runs (SIGHUP): options, users and rules at once,
 * and the certificates of TLS soon. A file that cannot be used is logged, and what was loaded
 * before stays in use. Context: main.
 */
void reconfigure_reload(struct server *s);

/* Takes a struct main_ask, for struct crew. Context: main. */
void reconfigure_on_ask(struct message *m, void *receiver);

/*
 * Answer waiting requests, and stop the thread. Later requests are not answered. May be called
 * if it was never started. Context: main, the workers still take messages.
 */
void reconfigure_stop(struct server *s);

/* Release it, after the last run of main's loop. Context: main. */
void reconfigure_destroy(struct server *s);

/* ---- renewal.c --------------------------------------------------------------------------- */

/*
 * Reloading certificates, for refresh_certs and SIGHUP. Any client may request it at any rate,
 * and reading files and checking keys takes milliseconds. So a separate thread does it, one
 * load at a time, and at most one in RENEWAL_LOAD_MS. Requests that come meanwhile get the
 * answer of the next load, because the present one may have read the files before they changed.
 */

/*
 * From the beginning of one load to that of the next, milliseconds; and the same after one that
 * found the files unchanged.
 */
#define RENEWAL_LOAD_MS 1000
#define RENEWAL_LOOK_MS 100

/*
 * Prepare for it; without TLS nothing happens. Returns 0, or the exit status after a message
 * was written. Context: main, signals are blocked.
 */
int renewal_start(struct server *s);

/* Load soon, and log how it ended. Context: main, TLS is on. */
void renewal_want(struct server *s);

/* Load the certificates again and answer; TLS is on. Context: main. */
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
 * replication_start(). The history continues if the items are those that were left with it. A
 * history that another version of this program left is unknown.
 */
int replicate_start(struct server *s);

/*
 * replication_stop(); the history is left in the file of items. False: what is here must be
 * neither left nor saved.
 */
bool replicate_stop(struct server *s);

/* Options have changed. Context: any thread. */
void replicate_on_options(struct crew *crew);

/*
 * The server is about to stop. Must a replica become the primary first (failover_on_stop), or
 * must replicas catch up, so that they can continue with the next process (memory_file)? If so,
 * returns true, and when_over is called with the server, in main's loop, when that has ended.
 * Only once: a second signal does not wait.
 */
bool replicate_hands_over(struct server *s, enum crew_stop how,
                          void (*when_over)(struct message *m, void *receiver));

#endif
