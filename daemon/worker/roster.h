/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assigns work to workers while their number changes (the live option threads).
 *
 * The first `active` workers serve. The others are leaving: they get no new connections, and
 * move their homes, datagram sockets and connections to other workers. Objects that cannot move
 * at once are served where they are until they can. A worker that has nothing left is parked:
 * its timers are stopped, its buffers are released, and its loop sleeps. It exists until the
 * server stops, so pointers to a worker stay valid, and sums over workers never fall.
 *
 * There is no central plan. When the number changes, every worker is notified and checks its
 * objects. The home worker of a shard, or of a datagram socket, is its number modulo the number
 * of workers. A connection moves to the worker with the fewest. If an object arrives at the
 * wrong worker, because the number has changed again, that worker passes it on. So the latest
 * number takes effect, even if it changes often.
 *
 * While it moves, a home, socket or connection belongs to no worker: it is a message in a
 * mailbox, and is counted in `arriving` of its new worker, which is not drained before it has
 * arrived. While the crew drains, no move starts.
 *
 * Workers are identified by their numbers here.
 */
#ifndef MAYFLY_DAEMON_WORKER_ROSTER_H
#define MAYFLY_DAEMON_WORKER_ROSTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Maximum number of workers, and of shards that have a home. */
#define WORKERS_MAX 512u

/* The role of a worker. */
enum worker_role { WORKER_ACTIVE, WORKER_LEAVING, WORKER_PARKED };

/* All zero before the workers are made. [atomic] */
struct roster {
    _Atomic uint32_t created; /* number of workers that exist; only grows; a release */
    _Atomic uint32_t active;  /* workers below this number serve */
    _Atomic bool stays;       /* seq_cst: no further move may start */
    _Atomic uint16_t home_of[WORKERS_MAX];  /* the home worker of each shard, or its last one */
    _Atomic uint32_t conns[WORKERS_MAX];    /* of each, with those on their way to it */
    _Atomic uint32_t arriving[WORKERS_MAX]; /* seq_cst: objects moving to each */
    _Atomic uint32_t conns_moving;          /* connections on their way, which no worker has */
    _Atomic uint8_t role[WORKERS_MAX];      /* enum worker_role, as each found last */
    _Atomic bool has_leaving; /* the number was lowered, and some may be leaving */
};

/*
 * Number of existing workers. Code that sums over workers or notifies them uses this one. Code
 * that distributes work uses the number of active ones. Context: any thread, as for all below.
 */
static inline uint32_t roster_created(const struct roster *r)
{
    return atomic_load_explicit(&r->created, memory_order_acquire);
}

static inline uint32_t roster_active(const struct roster *r)
{
    return atomic_load_explicit(&r->active, memory_order_acquire);
}

/* Set the number of workers that serve; the caller notifies them. */
static inline void roster_set_active(struct roster *r, uint32_t count)
{
    atomic_store_explicit(&r->active, count, memory_order_release);
}

/*
 * The home worker of a shard. A thread that wakes it has written its work first. A worker that
 * becomes the home checks for work after it has stored its number. So at least one of them sees
 * the other.
 */
static inline uint32_t roster_home(const struct roster *r, uint32_t shard)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&r->home_of[shard], memory_order_acquire);
}

static inline void roster_move_in(struct roster *r, uint32_t shard, uint32_t worker)
{
    atomic_store_explicit(&r->home_of[shard], (uint16_t)worker, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
}

/* The worker to which the shard, or the datagram socket, with this number belongs. */
static inline uint32_t roster_wanted(const struct roster *r, uint32_t number)
{
    return number % roster_active(r);
}

/*
 * An object is about to move to this worker. False: no move may start. It is counted before
 * `stays` is read. A thread that sets `stays` does so before it notifies the workers. So either
 * this call sees `stays`, or a notified worker sees the count.
 */
bool roster_may_go(struct roster *r, uint32_t to);

/* It has arrived. */
void roster_has_come(struct roster *r, uint32_t to);

/* Is nothing on its way to this one? */
static inline bool roster_is_quiet(const struct roster *r, uint32_t worker)
{
    return atomic_load(&r->arriving[worker]) == 0;
}

/* Stop moves from now on; the caller notifies the workers. */
static inline void roster_stay(struct roster *r)
{
    atomic_store(&r->stays, true);
}

/*
 * The active worker with the fewest connections; among several the first from this number on,
 * cyclically.
 */
uint32_t roster_least(const struct roster *r, uint32_t from);

/* Count a connection that begins at this worker, or one that ends or moves to another. */
void roster_add_conn(struct roster *r, uint32_t worker);
void roster_remove_conn(struct roster *r, uint32_t worker);

/* Connections of this worker, with those on their way to it. */
static inline uint32_t roster_conns(const struct roster *r, uint32_t worker)
{
    return atomic_load_explicit(&r->conns[worker], memory_order_relaxed);
}

/* A connection has left a worker, which was asked by roster_may_go(); or has joined another. */
static inline void roster_conn_leaves(struct roster *r)
{
    atomic_fetch_add_explicit(&r->conns_moving, 1, memory_order_relaxed);
}

static inline void roster_conn_joins(struct roster *r)
{
    atomic_fetch_sub_explicit(&r->conns_moving, 1, memory_order_relaxed);
}

static inline uint32_t roster_conns_moving(const struct roster *r)
{
    return atomic_load_explicit(&r->conns_moving, memory_order_relaxed);
}

static inline enum worker_role roster_role(const struct roster *r, uint32_t worker)
{
    return (enum worker_role)atomic_load_explicit(&r->role[worker], memory_order_relaxed);
}

static inline void roster_set_role(struct roster *r, uint32_t worker, enum worker_role role)
{
    atomic_store_explicit(&r->role[worker], (uint8_t)role, memory_order_relaxed);
}

/* Number of leaving workers. */
uint32_t roster_leaving(const struct roster *r);

/*
 * Called after a worker has changed its role. True: all workers that do not serve are parked
 * now, for the first time since the number was lowered.
 */
bool roster_is_settled(struct roster *r);

#endif
