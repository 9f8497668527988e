/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routing table: hash -> slot (its top bits) -> shard, published by RCU. A published table
 * is never changed: a change publishes a copy. A slot that moves from A to B goes through these
 * states, with a grace period after each:
 *
 *     settled at A    readers look in A; writers hold and change A
 *     prepared        readers look in A, then in B; writers as before
 *     moving          readers as before; writers hold both (the lower shard id first), find in
 *                     A, then in B, and put new items in B; the mover takes the others over
 *     settled at B
 *
 * When the first item is put in B, no reader is left that looks only in A. A writer reads the
 * table again when it holds its lock, and starts over if another table was published. So two
 * writers that know different states are ordered by the lock of A.
 */
#ifndef MAYFLY_LIB_ENGINE_ROUTER_H
#define MAYFLY_LIB_ENGINE_ROUTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/context.h"
#include "lib/base/err.h"
#include "lib/base/reclaim.h"

struct shard;

#define ROUTE_SLOT_BITS 12u
#define ROUTE_SLOTS     (1u << ROUTE_SLOT_BITS)

/* One published table. [const] once published. */
struct route {
    struct retired retired;
    struct shard **shards; /* [borrowed] of the engine */
    uint64_t version;      /* goes up by one with each table */
    struct route_slot {
        uint16_t from; /* where the slot's items are */
        uint16_t to;   /* == from, or where they are moving to */
        uint16_t put;  /* where new items go: == from until the move begins, then == to */
    } slot[ROUTE_SLOTS];
    uint64_t changed[ROUTE_SLOTS]; /* version of the table in which the slot's state changed */
};

struct router {
    /* [rcu] */
    _Atomic(struct route *) route;
    /* one writer at a time */
    struct reclaimer *reclaimer;
    /* [atomic] */
    _Atomic uint32_t shard_count; /* slots may be in shards below this number */
};

/*
 * Publish the first table, which assigns the slots evenly, in contiguous ranges. Borrows
 * shards. MF_EINVAL when count is 0 or exceeds the number of slots; MF_ENOMEM. Context: before
 * start.
 */
enum mf_err router_init(struct router *r, struct shard **shards, uint32_t count,
                        struct reclaimer *reclaimer);

/*
 * From now on slots may be in the first `count` shards of the array. Context: any thread, one
 * at a time.
 */
void router_grow(struct router *r, uint32_t count);

/* Withdraw and release the table. Context: main, no readers left. */
void router_fini(struct router *r);

/* The current table; load it once per batch of requests. Context: read side. */
static inline const struct route *router_read(const struct router *r)
{
    must_be_reading();
    return atomic_load_explicit(&r->route, memory_order_acquire);
}

static inline uint32_t route_slot_number(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - ROUTE_SLOT_BITS));
}

static inline const struct route_slot *route_slot(const struct route *t, uint64_t hash)
{
    return &t->slot[route_slot_number(hash)];
}

static inline bool route_is_moving(const struct route_slot *s)
{
    return s->from != s->to;
}

/* The states of a slot, in order; the last is route_settled() at the other shard. */
static inline struct route_slot route_settled(uint16_t at)
{
    return (struct route_slot){at, at, at};
}

static inline struct route_slot route_prepared(uint16_t from, uint16_t to)
{
    return (struct route_slot){from, to, from};
}

static inline struct route_slot route_moving(uint16_t from, uint16_t to)
{
    return (struct route_slot){from, to, to};
}

/* The shard a reader asks first. */
static inline struct shard *route_shard(const struct route *t, uint64_t hash)
{
    return t->shards[route_slot(t, hash)->from];
}

/*
 * Publish a table with these states of all slots; the old one is retired. MF_EINVAL when shards
 * are out of range; MF_ENOMEM; the table is then unchanged. Context: one writer at a time.
 */
enum mf_err router_publish_all(struct router *r, const struct route_slot slots[ROUTE_SLOTS]);

#endif
