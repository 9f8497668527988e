/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of a shard: from hash to handle. A bucket is one cache line: twelve
 * one-byte tags, an overflow count, twelve handles. A hit costs two misses (the
 * bucket, the item), a miss one.
 *
 *     word 0: tags of slots 0..7
 *     word 1: tags of slots 8..11, then 32 bits: how many items whose probe began here or
 *             earlier passed over this bucket because it was full
 *     slot[12]: handles; 0 is empty
 *
 * An item that finds its bucket full goes to the next one with room; every bucket it
 * passes counts it, so a lookup goes on while the count is not zero and ends else.
 *
 * Readers hold a read-side section and no lock. A tag that matches is a hint; handle and
 * key decide. Writers are in the shard. An insert stores the handle, then the tag
 * (release); a removal clears the tag, then the handle.
 *
 * Resizing (powers of two, grow and shrink): (old, new) are published as one view before
 * anything moves; buckets move only after a grace period, a bounded number a step. While both
 * exist readers look in old, then new; a move links in new before it unlinks from
 * old; writers find in both and insert in new. The old array is handed out for
 * release after a last grace period.
 */
#ifndef MAYFLY_LIB_INDEX_TABLE_H
#define MAYFLY_LIB_INDEX_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/mem.h"
#include "lib/memory/item.h"

#define TABLE_SLOTS       12u
#define TABLE_MIN_BUCKETS 16u

struct table_bucket {
    _Atomic uint64_t word[2];
    _Atomic handle_t slot[TABLE_SLOTS];
};

_Static_assert(sizeof(struct table_bucket) == 64, "a bucket is one cache line");

/* One published state. [const] once published. */
struct table_view {
    struct table_bucket *buckets;
    uint64_t mask;            /* buckets - 1 */
    struct table_bucket *old; /* NULL while nothing is being moved */
    uint64_t old_mask;
};

enum table_phase { TABLE_STEADY, TABLE_PUBLISHED, TABLE_MOVING, TABLE_DRAINED };

struct table {
    /* [rcu] */
    _Atomic(struct table_view *) view;
    /* [const] */
    struct budget *budget; /* arrays are counted here; may be NULL in tests */
    uint64_t min_buckets;
    uint64_t seed; /* of hash_key(), to hash again what is moved */
    /* [lock] */
    enum table_phase phase;
    uint64_t count;            /* handles present */
    uint64_t move_next;        /* next old bucket to move */
    struct table_view *before; /* what the resize under way replaced; NULL while steady */
    struct table_view *after;  /* what it will end with */
};

/* What a resize needs, made before the shard is entered. */
struct table_grow {
    struct table_view *view;  /* while things move */
    struct table_view *after; /* made here, so that retiring needs no memory */
    uint64_t bytes;
};

/* What a resize leaves, released after a grace period, outside the shard. */
struct table_waste {
    struct table_view *views[2];
    struct table_bucket *array;
    uint64_t array_bytes;
};

/*
 * Make a table for about `items` items; it never shrinks below that. A table grows while stores
 * go on, but its first items move only after a grace period: make it large enough for what may
 * come in one (thousands), as tables of a few buckets run out of room. False when there is no
 * memory. Context: any thread, before the table is shared.
 */
bool table_init(struct table *t, uint64_t items, uint64_t seed, struct budget *budget);

/* Release everything. Context: nobody else uses the table. */
void table_fini(struct table *t);

/*
 * Hints for a batch: bring the bucket of a hash, then the item its tag names, into the cache.
 * Context: read side.
 */
static inline void table_prefetch_bucket(const struct table *t, uint64_t hash);
static inline void table_prefetch_item(const struct table *t, const char *base, uint64_t hash);

/* The item of a key, or NULL. base is that of the handles. Context: read side, or in shard. */
static inline const struct item *table_find(const struct table *t, const char *base,
                                            uint64_t hash, const char *key, size_t key_len);

/*
 * The slot that names a key, or NULL; valid until the next table call of this visit.
 * Context: in shard.
 */
static inline _Atomic handle_t *table_slot(struct table *t, const char *base, uint64_t hash,
                                           const char *key, size_t key_len);

/* The slot that holds exactly this handle, or NULL; reads no item. Context: in shard. */
_Atomic handle_t *table_slot_of(struct table *t, uint64_t hash, handle_t handle);

/*
 * Is there room for one more insert? False only when growing failed, or was not carried on, for
 * long: above 15/16 of the array that takes inserts. Context: in shard.
 */
static inline bool table_has_room(const struct table *t);

/* Insert; the key must be absent and there must be room. Context: in shard. */
void table_insert(struct table *t, uint64_t hash, handle_t handle);

/* Let a slot name another block of the same key. Context: in shard. */
static inline void table_replace(_Atomic handle_t *slot, handle_t handle)
{
    atomic_store_explicit(slot, handle, memory_order_release);
}

/* Empty a slot that table_slot() or table_slot_of() gave. Context: in shard. */
void table_remove(struct table *t, uint64_t hash, _Atomic handle_t *slot);

/*
 * Resizing. wants: buckets the table should have, or 0 when it is well as it is or is being
 * resized (grows above 80 % full, shrinks below 15 %). prepare: allocates (outside the shard),
 * false when there is no memory; undo: gives that back unused. publish: takes what was
 * prepared; should the table have outgrown it meanwhile, the resize runs its course and leaves
 * the table as it was. The caller then lets a grace period pass and calls begin_move; step
 * moves up to `buckets` old buckets and returns true when all are moved; retire publishes the
 * new array alone and fills the waste.
 * Context: in shard, but prepare, undo and release: any thread, outside the shard.
 */
uint64_t table_wants(const struct table *t);
bool table_prepare(const struct table *t, uint64_t buckets, struct table_grow *grow);
void table_prepare_undo(const struct table *t, struct table_grow *grow);
void table_publish(struct table *t, struct table_grow *grow);
void table_begin_move(struct table *t);
bool table_step(struct table *t, const char *base, uint64_t buckets);
void table_retire(struct table *t, struct table_waste *waste);
void table_waste_release(struct table_waste *waste, struct budget *budget);

/*
 * Exchange the content with a table that nobody else knows: readers see the one or the other.
 * Budget, seed and least size are those of both. Context: in shard.
 */
void table_swap(struct table *t, struct table *other);

/* Bytes of all arrays. Context: in shard. */
uint64_t table_bytes(const struct table *t);

/*
 * Walk: calls fn for every handle of one position and returns the next cursor, 0 at the
 * end. An item present all the time is met at least once, also over resizes (positions are
 * visited in reverse binary order, as in Redis' dictScan by P. Noordhuis), and exactly once
 * when nothing was resized meanwhile.
 *
 * A position is a home bucket, not a physical one: an item that stands further on because
 * its bucket was full is reported where its hash belongs, or a resize between two steps
 * could carry it past the cursor. So the walk hashes the keys it meets; base is that of the
 * handles.
 * fn may remove what it is given when it runs in the shard.
 * Context: in shard, or read side.
 */
typedef void (*table_walk_fn)(void *arg, handle_t handle);
uint64_t table_walk(const struct table *t, const char *base, uint64_t cursor, table_walk_fn fn,
                    void *arg);

#include "lib/index/table_inline.h"

#endif
