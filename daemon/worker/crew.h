/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The crew: all workers of the process and what they share. Code below the server finds the
 * process's state here: settings, engine, certificates, users, and the counters and mailbox of
 * the main thread.
 *
 * daemon/worker/ is the folder of threads: a worker's loop and mailbox (worker.[ch]), its
 * timers and the upkeep of its home shard (cron.c), the events it logs for watchers
 * (watch*.[ch]), its measurements of requests (insight.h, latency.c, slowlog.[ch]), the
 * watchdog of its loop (pulse.c), and all workers together (crew.[ch]). It does not depend on
 * connections, commands, statistics or replication: their work on a worker's thread is called
 * through a table of functions, crew->duties, which the server fills in. It includes itself,
 * persist, access, net, options, base and lib. Options are changed only through live.c.
 */
#ifndef MAYFLY_DAEMON_WORKER_CREW_H
#define MAYFLY_DAEMON_WORKER_CREW_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/access/access.h"
#include "daemon/access/gate.h"
#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "daemon/net/origin.h"
#include "daemon/net/passed_conns.h"
#include "daemon/net/tls.h"
#include "daemon/options/options_live.h"
#include "daemon/options/settings.h"
#include "daemon/persist/exports.h"
#include "daemon/persist/snapshots.h"
#include "daemon/worker/roster.h"
#include "daemon/worker/slowlog.h"
#include "daemon/worker/upload_line.h"
#include "daemon/worker/watch.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "lib/base/counters.h"
#include "lib/engine/attach.h"
#include "lib/engine/engine.h"
#include "lib/engine/reshard_state.h"

/* ---- handover.c -------------------------------------------------------------------------- */

/*
 * The progress of another program's takeover (service/upgrade.c): main records it, and the
 * client that asked can read it.
 */

#define HANDOVER_WHY_BYTES 256

enum handover_state {
    HANDOVER_NONE,      /* not requested */
    HANDOVER_ASKED,     /* a program is asked whether it would start */
    HANDOVER_UNDER_WAY, /* it would: the server stops for it */
    HANDOVER_REFUSED,   /* it would not, or cannot be asked */
    HANDOVER_DONE,      /* this is the program that took over */
};

struct handover {
    pthread_mutex_t mutex; /* the rest is under it; a leaf */
    enum handover_state state;
    char why[HANDOVER_WHY_BYTES]; /* it was refused; cut where it is longer; else "" */
};

/* Context: main, before start. */
void handover_init(struct handover *h, enum handover_state state);

/* Set the state; why: NULL except for a refusal. Context: main. */
void handover_tell(struct handover *h, enum handover_state state, const char *why);

/* Its state, and a copy of why. Context: any thread. */
enum handover_state handover_look(struct handover *h, char why[HANDOVER_WHY_BYTES]);

/* none, asked, under-way, refused, done. */
const char *handover_text(enum handover_state state);

/* ---- live.c ------------------------------------------------------------------------------ */

/*
 * Changes of options of the running server, by `config` or by reloading the file. Several
 * options are changed together, all or none, one such change at a time. Options that need more
 * than a store are handled here: the engine must accept the memory limit, descriptors must
 * suffice, and threads that computed their sleep from an old value are woken.
 */

/* Options that one change may name. */
#define LIVE_CHANGES_MAX 128u

struct live {
    pthread_mutex_t lock;  /* serializes changes of options; main makes shards while it holds
                              it */
    struct settings given; /* [lock] live options as files and command line gave them last */
};

/* An option and its new value as a user types it. */
struct live_change {
    enum option_id id;
    const char *value; /* [borrowed] */
};

/* Why nothing was changed. */
struct live_refusal {
    enum option_id id;
    char why[OPTION_TEXT_BYTES];
};

/*
 * Record the present settings as the values of files and command line. Call it once, before the
 * workers run. Context: main.
 */
void live_init(struct crew *crew);

/*
 * May only main change one of these? That is so if workers or shards are made or notified, or
 * threads pinned.
 */
bool live_is_for_main(const enum option_id *ids, unsigned count);

/*
 * Change options, all or none of them. On failure returns false and describes the option that
 * cannot be changed in *refusal. Context: worker or main, as live_is_for_main() says, outside a
 * section.
 */
bool live_set(struct crew *crew, const struct live_change *changes, unsigned count,
              struct live_refusal *refusal);

/*
 * Reset these options to the values that files and command line gave at the start, or when they
 * were last read. Returns as live_set(). Context: as above.
 */
bool live_reset(struct crew *crew, const enum option_id *ids, unsigned count,
                struct live_refusal *refusal);

/*
 * The machine has changed (machine_look()): recompute the number of an option that is set to a
 * share of the machine. *is_new: the number has changed. Returns as live_set(). Context: main.
 */
bool live_follow(struct crew *crew, enum option_id id, bool *is_new,
                 struct live_refusal *refusal);

/*
 * Files were reread: apply options whose values in the files have changed. Other options keep
 * their values, even if config set has changed them. Fills ids
 * (OPTION_COUNT) and *count with the applied options. Returns as live_set(). Context: main.
 */
bool live_take(struct crew *crew, const struct settings *fresh, enum option_id *ids,
               unsigned *count, struct live_refusal *refusal);

/*
 * The files were rewritten and now have these values. Changes only the values to which
 * live_reset() resets. Context: main.
 */
void live_note_given(struct crew *crew, const struct settings *given);

/* Copy the values of all live options, consistently. Context: as above. */
void live_copy(struct crew *crew, struct settings *out);

/*
 * Append the live options that another process needs (options.h). Returns false without
 * memory. Context: main.
 */
bool live_pass(struct crew *crew, struct buf *out);

/*
 * A cancelled move of items has ended: set the option shards to the number of shards that have
 * items. So the option has the wanted number, also when it is saved (config rewrite, an
 * upgrade). Context: main.
 */
void live_note_cancel(struct crew *crew);

/*
 * Change only the memory limit (cache_memlimit). False: it is not possible. Context: as above.
 */
bool live_set_limit(struct crew *crew, uint64_t bytes);

/* ---- moving.c ---------------------------------------------------------------------------- */

/*
 * Figures of all moves while the server serves: of workers whose number changes (roster.h), of
 * their connections, and of items that go to other shards (lib/reshard/reshard.h). Moves of
 * items are also logged.
 */

struct moving_info {
    uint32_t threads_created, threads_active, threads_wanted, threads_leaving;
    uint32_t conns_moving;
    uint64_t conns_moved;
    struct reshard_info shards;
    const char *state;     /* idle, moving, waiting, cancelled */
    const char *waits_for; /* walk, room, none */
    bool is_under_way;     /* a move of items is not complete */
    int64_t left_ms;       /* about; 0: nothing is under way; -1: not known */
};

/* State of the log messages about moves; under the mutex of struct reshard. */
struct moving {
    bool has_told_full;   /* that there was no room */
    uint32_t full_slots;  /* how many slots were moved by then */
    uint32_t full_wanted; /* to how many shards */
};

/*
 * Start or stop logging each change of the state of a move. Context: main, while the engine
 * runs.
 */
void moving_log(struct crew *crew);
void moving_log_end(struct crew *crew);

/* Context: any thread, outside a section. */
void moving_look(struct crew *crew, struct moving_info *info);

/* ---- crew.c ------------------------------------------------------------------------------ */

/*
 * Callbacks to the folders above for their work on a worker's thread. All: context worker,
 * outside a read-side section.
 */
struct worker_duties {
    /*
     * begin(): allocate the worker's data of the folders above; end(): release it. begin()
     * returns false without memory; end() is not called then.
     */
    bool (*begin)(struct worker *w);
    void (*end)(struct worker *w);

    /* Serve the connections whose input was read (conn_execute.h). */
    void (*serve_round)(struct worker *w);

    /* Serve those that yielded, one turn each. */
    void (*serve_ready)(struct worker *w);

    /* Send the lines in the rings of watchers. */
    void (*serve_watchers)(struct worker *w);

    /* Retry the stores that wait for room: all, or those whose turn has come. */
    void (*retry_waiting)(struct worker *w, bool all);

    /* The log is on the disk up to some point: release replies that waited for it. */
    void (*release_held)(struct worker *w);

    /* The users were reloaded: disconnect clients whose users were removed. */
    void (*doubt_logins)(struct worker *w);

    /* Close connections of ordinary clients, so that they find another server. */
    void (*close_clients)(struct worker *w);

    /* Options may have changed: update state that depends on the old values. */
    void (*options_changed)(struct worker *w);

    /* Close connections whose handshake or login takes too long. */
    void (*check_deadlines)(struct worker *w);

    /* Check the clients that hold memory for those that are too slow. */
    void (*check_pace)(struct worker *w);

    /* Close connections that keep too much, if all workers together exceed the limit. */
    void (*shed)(struct worker *w);

    /* Close connections that have been idle for too long. */
    void (*check_idle)(struct worker *w, msec_t now);

    /*
     * The number of active workers has changed (begin_deal()). From then on, each time before
     * the loop blocks, move connections and sockets that belong to other workers (roster.h).
     * give_conns() moves some; true: more can be moved at once.
     */
    void (*begin_deal)(struct worker *w);
    bool (*give_conns)(struct worker *w);
    void (*give_datagrams)(struct worker *w);
    bool (*has_datagrams)(const struct worker *w);

    /*
     * obey_balance(): carry out the decision of balance.h for this worker. balance(): called
     * before the loop blocks while DEALS_WEIGHED is set; measures the work of connections in
     * the next turn, or moves some that were chosen. True: more can be moved at once.
     */
    void (*obey_balance)(struct worker *w, const struct balance_order *order);
    bool (*balance)(struct worker *w);

    /* The worker stops: let every connection finish what is in flight, then close it. */
    void (*drain)(struct worker *w);

    /* The worker stops: continue by its phase, close connections that are no longer needed. */
    void (*check_drain)(struct worker *w);

    /* The worker stops: close its datagram sockets. */
    void (*close_datagrams)(struct worker *w);
};

/* A request of a client to main. */
enum main_wish { MAIN_LOADS_CERTS, CONFIG_RELOAD, CONFIG_REWRITE, CONFIG_CHANGE };

/*
 * A client that waits for certificates to be reloaded, for files of options to be read or
 * written, or for options to be changed: the request to main, and its answer. On the heap, as
 * the first member of the state of the client's command. Main releases it if the workers have
 * ended when it comes.
 */
struct main_ask {
    struct message message; /* [const] main's, see crew_ask_main() */
    struct message answer;  /* the answer; the caller sets its fn */
    struct mailbox *to;     /* [borrowed] receives the answer */
    struct list_link link;  /* [main] */
    enum main_wish wish;
    bool is_loaded; /* certificates: the files are now in use; else `why` has the reason */
    char why[TLS_WHY_BYTES];
    struct span args; /* [const] in the same block: the words after `config` */
    bool noreply;     /* [const] */
    struct buf reply; /* owned, by the thread that has the ask: all lines of the answer */
    bool is_composed; /* there was memory for it */
};

/* How to stop; a later value in this list overrides an earlier one. */
enum crew_stop {
    CREW_STOP_NONE,
    CREW_STOP_GRACEFUL, /* stop accepting, wait for the clients to leave */
    CREW_STOP_SOON,     /* finish what is in flight, within 2 s */
};

/* Does a stop save a snapshot? */
enum crew_save { CREW_SAVE_AS_SET /* save_on_stop */, CREW_SAVE_YES, CREW_SAVE_NO };

/*
 * Prepare the change of a live option to its value in `wanted`. False: the change is
 * impossible, with the reason in why (OPTION_TEXT_BYTES). Context: worker or main.
 */
typedef bool (*crew_prepare_fn)(struct crew *crew, const struct settings *wanted,
                                enum option_id id, char *why);

struct crew {
    /* [const] while workers run */
    struct settings *settings; /* [borrowed] only its LIVE fields change */
    struct engine engine;
    struct worker *workers;             /* owned; WORKERS_MAX places, see roster_created() */
    const struct worker_duties *duties; /* [borrowed] */
    struct stats_shared *stats;         /* [borrowed] what workers share of daemon/stats */
    struct replication *replication;    /* [borrowed] the role, and the replicas */
    struct tls *tls;                    /* owned by the server; NULL: -Z was not given */
    struct access access;
    struct watch watch;
    struct slowlog slowlog;
    struct exports exports;     /* its functions are for any thread */
    struct guard restored;      /* of the connection `restorer` */
    struct snapshots snapshots; /* its functions are for any thread */
    struct attach attach;       /* with memory_file: [const] while the workers run */

    /* any thread posts, main takes; fn of the notices is the server's */
    struct mailbox main_mailbox;
    struct notice stop;
    struct notice upgrade;
    struct handover handover;       /* its functions are for any thread */
    char upgrade_program[PATH_MAX]; /* given with the request; empty: the path of this
                                       program */
    struct notice room;
    struct notice cancelled;        /* a move of items has ended that was cancelled */
    crew_prepare_fn prepare_option; /* [const] the server's, or NULL */
    void (*on_options)(
        struct crew *crew); /* [const] they have changed; the server's, or NULL */
    struct live live;       /* serializes changes of options */
    void (*on_ask)(struct message *m, void *receiver); /* [const] the server's */
    struct message drained_message; /* posted by the last worker that is drained */

    struct roster roster; /* assigns work to workers; its functions are for any thread */
    struct moving moving; /* state for logging moves */

    /*
     * [atomic] Number of times that the workers were told to recheck logins, or to close
     * clients. A connection that was moving between workers at that time compares it to detect
     * that it missed one.
     */
    _Atomic uint32_t doubts;
    _Atomic uint32_t farewells;
    _Atomic uint32_t full_syncs; /* [atomic] number of full syncs that this server has begun */

    /* [atomic] */
    struct gate gate;               /* conditions for all requests */
    struct counters counters;       /* set MAIN */
    _Atomic uint32_t conns_open;    /* accepted and not closed, for -c */
    _Atomic uint32_t conns_local;   /* those of them over unix sockets for clients */
    _Atomic uint32_t conns_control; /* those of them over the control socket */
    _Atomic uint32_t conns_beyond;  /* those of them that are replicas, or are about to be */
    _Atomic(const void *) restorer; /* the client that restores older items; NULL: none */
    _Atomic int64_t held_bytes;     /* bytes kept for connections, see holders.h */
    _Atomic int64_t upload_bytes;   /* bytes held by uploads (conn_upload.c) */
    struct upload_line uploads;     /* uploads that have reached the bound of these bytes */
    _Atomic bool wants_room;        /* main waits for a close (seq_cst, with conns_open) */
    _Atomic uint32_t stop_wanted;   /* enum crew_stop */
    _Atomic uint32_t save_wanted;   /* enum crew_save */
    _Atomic uint32_t port;     /* of the first TCP socket for clients without TLS; 0: none */
    _Atomic uint32_t tls_port; /* the same with TLS */
    _Atomic bool is_accepting;
    _Atomic bool passes_conns;      /* connections are passed on to the next program */
    _Atomic uint32_t latency_epoch; /* raised by each reset of latencies */
    _Atomic uint32_t undrained;     /* workers that have connections, while the crew drains */

    struct passed_conns passed; /* connections that were passed on; has a lock */
    uint32_t numbers_kept;      /* [const] while the crew drains: low numbers of descriptors
                                 * that no connection may take along */
    /* [main] */
    bool is_draining; /* crew_drain() was called */
    bool is_hurried;  /* crew_hurry() was called */
    uint32_t homes;   /* shards that have a home: see shards.c */
};

/*
 * Create the workers of -t and start their threads. Returns 0, or logs a message, releases them
 * and returns the exit status. Context: main, the engine runs, signals are blocked.
 */
int crew_start(struct crew *crew);

/*
 * Create workers until there are `count`; new ones are parked. On failure returns false with
 * the reason in `why` (OPTION_TEXT_BYTES), and nothing has changed. Context: main, while the
 * crew serves.
 */
bool crew_have_workers(struct crew *crew, uint32_t count, char *why);

/*
 * Let the first `count` of the existing workers serve from now on, and notify all workers.
 * Context: main, while the crew serves.
 */
void crew_set_active(struct crew *crew, uint32_t count);

/*
 * Start to drain all workers: they finish requests in flight, which takes at most
 * WORKER_DRAIN_MS. The last one that is done posts drained_message, if its fn is set. Context:
 * main.
 */
void crew_drain(struct crew *crew);

/* While the crew drains: close the remaining connections at once. Context: main. */
void crew_hurry(struct crew *crew);

/* A worker has no connections left while the crew drains. Context: worker. */
void crew_worker_drained(struct crew *crew);

/*
 * Take all workers down; see worker.h. It waits for those that still drain. When all
 * connections are closed, and before the loops end, the threads that may still post to workers
 * (access) are stopped. Context: main.
 */
void crew_stop(struct crew *crew);

/*
 * Ask the main thread to stop: at once (finish requests in flight, within 2 s) or gracefully
 * (shutdown graceful: stop accepting, wait until clients disconnect). Context: any thread.
 */
void crew_request_stop(struct crew *crew, enum crew_stop how);

/*
 * The progress of the upgrade; why has the reason of a refusal. Context: any thread.
 */
enum handover_state crew_look_upgrade(struct crew *crew, char why[HANDOVER_WHY_BYTES]);

/*
 * Request main to start an upgrade (service/upgrade.c) to the program at this path, which is
 * shorter than PATH_MAX; empty: the program now installed at the path of the running one. If a
 * request is already pending, nothing happens. Context: any thread.
 */
void crew_request_upgrade(struct crew *crew, struct span program);

/*
 * A connection was accepted, for this worker; it counts as its origin says. Context: main.
 */
void crew_conn_opened(struct worker *w, const struct conn_origin *origin);

/* A connection was closed. Wakes main when accepting was paused. Context: worker. */
void crew_conn_closed(struct worker *w, const struct conn_origin *origin);

/*
 * Take one of the places beyond -c that replicas have (replica_conns); the connection is opened
 * with an origin that is_beyond, or closed by that. False: there is none. Context: any thread.
 */
bool crew_take_beyond(struct crew *crew);

/*
 * A connection that counts towards -c turned out to be a replica: give it a place beyond -c, if
 * there is one. Returns its new origin. Context: worker.
 */
const struct conn_origin *crew_move_beyond(struct crew *crew, const struct conn_origin *origin);

/* Connections that are open, without those of the operator. Context: any thread. */
static inline uint32_t crew_clients(const struct crew *crew)
{
    uint32_t open = atomic_load(&crew->conns_open); /* first: it is never the smaller one */

    return open - atomic_load(&crew->conns_control);
}

/* Ask main for ask->wish; ask->answer comes back. Context: worker. */
void crew_ask_main(struct crew *crew, struct main_ask *ask);

/* The users were reloaded: every worker checks its clients. Context: main. */
void crew_doubt_logins(struct crew *crew);

/*
 * Options have changed: wake threads that computed their sleep from the old values. Context:
 * any thread.
 */
void crew_options_changed(struct crew *crew);

/* Make every worker check its home shard soon. Context: any thread. */
void crew_poke_all(struct crew *crew);

/* ---- pin.c ------------------------------------------------------------------------------- */

/*
 * Pins workers to CPUs (the option worker_cpus, daemon/options/cpu_list.h). Only workers are
 * pinned, including parked ones. The kernel places main and the background threads.
 */

/*
 * Pin a worker to its CPU of worker_cpus, or let it run on all CPUs of main. Failures are
 * logged. Context: main; its thread runs.
 */
void pin_worker(struct worker *w);
void pin_workers(struct crew *crew);

/* ---- settle.c ---------------------------------------------------------------------------- */

/*
 * Messages to all workers when the role of the server changes.
 */

/*
 * Wait until every worker has ended the turns that it had started before this call. One caller
 * at a time. Context: any thread except workers, while they run.
 */
void crew_settle(struct crew *crew);

/*
 * Close the connections of ordinary clients: not those of operators, of replicas and of those
 * that watch. Context: any thread but workers.
 */
void crew_close_clients(struct crew *crew);

/* ---- shards.c ---------------------------------------------------------------------------- */

/*
 * The number of shards while the server serves (the live option shards, or threads while that
 * is 0). The engine adds shards and moves items to them (lib/reshard/reshard.h). This module
 * computes the number from the options and assigns home workers to added shards.
 */

/* The number that a start with these settings makes. Context: any thread. */
uint32_t shards_at_start(const struct settings *set);

/*
 * Number of shards for these values of the options shards and threads and a limit: if shards is
 * 0, a number that the engine can work with. Context: any thread.
 */
uint32_t shards_wanted(const struct crew *crew, uint32_t shards, uint32_t threads,
                       uint64_t limit_bytes);

/*
 * Can the engine work with this number under a limit? False: `why` (OPTION_TEXT_BYTES) has the
 * reason. Context: any thread.
 */
bool shards_may_be(const struct crew *crew, uint32_t shards, uint64_t limit_bytes, char *why);

/*
 * Move all items to the first `count` shards. When this returns, the shards exist and have home
 * workers, and the move has started. False: nothing has changed, except that there may be more
 * shards without items; `why` (OPTION_TEXT_BYTES) has the reason. Context: main, while the crew
 * serves.
 */
bool shards_set(struct crew *crew, uint32_t count, char *why);

/*
 * After a warm start: move the items to the number of shards of the settings, if it differs,
 * and finish a move that the earlier process left incomplete. Context: main, the crew has
 * started.
 */
void shards_begin(struct crew *crew);

#endif
