/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/index: the hash table that finds the item of a key.
 *
 * The folder has one module: table.h with its lookup in table_inline.h. It includes lib/base
 * and, of lib/memory, only item.h. It maps the hash of a key to a handle and compares the key
 * in the item. It does not check whether the item is alive.
 *
 * A bucket is one cache line: twelve one-byte tags, an overflow count, and twelve handles. A
 * hit costs two cache misses (the bucket and the item), a miss costs one.
 *
 *     word 0: tags of slots 0..7
 *     word 1: tags of slots 8..11, then 32 bits: how many items have passed over this bucket,
 *             because it was full, on their way from their home bucket
 *     slot[12]: handles; 0 is empty
 *
 * An item whose bucket is full goes to the next one with room. Every bucket that it passes
 * counts it, so a lookup goes on to the next bucket while the count is not zero.
 *
 * Readers are in a read-side section and hold no lock. A tag that matches is a hint; the key in
 * the item decides. Writers hold the lock that table_init() is given. An insert stores the
 * handle, then the tag (release); a removal clears the tag, then the handle.
 *
 * A resize goes from one power of two to another, up or down. The two arrays (old, new) are
 * published as one view before anything moves. Buckets move only after a grace period, a
 * bounded number per step. While both arrays exist, readers look in old, then in new; a move
 * links an item in new before it unlinks it from old; writers look in both and insert in new.
 * The old array is handed out, to be released after another grace period.
 *
 * A rolling resize needs little more memory than the larger array alone. One thread makes a
 * part of the new array resident, moves the old buckets that belong there, and releases the
 * part of the old array that has become empty. Inserts go to the old array as long as the key's
 * home bucket there has not moved. Writers move a few of the buckets that are ready, too; the
 * home worker leaves them to that thread.
 */
#ifndef MAYFLY_LIB_INDEX_TABLE_H
#define MAYFLY_LIB_INDEX_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/memory/item.h"

#define TABLE_SLOTS       12u
#define TABLE_MIN_BUCKETS 16u

struct table_bucket {
    _Atomic uint64_t word[2];
    _Atomic handle_t slot[TABLE_SLOTS];
};

_Static_assert(sizeof(struct table_bucket) == 64, "a bucket is one cache line");

/* The arrays that readers see. [const] once published. */
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
    struct budget *budget;   /* [borrowed] arrays are counted in it; may be NULL in tests */
    const struct lock *lock; /* [borrowed] guards the table; NULL: one thread only */
    uint64_t part_buckets;   /* buckets in a part that a rolling resize touches or drops */
    uint64_t seed;           /* of hash_key(), to hash the keys of items that move */
    /* [lock] */
    uint64_t min_buckets; /* it does not shrink below */
    uint64_t asked;       /* buckets of the next resize; 0: as many as it needs */
    bool asked_rolls;     /* and that resize is a rolling one */
    enum table_phase phase;
    uint64_t count;     /* items */
    uint64_t move_next; /* next old bucket to move */
    uint64_t ready;     /* old buckets below may move; TABLE_ALL: the resize does not roll */
    uint64_t touched;   /* resident parts of the new array that the next old buckets move to */
    uint64_t drained;   /* pages of old buckets below are released */
    struct table_view
        *before;              /* the view that the current resize replaced; NULL while steady */
    struct table_view *after; /* the view that it will end with */
};

#define TABLE_ALL UINT64_MAX

/* Buckets in a part of a rolling resize: a huge page. In debug builds small tables roll. */
#ifdef MAYFLY_DEBUG
#define TABLE_PART_BUCKETS 1024u
#else
#define TABLE_PART_BUCKETS (MEM_HUGE_BYTES / sizeof(struct table_bucket))
#endif

/* What a resize needs; made before the shard is entered. */
struct table_grow {
    struct table_view *view;  /* for the time of the resize */
    struct table_view *after; /* made early, so that retiring needs no memory */
    uint64_t bytes;
    size_t touched; /* of them: resident */
    bool rolls;     /* table_rolls() of these buckets; the caller sets it */
};

/* A part of an array of a rolling resize. Valid in the section that it was made in. */
struct table_part {
    const struct table_view *view;
    struct table_bucket *buckets;
    uint64_t count;
};

/* What a resize leaves behind; released outside the shard, after a grace period. */
struct table_waste {
    struct table_view *views[2];
    struct table_bucket *array;
    uint64_t array_bytes;
};

/*
 * Make a table for about `items` items; it never shrinks below that. A table grows while items
 * are stored, but its first items move only after a grace period. So make it large enough for
 * what may be stored within one (thousands): a table of a few buckets would run out of room.
 * lock is [borrowed]: debug builds check that writers hold it; NULL when only one thread uses
 * the table. False when there is no memory. Context: any thread, before the table is shared.
 */
bool table_init(struct table *t, uint64_t items, uint64_t seed, struct budget *budget,
                const struct lock *lock);

/* Largest number of items for which table_init() takes at most `bytes`. Context: any thread. */
uint64_t table_items_in(uint64_t bytes);

/*
 * Set the smallest size to which it may shrink: a table for `items` items. Context: in shard.
 */
void table_set_least(struct table *t, uint64_t items);

/*
 * Request one resize to the size for `items` items, even if it is not needed yet. The request
 * is dropped if that size is too small by then. rolls: if both arrays are large, the caller
 * drives the resize; see table_next_part(). Context: in shard.
 */
void table_ask(struct table *t, uint64_t items, bool rolls);

/* Bytes of the array that table_ask() requests. Context: any thread. */
uint64_t table_bytes_for(uint64_t items);

/*
 * Bytes that count twice during a rolling resize to an array of this size, though they are in
 * one of the arrays only; 0: such a resize does not roll. Context: in shard.
 */
uint64_t table_overlap(const struct table *t, uint64_t bytes);

/*
 * Release the pages of the array of an empty table until they are used again. Makes system
 * calls, so no thread may be waiting for the shard. Context: in shard.
 */
void table_rest(struct table *t);

/* Release everything. Context: no other thread uses the table. */
void table_fini(struct table *t);

/*
 * Hints for a batch: bring the bucket of a hash into the cache, then the item that its tag
 * suggests, which is returned; NULL: none. If that item has the key, and is live, it is what
 * table_find() finds. Context: read side, or in shard.
 */
static inline void table_prefetch_bucket(const struct table *t, uint64_t hash);
static inline const struct item *table_prefetch_item(const struct table *t, const char *base,
                                                     uint64_t hash);

/*
 * The item of a key, or NULL. base is the address that handles are relative to. Context: read
 * side, or in shard.
 */
static inline const struct item *table_find(const struct table *t, const char *base,
                                            uint64_t hash, const char *key, size_t key_len);

/*
 * The slot that has the handle of a key, or NULL. Valid until the table is changed or the shard
 * is left. Context: in shard.
 */
static inline _Atomic handle_t *table_slot(struct table *t, const char *base, uint64_t hash,
                                           const char *key, size_t key_len);

/* The slot that holds exactly this handle, or NULL; reads no item. Context: in shard. */
_Atomic handle_t *table_slot_of(struct table *t, uint64_t hash, handle_t handle);

/*
 * Is there room for one more insert? False above 15/16 of the array that takes inserts, which
 * happens only when growing has failed, or was not continued, for a long time.
 * Context: in shard.
 */
static inline bool table_has_room(const struct table *t);

/* Insert; the key must be absent and there must be room. Context: in shard. */
void table_insert(struct table *t, uint64_t hash, handle_t handle);

/* Put another block of the same key into a slot. Context: in shard. */
static inline void table_replace(_Atomic handle_t *slot, handle_t handle)
{
    atomic_store_explicit(slot, handle, memory_order_release);
}

/* Empty a slot that table_slot() or table_slot_of() returned. Context: in shard. */
void table_remove(struct table *t, uint64_t hash, _Atomic handle_t *slot);

/*
 * The steps of a resize:
 *
 *     wants       returns how many buckets the table should have, or 0 when it should stay as
 *                 it is or is being resized. It grows above 80 % full, and shrinks below 15 %,
 *                 or has what was asked for.
 *     prepare     allocates; false when there is no memory. prepare_undo releases that unused.
 *     touch       makes a part of the new array resident, so that no page faults happen in the
 *                 shard; returns true when all of it is.
 *     publish     takes what was prepared. If the table has outgrown it by now, the resize goes
 *                 through all steps and leaves the table as it was.
 *     begin_move  is called a grace period after publish.
 *     step        moves up to `buckets` old buckets; returns true when all have moved.
 *     retire      publishes the new array alone, and fills in the waste.
 *     waste_release  releases the waste, a grace period later.
 *
 * Context: in shard; prepare, prepare_undo, touch and waste_release: any thread, outside the
 * shard.
 */
uint64_t table_wants(const struct table *t);
bool table_rolls(const struct table *t, uint64_t buckets); /* a resize to them shall roll */
bool table_prepare(const struct table *t, uint64_t buckets, struct table_grow *grow);
void table_prepare_undo(const struct table *t, struct table_grow *grow);
bool table_touch(struct table_grow *grow);
void table_publish(struct table *t, struct table_grow *grow);
void table_begin_move(struct table *t);
bool table_step(struct table *t, const char *base, uint64_t buckets);
void table_retire(struct table *t, struct table_waste *waste);
void table_waste_release(struct table_waste *waste, struct budget *budget);

/*
 * Steps of the thread that asked for a rolling resize, repeated until the resize is complete:
 *
 *     next_part   finds the part that must be resident next, so that buckets may move to it;
 *                 false: none
 *     touch_part  makes it resident
 *     part_done   marks the buckets that move to this part as ready
 *     drained     finds a part of the old array that is empty; false: none
 *     drop_part   releases its pages
 *     unroll      the resize continues without this thread, with page faults in the shard
 *
 * Between next_part and part_done, and drained and drop_part, the thread stays in a section, so
 * that the arrays stay. Context: next_part, part_done, drained and unroll: in shard; touch_part
 * and drop_part: read side, outside the shard.
 */
bool table_next_part(struct table *t, struct table_part *part);
void table_touch_part(const struct table_part *part);
void table_part_done(struct table *t, const struct table_part *part);
bool table_drained(struct table *t, struct table_part *part);
void table_drop_part(const struct table_part *part);
void table_unroll(struct table *t);

/* Are there old buckets that table_step() can move now? Context: in shard. */
static inline bool table_may_step(const struct table *t)
{
    return t->phase == TABLE_MOVING && t->move_next < t->ready;
}

/*
 * Exchange the content with a table that no other thread knows: a reader sees the one or the
 * other. Both have the same budget, lock and seed; each keeps its least size. Context: in
 * shard.
 */
void table_swap(struct table *t, struct table *other);

/* Bytes of all arrays. Context: in shard, or no other thread uses the table. */
uint64_t table_bytes(const struct table *t);

/* Buckets of the array that takes inserts. Context: as table_bytes(). */
static inline uint64_t table_buckets(const struct table *t);

/*
 * Draw up to max items at random; each bucket has the same chance. Fewer after too many
 * unsuccessful draws, but at least one if the table has any. An item may be drawn twice.
 * *random is the state of random numbers (num_random()). Context: in shard.
 */
unsigned table_sample(const struct table *t, uint64_t *random, handle_t *out, unsigned max);

/*
 * Walk: call fn for every handle of one position, with the hash of its key, and return the next
 * cursor; 0 at the end. An item that is there all the time is visited at least once, even if
 * the table is resized (positions are visited in reverse binary order, as in Redis' dictScan by
 * P. Noordhuis), and exactly once if it is not.
 *
 * A position is a home bucket: an item that is in a later bucket, because its own was full, is
 * reported with its home. Otherwise a resize between two steps could carry it past the cursor.
 * So the walk hashes the keys that it visits. base is the address that handles are relative to.
 *
 * fn may remove the handle that it is given if the caller is in the shard.
 * Context: in shard, or read side.
 */
typedef void (*table_walk_fn)(void *arg, handle_t handle, uint64_t hash);
uint64_t table_walk(const struct table *t, const char *base, uint64_t cursor, table_walk_fn fn,
                    void *arg);

/*
 * The same for a walk over the whole table: it prefetches the next positions, so that their
 * cache misses overlap. *positions: number of positions in the table. If this is smaller than
 * in the last call, the table has shrunk: a position that the walk had left in the middle now
 * also includes others, which it has not visited.
 */
uint64_t table_walk_ahead(const struct table *t, const char *base, uint64_t cursor,
                          table_walk_fn fn, void *arg, uint64_t *positions);

/*
 * Has a walk that continues at this cursor passed the position of this hash? Then items with
 * this hash were visited, or were inserted later. Valid during a resize too. Cursor 0 is not
 * allowed: it means both the beginning and the end. Context: any thread.
 */
bool table_walk_passed(uint64_t cursor, uint64_t hash);

#include "lib/index/table_inline.h"

#endif
