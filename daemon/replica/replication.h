/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication: the role of this server, and the replicas that follow it.
 *
 * daemon/replica/ is the folder of replication: the role (role.[ch], failover.[ch]), the
 * session with the primary (follower*.[ch]), replicas and clients that wait for them
 * (replicas.c, waits.c). The folder worker does not use it. It includes itself, worker,
 * persist, options, base and lib.
 *
 * A replica follows its primary over one connection, which the primary treats like any
 * client's. The replica logs in and requests to continue (`psync`) or a full sync (`sync`).
 * Then it repeatedly requests the next part of the stream (`replconf ack`), which also
 * acknowledges the applied part. A thread does this (follower.c). The stream, its offsets and
 * its history are those of lib/replica.
 *
 * The role is one state, which only that thread changes; the gate of all requests
 * (daemon/access/gate.h) follows from it. Changes are recorded from the first replica on, so a
 * server without one pays nothing.
 */
#ifndef MAYFLY_DAEMON_REPLICA_REPLICATION_H
#define MAYFLY_DAEMON_REPLICA_REPLICATION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "lib/base/thread.h"
#include "lib/replica/backlog.h"
#include "lib/replica/shipper.h"

struct settings;

/* The version of the protocol between primary and replica: see repl_version.c. */
#define REPL_VERSION 1u

/* Room for the address of a client. */
#define REPL_PEER_MAX 64u

/* Room for the address of a primary, and for the reason of something, with the NUL. */
#define REPL_TARGET_MAX 272u
#define REPL_WHY_MAX    ASK_WHY_MAX

/*
 * A server names itself and those that it follows, directly or not, so that none follows
 * itself: ids of processes (replid.h) with a comma between two.
 */
#define REPL_CHAIN_MAX  8u
#define REPL_PATH_BYTES (REPL_CHAIN_MAX * (REPLID_CHARS + 1))
#define REPL_PATH_REST  (REPL_PATH_BYTES - REPLID_CHARS - 1) /* without the first */

/* Bytes of the stream in one answer. */
#define REPL_PORTION_MAX (256u * 1024)

enum repl_state {
    REPL_PRIMARY,     /* it follows no server */
    REPL_CONNECTING,  /* no link, and its items must not be served */
    REPL_SYNCING,     /* a full sync is in progress */
    REPL_CATCHING_UP, /* older states may be mixed with newer ones: items must not be served */
    REPL_ONLINE,
    REPL_CUT,   /* it was online and has lost the link: it serves reads */
    REPL_STALE, /* the same, for longer than replica_max_stale: reads miss */
    REPL_STATE_COUNT
};

/* [const] The name of a state, for statistics and logs. */
const char *repl_state_text(enum repl_state state);

/* A replica that follows this server; owned by its client, on the client's worker. */
struct replica {
    struct list_link link;         /* under the mutex */
    struct worker *worker;         /* [worker] [borrowed] changes when its connection moves */
    struct relay relay;            /* to that worker */
    struct notice more;            /* sent by the relay when there may be more to read */
    char peer[REPL_PEER_MAX];      /* [const] its address, with the port of its end */
    char address[REPL_TARGET_MAX]; /* [const] host and port where it serves; "": not known */
    struct replid run;             /* [const] of its process */
    struct shipper_reader *reader; /* NULL: a full sync is in progress */
    /* under the mutex */
    uint64_t acked;     /* offset up to which it has applied the stream */
    msec_t acked_ms;    /* time of that acknowledgement, by the engine's clock */
    bool is_superseded; /* its process has connected again: this link is dead */
};

/* Figures of a replica, for statistics. */
struct replica_info {
    char peer[REPL_PEER_MAX];
    char address[REPL_TARGET_MAX]; /* HOST PORT where it serves; "": not known */
    bool is_online;                /* else it is being sent everything */
    uint64_t acked;                /* this and the following: while it is online */
    uint64_t lag_bytes;            /* of the stream, not acknowledged */
    msec_t since_ms;               /* since it acknowledged last */
};

/* Counts since the start. */
struct repl_counts {
    uint64_t sync_full, sync_partial, sync_refused; /* answers to replicas */
    uint64_t full, partial, failed;                 /* at a replica: its own, and links cut */
    uint64_t promotions;
};

/* A full sync of a replica under way. */
struct repl_sync_info {
    bool is_busy;
    uint64_t items, items_total; /* sent, and about how many there are */
};

struct repl_info {
    enum repl_state state;
    struct backlog_name name;
    char id[REPLID_CHARS + 1];       /* of the name; "": there is none */
    char previous[REPLID_CHARS + 1]; /* the same */
    uint64_t backlog_bytes, backlog_start;
    uint64_t seen_epoch;
    char target[REPL_TARGET_MAX]; /* of a replica: its primary */
    char why[REPL_WHY_MAX];       /* the reason of the state */
    struct repl_counts counts;
    const char *refused_why; /* of the last replica that was refused; NULL: none was */
    uint64_t lag_bytes;      /* at a replica: of the stream, not applied yet */
    int64_t silent_ms;       /* at a replica: since its primary was heard; -1: never */
    int64_t lag_ms;      /* at a replica: 0: up to date; else its least age; -1: not known */
    int64_t level_ms;    /* at a replica: since it last had all announced changes; -1: never */
    int64_t skew_ms;     /* at a replica: how far the primary's wall clock is ahead */
    uint64_t not_stored; /* at a replica: items of its primary */
    bool records;
    bool is_failing_over;         /* a failover is under way */
    bool has_few;                 /* changes are refused for min_replicas_to_write */
    struct repl_sync_info sync;   /* to a replica */
    struct shipper_info shipping; /* of the stream */
    unsigned count, online;       /* replicas; those that have a place in the stream */
    uint64_t replicas_lag_bytes;  /* the largest of these */
    msec_t replicas_ack_ms;       /* the longest since one of these acknowledged */
    struct replica_info replica[SHIPPER_READERS_MAX];
};

/*
 * A failover: the primary hands over to a replica that has all changes, and then follows it. It
 * holds changes meanwhile (GATE_PAUSED). Only the thread starts and ends one.
 */
enum failover_state {
    FAILOVER_NONE,
    FAILOVER_WANTED, /* the thread will begin it */
    FAILOVER_WAITS,  /* until the replica has everything */
    FAILOVER_READY,  /* it has: the answer to its next request is the handover */
    FAILOVER_GIVEN,  /* that answer was given: the handover is final */
    FAILOVER_OVER,   /* it was aborted; NONE follows */
};

struct failover {
    enum failover_state state;
    struct replica *to;            /* [borrowed] NULL: the one that has most */
    char address[REPL_TARGET_MAX]; /* of it; as the operator has named it: "": any */
    int64_t limit_ms;
    uint64_t offset;      /* the replica has all changes once it has applied up to here */
    bool is_stop;         /* no target: wait until all online replicas have all changes */
    struct late_ask *ask; /* NULL: no client waits, or a replica asked */
};

struct replication {
    /* [const] while its thread runs */
    struct crew *crew; /* [borrowed] */
    struct backlog *backlog;
    struct shipper *shipper;
    struct follower *follower;
    struct replid run; /* of this process: by it loops are found */
    struct thread thread;
    bool is_there;
    /* the thread's, or main's without it */
    bool has_more; /* a previous process left values out of the stream: they are here */
    /* [atomic] */
    _Atomic uint32_t state;     /* enum repl_state */
    _Atomic bool is_whole;      /* the items are a consistent set, in any state */
    _Atomic int64_t to_unix_ms; /* added to a time of the engine: the scale of the stream */
    _Atomic bool records;       /* the shipper does; written under `control` */
    /*
     * Held to begin or end recording, and to attach a reader, all of which wait for the
     * shipper. So it is never taken with the mutex, for which the shipper waits.
     */
    pthread_mutex_t control;
    /* under the mutex, a leaf but for that of the shipper */
    pthread_mutex_t mutex;
    pthread_cond_t wake;     /* the thread has something to do */
    pthread_cond_t detached; /* a reader was detached */
    bool is_draining;        /* clients are about to be closed */
    bool is_stopping;
    bool is_forced;         /* `replicaof` was given again */
    bool is_woken;          /* options have changed */
    bool is_changed;        /* `replicaof`, or an option for the login, has changed */
    uint64_t seen_epoch;    /* highest epoch seen; 0: any is accepted */
    char why[REPL_WHY_MAX]; /* the reason of the state */
    struct list links;      /* of struct replica */
    unsigned count;         /* of them */
    unsigned readers;       /* of them: with a reader */
    unsigned syncs;         /* full syncs under way */
    struct late_ask *asks;  /* answered when the role is that of the options */
    struct failover failover;
    pthread_cond_t progress;    /* of it */
    struct list waits;          /* of struct repl_wait */
    struct shipper_level level; /* of a replica: the latest from its primary */
    struct repl_counts counts;
    const char *refused_why; /* the reason of the last sync_refused; NULL: none was */
};

/* ---- the process ------------------------------------------------------------------------- */

/* State that is kept across a restart, with memory_file. */
struct repl_record {
    uint64_t bytes; /* its size; 0: there is no history */
    bool was_replica;
    bool has_lost; /* a replica dropped items that its primary has; a primary: has_more */
    struct backlog_name name;
    int64_t to_unix_ms;
    uint64_t seen_epoch;
};

/* Do the options say that this server is a replica? Context: any thread. */
bool replication_is_wanted(const struct settings *s);

/*
 * Create its threads. The server is a primary, or, by its options, a replica that has not
 * connected yet. record: of the previous process; NULL: none. Returns 0 or an exit status.
 * Context: main, the engine runs, no worker does.
 */
int replication_start(struct replication *r, struct crew *crew,
                      const struct repl_record *record);

/* Make the thread that follows. 0 or an exit status. Context: main, when the workers run. */
int replication_begin(struct replication *r);

/*
 * Clients are about to be closed: answer waiting clients and replicas. Accepts one that was not
 * started, as the next ones. Context: main.
 */
void replication_drain(struct replication *r);

/*
 * End the thread: stop following; the role no longer changes. Context: main, before the workers
 * stop.
 */
void replication_end(struct replication *r);

/*
 * Release it. *record: the history that has all changes made here; none if that is unknown.
 * Returns false if the items are not a consistent set, and must not be left to another process.
 * Context: main, after the workers.
 */
bool replication_stop(struct replication *r, struct repl_record *record);

/* Options may have changed. Context: any thread. */
void replication_options_changed(struct replication *r);

/*
 * `replicaof` was set again, perhaps to the same value: follow at once, in any epoch. Context:
 * any thread.
 */
void replication_force(struct replication *r);

/* Answered when the role is that of the options. Context: any thread. */
void replication_ask(struct replication *r, struct late_ask *ask);

/*
 * Hand over to the replica that serves at this address ("": the most up-to-date one), within
 * limit_ms. On a replica: request that the primary hands over to it. ask->is_done: the handover
 * is complete, and the roles have changed; else ask->why. Context: any thread.
 */
void replication_failover(struct replication *r, struct span address, int64_t limit_ms,
                          struct late_ask *ask);

/*
 * The server is about to stop, and leaves its history to the next process: hold changes from
 * now on, and answer ask when all online replicas have all changes, or limit_ms has passed.
 * False: none is online, or this is a replica; ask remains the caller's. Context: main.
 */
bool replication_level(struct replication *r, int64_t limit_ms, struct late_ask *ask);

/*
 * A client that waits until enough replicas have all earlier changes; its message is posted
 * when they have. Context: its worker.
 */
struct repl_wait {
    struct list_link link; /* under the mutex */
    struct message done;   /* [const] */
    struct mailbox *to;    /* [const] [borrowed] */
    uint64_t ticket;       /* [const] see shipper_ask() */
    uint64_t offset;       /* under the mutex; UINT64_MAX: not known yet */
    unsigned wanted;       /* [const] */
    unsigned count;        /* of replicas that have it at the end */
};
void replication_wait(struct replication *r, struct repl_wait *w);

/* End the wait. False: the message is in transit. count is set. Context: its worker. */
bool replication_unwait(struct replication *r, struct repl_wait *w);

/* Context: any thread, as of all here. */
enum repl_state replication_state(const struct replication *r);
bool replication_is_replica(const struct replication *r);
void replication_look(struct replication *r, struct repl_info *info);

/* ---- replicas: on the worker of their client --------------------------------------------- */

/* The answer to a replica's psync. */
struct repl_greeting {
    enum { REPL_CONTINUES, REPL_FULL, REPL_REFUSED } answer;
    const char *why; /* static: of a refusal, or of a full sync */
    struct backlog_name name;
    uint64_t end;   /* of the stream */
    int64_t now_ms; /* on the scale of the stream */
    char path[REPL_PATH_BYTES];
};

/*
 * A replica has sent psync, to continue a history at an offset. In *has, id none means that it
 * has nothing, and epoch 0 that it follows in any epoch. Unless it is refused, x represents it
 * from here on, until replication_leave(). The caller has set worker, relay, peer, run and the
 * function of more. Context: worker, outside a section.
 */
void replication_greet(struct replication *r, struct replica *x, const struct backlog_name *has,
                       struct repl_greeting *g);

/*
 * replication_begin_sync(): a full sync begins; fill in the fields of this server. False: this
 * server cannot be followed now. replication_end_sync(): the sync has ended, and its reader is
 * attached or detached. Context: worker.
 */
struct fullsync;
bool replication_begin_sync(struct replication *r, struct fullsync *sync);
void replication_end_sync(struct replication *r);

/*
 * Must a replica be disconnected, because its process has connected again, or because the full
 * sync that it receives is no longer valid? Context: worker.
 */
bool replication_dismisses(struct replication *r, const struct replica *x);

/* Are items missing here that its primary has? False for a primary. Context: any thread. */
bool replication_has_lost(const struct replication *r);

/* Connections of replicas. Context: any thread. */
unsigned replication_clients(struct replication *r);

/*
 * Its full sync is complete; it continues with this reader, of which this takes ownership.
 * Context: worker.
 */
void replication_attach(struct replication *r, struct replica *x,
                        struct shipper_reader *reader);

/* Its reader was dropped: release it, if it has one. Context: worker. */
void replication_detach(struct replication *r, struct replica *x);

/*
 * A replica requests a handover within this time. Returns NULL if it has begun, or the reason
 * of the refusal. Context: worker.
 */
const char *replication_ask_failover(struct replication *r, struct replica *x,
                                     int64_t limit_ms);

/* Does a failover wait for its next acknowledgement? Context: worker. */
bool replication_awaits(struct replication *r, const struct replica *x);

/* Must the replica be told that it is the primary now? True once. Context: worker. */
bool replication_hands_over(struct replication *r, const struct replica *x);

/* It has applied everything before this offset. It has a reader. Context: worker. */
void replication_ack(struct replication *r, struct replica *x, uint64_t offset);

/* There may be more for it to read. Context: its worker; or any thread, under the mutex. */
void replication_tell_one(struct replica *x);

/* The connection of a replica was closed; x->more may be in transit. Context: worker. */
void replication_leave(struct replication *r, struct replica *x);

/* Sent with each answer: see shipper_level(). */
struct repl_ping {
    int64_t now_ms;  /* on the scale of the stream */
    int64_t wall_ms; /* by the wall clock */
    uint64_t end;    /* of the stream */
    uint64_t due_offset;
    int64_t due_ms;
};

/* Fill in *p. is_idle: it is sent without bytes, so request a new level. Context: worker. */
void replication_ping(struct replication *r, struct repl_ping *p, bool is_idle);

/* ---- the follower: on its thread --------------------------------------------------------- */

/*
 * Set the state, and the gate that follows from it. When this returns, all turns that used the
 * old state have ended.
 */
void replication_enter(struct replication *r, enum repl_state state, const char *why);

/* Is the follower to return, because another target was set, or the server stops? */
bool replication_is_changed(struct replication *r);

/* Time limit of the handover to request from the primary, in milliseconds; 0: none. */
int64_t replication_wants_handover(struct replication *r);

/*
 * replication_take_over(): the primary has handed over; set the options so that this server is
 * a primary. replication_note_refused(): it has refused, for the reason in why.
 */
void replication_take_over(struct replication *r);
void replication_note_refused(struct replication *r, const char *why);

/* Allocate a ring for the backlog. Returns false without memory. */
bool replication_reserve(struct replication *r);

/* Make the workers of all replicas check for more. Context: any thread. */
void replication_tell(struct replication *r);

/* When this returns, the backlog has no readers. */
void replication_drop_readers(struct replication *r);

/* ---- repl_version.c ---------------------------------------------------------------------- */

/*
 * Versions of the protocol between primary and replica. Each side speaks its own version and
 * the previous one, and both use the highest that they have in common. So servers can be
 * upgraded one at a time, replicas first: a primary that is upgraded last never meets a replica
 * that is more than one version older.
 *
 * The replica states the versions that it speaks as LEAST-MOST, and the primary answers with
 * the one that is spoken. A later version may add words to the end of psync, which earlier ones
 * skip. Context of all functions: any thread.
 */

/* Room for a range as text. */
#define REPL_VERSIONS_BYTES 24u

struct repl_versions {
    uint32_t least, most; /* from 1 on */
};

/* The versions spoken by a server of version `own`. */
struct repl_versions repl_versions_of(uint32_t own);

/* LEAST-MOST, or one number for both. False: it is neither. */
bool repl_versions_parse(struct span word, struct repl_versions *v);
void repl_versions_format(const struct repl_versions *v, char out[REPL_VERSIONS_BYTES]);

/* The version that both speak; 0: they have none in common. */
uint32_t repl_versions_common(const struct repl_versions *a, const struct repl_versions *b);

#endif
