/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/shard: one shard: a part of the keys, with their items, index and deadlines.
 *
 *     shard      the struct and its lock, creating and releasing a shard
 *     changes    changes of keys, as records for threads that keep a copy
 *     idle       releasing the segments of a shard without slots
 *     rest       releasing the other memory of such a shard
 *     guard      keys that a load concurrent with requests must not restore
 *     keyspace   items: linking, unlinking, expiring and evicting them, their deadlines
 *     owner      callbacks from the shard's memory to the shard
 *     expire     active expiry: slices of the cycle
 *     flush      generations: a flush replaces index, deadlines and blocks by empty ones
 *     prefix     flushes of a prefix: hiding items, and the walk that unlinks them
 *     attach     taking over the items of an earlier process
 *     upkeep     resizing the index, making room; done by writers and the home worker
 *     value      reading values: walks, copies and pins
 *     info       figures and walks for statistics
 *
 * This folder joins lib/memory (blocks), lib/index (keys) and lib/expiry (deadlines), and may
 * include these and lib/base. It does not know the engine, the router, or other shards. Data
 * that all shards share is in struct shard_group.
 */
#ifndef MAYFLY_LIB_SHARD_SHARD_H
#define MAYFLY_LIB_SHARD_SHARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/counters.h"
#include "lib/base/hash.h"
#include "lib/base/lock.h"
#include "lib/expiry/cycle.h"
#include "lib/expiry/lag.h"
#include "lib/expiry/wheel.h"
#include "lib/index/table.h"
#include "lib/memory/memory.h"
#include "lib/shard/changes.h"
#include "lib/shard/guard.h"
#include "lib/shard/shard_group.h"

/*
 * Exists while items of some slots are moved to other shards, segment by segment. A new block
 * of such an item in a segment that the search has already passed would be missed. has_strays
 * records that, and the search is repeated.
 */
struct shard_leave {
    bool (*leaves)(const struct shard_leave *l, uint64_t hash); /* [const] */
    /* [lock] */
    bool chain_passed[CHAINS];
    bool has_strays;
};

struct shard {
    /* [const] */
    uint32_t magic;
    uint32_t id;
    struct shard_group *group; /* [borrowed] */
    uint64_t seed;

    struct changes *changes; /* [lock] records of changes; NULL: there are no readers */
    struct guard *guard;     /* [lock] of a load concurrent with requests; NULL: none */
    /* [atomic] read with every request, so on a line that is rarely written */
    _Atomic msec_t gate_at;  /* from this time lookups take the slow path: shard_set_gate() */
    _Atomic msec_t flush_at; /* everything here is flushed at this time; MSEC_NEVER: never */

    /* [rcu] read by anyone, written under the lock */
    struct table table;

    /* [atomic] */
    _Atomic bool wants_work;   /* see shard_note_work() */
    _Atomic bool wants_tidy;   /* see shard_tidy() */
    _Atomic bool wants_making; /* needs an index, a past or a range step: created outside */
    _Atomic bool is_held;      /* the sampler is held */
    _Atomic msec_t next_due;   /* wheel_next() after the last change, as a hint */
    _Atomic uint64_t flushes;  /* number of flushes carried out (release) */

    struct lock lock MF_LINE_ALIGNED;

    /* [lock] */
    uint64_t cas_next;
    struct memory memory; /* begins with what every set writes */
    struct wheel *wheel;
    bool wants_spare;         /* the wheel should have a spare, see wheel_tell() */
    uint64_t items_at_start;  /* number of items that a new index is sized for */
    uint64_t flush_id;        /* the flush command that set flush_at */
    uint64_t flush_done;      /* the newest that was carried out */
    struct generation *spare; /* empty generations, at least one for each scheduled flush */
    uint64_t cas_end;
    uint64_t cas_version; /* version of the routing table when the block of values was drawn */
    struct shard_leave *leave;        /* NULL: nothing leaves */
    uint32_t table_stamp;             /* grace number that a resize waits for */
    struct table_retiree *table_next; /* a resize whose array is being made resident, or NULL */
    bool table_refused; /* the system had no memory for the last resize that was wanted */
    bool is_making; /* a thread allocates what is wanted, outside the shard; others do not */
    struct table_retiree *table_retiree; /* created when a resize starts, used when it ends */
    struct lag lag;
    msec_t due_gone; /* see shard_due_gone() */

    /* flushes of a prefix: see prefix.h */
    /* [rcu] written under the lock; NULL: none is in force here */
    _Atomic(struct prefix_marks *) prefix_marks;
    /* [atomic] written under the lock */
    _Atomic uint64_t prefix_id;    /* the newest command that is or was in force here */
    _Atomic uint64_t prefix_clean; /* no items flushed by commands up to this are left */
    /* [lock] the walk */
    uint64_t prefix_goal; /* newest command of which it cleans; 0: not started */
    uint64_t prefix_next; /* next range */

    /* [home] */
    struct cycle cycle;
    usec_t prefix_rests_us; /* since when the walk for flushed prefixes pauses */
    bool is_resting;        /* active expiry was off when the home worker last checked */
    msec_t rest_end_ms;     /* when it was turned on again: older debt counts from then */

    /* [atomic] written inside the lock, read by anyone */
    struct counters counters MF_LINE_ALIGNED;
};

#define SHARD_MAGIC 0x6d665344u

/*
 * The cache lines that a set writes move from CPU to CPU with the lock when several workers
 * write: see "Cache lines that a set writes in its shard" in docs/decisions/shard.md. Two of
 * them are here, the third is in the counters. Members that every reader needs are in lines
 * that no set writes.
 */
#ifndef MAYFLY_DEBUG /* the lock is longer */
#define SHARD_LINE(member) (offsetof(struct shard, member) / MF_LINE_BYTES)
_Static_assert(SHARD_LINE(memory.blocks.put_bytes) == SHARD_LINE(lock), "the first line");
_Static_assert(SHARD_LINE(memory.blocks.chain[0].head) == SHARD_LINE(lock) + 1 &&
                   SHARD_LINE(memory.blocks.chain[CHAIN_MAIN].compact) == SHARD_LINE(lock) + 1,
               "the second line");
_Static_assert(CTR_item_bytes / 8 == CTR_total_items / 8 &&
                   CTR_item_bytes / 8 == CTR_hole_reused / 8 &&
                   CTR_item_bytes / 8 == CTR_overwritten_bytes / 8 &&
                   CTR_item_bytes / 8 == CTR_arith_in_place / 8,
               "the line of the counters");
_Static_assert(SHARD_LINE(gate_at) == SHARD_LINE(table.view) &&
                   SHARD_LINE(table.view) < SHARD_LINE(table.count) &&
                   SHARD_LINE(memory.arena.base) > SHARD_LINE(memory.blocks.ring_misfits) &&
                   SHARD_LINE(memory.arena.base) < SHARD_LINE(memory.arena.held_max),
               "the readers' lines");
#undef SHARD_LINE
#endif

/* Checks "Context: in shard" in debug builds. */
#define shard_must_be_entered(s)     lock_must_be_held(&(s)->lock)
#define shard_must_not_be_entered(s) lock_must_not_be_held(&(s)->lock)

/*
 * Number of items that the index of each shard is sized for: the shard's part of the hint, but
 * at most as many as fit an eighth of its part of this limit. Context: any thread.
 */
uint64_t shard_items_hint(const struct shard_group *g, uint64_t limit_bytes);

/*
 * Create a shard, with the group's number of sharers; NULL if there is no memory. Borrows the
 * group. Context: any thread, outside a shard.
 */
struct shard *shard_create(struct shard_group *group, uint32_t id);

/*
 * The limit, or the number of shards that share it, has changed: rebuild what depends on it.
 * Context: outside the shard, one flush command at a time.
 */
void shard_fit_limit(struct shard *s);

/*
 * Release everything; takes the address and nulls it; accepts NULL. Context: main, after the
 * workers and the reclaimer; or the shard was never in use.
 */
void shard_destroy(struct shard **s);

/*
 * A command has changed an item: write a record of the change. Call it after the item was
 * linked, and before an unlinked one is killed. id: see struct change. Costs one branch if
 * there are no readers. Context: in shard.
 */
static inline void shard_note_change(struct shard *s, enum change_kind kind, uint64_t id,
                                     const struct item *it)
{
    shard_must_be_entered(s);
    if (MF_UNLIKELY(s->changes != NULL)) {
        changes_put(s->changes, kind, id, item_key(it), it->key_len);
        changes_count_made();
    }
}

/* The same for an item that is evicted; it is not counted as a change by the command. */
static inline void shard_note_eviction(struct shard *s, uint64_t hash, const struct item *it)
{
    shard_must_be_entered(s);
    if (MF_UNLIKELY(s->changes != NULL)) {
        changes_put(s->changes, CHANGE_DROP, hash, item_key(it), it->key_len);
    }
}

/* The same for an item that expires. */
static inline void shard_note_expiry(struct shard *s, uint64_t hash, const struct item *it)
{
    shard_must_be_entered(s);
    if (MF_UNLIKELY(s->changes != NULL)) {
        changes_put_expiry(s->changes, hash, item_key(it), it->key_len);
    }
}

/*
 * Take the shard's lock, try to, or release it. Context: any thread, with no other shard held
 * except as router.h says.
 */
static inline void shard_enter(struct shard *s)
{
    lock_take(&s->lock);
}

static inline bool shard_try_enter(struct shard *s)
{
    return lock_try(&s->lock);
}

static inline void shard_leave(struct shard *s)
{
    lock_give(&s->lock);
}

/*
 * Shut or open the gate, after flush_at or prefix_marks was set: it is shut once a flush is
 * due, and while a prefix is in force. Context: in shard; or the shard is not in use yet.
 */
static inline void shard_set_gate(struct shard *s)
{
    bool has_prefixes = atomic_load_explicit(&s->prefix_marks, memory_order_relaxed) != NULL;
    msec_t flush_at = atomic_load_explicit(&s->flush_at, memory_order_relaxed);

    atomic_store_explicit(&s->gate_at, has_prefixes ? INT64_MIN : flush_at,
                          memory_order_release);
}

/* Does this shard have no share of the limit, and no slots? Context: any thread. */
static inline bool shard_is_idle(const struct shard *s)
{
    return s->id >= atomic_load_explicit(&s->group->sharers, memory_order_relaxed);
}

static inline struct item *shard_item(const struct shard *s, handle_t h)
{
    return memory_item(&s->memory, h);
}

static inline uint64_t shard_hash(const struct shard *s, const struct item *it)
{
    return hash_key(s->seed, item_key(it), it->key_len);
}

/* shard_note_change() after a change of only the deadline, cas or marks of an item. */
static inline void shard_note_meta(struct shard *s, const struct item *it)
{
    if (MF_UNLIKELY(s->changes != NULL)) {
        shard_note_change(s, CHANGE_PUT, shard_hash(s, it), it);
    }
}

/* A linked item has got a new block, h: see struct shard_leave. Context: in shard. */
static inline void shard_note_place(struct shard *s, uint64_t hash, handle_t h)
{
    struct shard_leave *l = s->leave;
    const struct segment *g = memory_segment(&s->memory, h);

    shard_must_be_entered(s);
    if (MF_UNLIKELY(l != NULL) && (g->is_passed || l->chain_passed[g->chain]) &&
        l->leaves(l, hash)) {
        l->has_strays = true;
    }
}

/* ---- owner.c ----------------------------------------------------------------------------- */

/*
 * Callbacks from the memory of a shard about its blocks, which the index and the wheel refer
 * to.
 */

/* The owner is a struct shard. */
extern const struct memory_owner_ops shard_owner_ops;

/* ---- idle.c ------------------------------------------------------------------------------ */

/*
 * Releases the memory of a shard without slots, and so without items: its segments, and its
 * other memory (rest.c). The engine keeps the shard for later use.
 */

/*
 * Return all segments to the system; waits for grace periods. Counters stay. Does nothing in a
 * shard that has items. Memory prepared for flushes stays: see shard_flush_forget(). Context: a
 * thread other than a worker, outside a section and a shard.
 */
void shard_give_all_back(struct shard *s);

/*
 * Release the memory that an idle shard keeps for future items. Does nothing if it has items,
 * or holds segments. A flush allocates some of it again, even in a shard without items.
 * Context: outside a section and a shard.
 */
void shard_rest(struct shard *s);

#endif
