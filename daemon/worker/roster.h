/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who of the workers serves, and what, while their number changes (threads, a live option).
 *
 * The first `active` workers serve. The others are leaving: they have no new connections, and
 * give away their homes, datagram sockets and connections; what cannot move at once is served
 * where it is, however long that takes. One that has nothing left is parked: no timer of it
 * runs, its buffers are given back, and its loop sleeps. It does not end before the server, so
 * pointers to a worker stay valid, and sums over workers never fall.
 *
 * There is no central plan. When the number changes, every worker is told and checks what it
 * has: a shard is at home with the worker that has its number, counted round, and so is a
 * datagram socket; connections go to the worker that has fewest. What comes to a worker that is
 * not to have it by then is given on. So the newest number counts, however often it changes.
 *
 * On its way a thing belongs to nobody: it is a message in a mailbox, and counted in `arriving`
 * of the worker that gets it, which is not drained before it has come. While the crew drains
 * nothing begins to move.
 *
 * Workers are known by their numbers here.
 */
#ifndef MAYFLY_DAEMON_WORKER_ROSTER_H
#define MAYFLY_DAEMON_WORKER_ROSTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Workers that there may be, and shards that may have a home. */
#define WORKERS_MAX 512u

/* What a worker does. */
enum worker_role { WORKER_ACTIVE, WORKER_LEAVING, WORKER_PARKED };

/* All zero before the workers are made. [atomic] */
struct roster {
    _Atomic uint32_t created; /* number of workers that exist; only grows; a release */
    _Atomic uint32_t active;  /* workers below this number serve */
    _Atomic bool stays;       /* seq_cst: nothing begins to move any more */
    _Atomic uint16_t home_of[WORKERS_MAX];  /* who is at home in a shard, or was it last */
    _Atomic uint32_t conns[WORKERS_MAX];    /* of each, with those on their way to it */
    _Atomic uint32_t arriving[WORKERS_MAX]; /* seq_cst: what is on its way to each */
    _Atomic uint32_t conns_moving;          /* connections on their way, which no worker has */
    _Atomic uint8_t role[WORKERS_MAX];      /* enum worker_role, as each found last */
    _Atomic bool has_leaving; /* the number was lowered, and some may be leaving */
};

/*
 * Who adds something up, or tells all of something, takes those that there are; who deals work
 * out, those that are active. Context: any thread, as for all below.
 */
static inline uint32_t roster_created(const struct roster *r)
{
    return atomic_load_explicit(&r->created, memory_order_acquire);
}

static inline uint32_t roster_active(const struct roster *r)
{
    return atomic_load_explicit(&r->active, memory_order_acquire);
}

/* Set the number of workers that serve; the caller tells them. */
static inline void roster_set_active(struct roster *r, uint32_t count)
{
    atomic_store_explicit(&r->active, count, memory_order_release);
}

/*
 * The one that is at home in a shard. Who looks for it has written before what it shall find;
 * and who moves in looks after it has told. So one of them finds the other.
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

/* The one that is to have what is this number's: a shard, a datagram socket. */
static inline uint32_t roster_wanted(const struct roster *r, uint32_t number)
{
    return number % roster_active(r);
}

/*
 * Something is about to go to this one. False: nothing may any more. It is counted first, and
 * `stays` is looked at then; who sets that does so first, and tells the workers then. So either
 * this finds it, or a worker that was told finds the count.
 */
bool roster_may_go(struct roster *r, uint32_t to);

/* It has come. */
void roster_has_come(struct roster *r, uint32_t to);

/* Is nothing on its way to this one? */
static inline bool roster_is_quiet(const struct roster *r, uint32_t worker)
{
    return atomic_load(&r->arriving[worker]) == 0;
}

/* Nothing shall begin to move from now on; the caller tells the workers. */
static inline void roster_stay(struct roster *r)
{
    atomic_store(&r->stays, true);
}

/*
 * The active worker that has the fewest connections; of several the first from this number on,
 * counted round.
 */
uint32_t roster_least(const struct roster *r, uint32_t from);

/* A connection begins with this one, ends, or goes to another. */
void roster_add_conn(struct roster *r, uint32_t worker);
void roster_remove_conn(struct roster *r, uint32_t worker);

/* Connections that this one has, with those on their way to it. */
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

/* How many are leaving. */
uint32_t roster_leaving(const struct roster *r);

/*
 * One has changed its role. True: all that do not serve are parked now, for the first time
 * since the number was lowered.
 */
bool roster_is_settled(struct roster *r);

#endif
