/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/expiry: when the items of a shard expire, and how much work is spent on expiry.
 *
 *     wheel    the volatile items of a shard by deadline, in a timing wheel. wheel.h is the
 *              interface for the shard, wheel_shape.h and wheel_pool.h are private to wheel*.c
 *     cycle    the policy: Redis' slow and fast expire cycles, as budgets of time and keys
 *     lag      a histogram of the delay of expiry
 *
 * The three are independent. The shard combines them: lib/shard/expire.c runs a slice of the
 * cycle, which samples the wheel and records the lag. The folder includes lib/base and, of
 * lib/memory, only item.h; it does not depend on keys, the index or the shard.
 *
 * The wheel is a hierarchical timing wheel (G. Varghese, A. Lauck, "Hashed and hierarchical
 * timing wheels", SOSP 1987) whose buckets are unrolled lists: chains of nodes of one cache
 * line with 14 handles each. An item stores the number of its node (item_node()), so add, move
 * and remove take constant time and touch at most three cache lines.
 *
 * Calls are made under the lock passed to wheel_create() (Context: in shard), unless documented
 * otherwise. Only wheel_create() and wheel_reserve() can fail.
 */
#ifndef MAYFLY_LIB_EXPIRY_WHEEL_H
#define MAYFLY_LIB_EXPIRY_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/memory/item.h"

struct wheel;
struct wheel_node;

/*
 * Make an empty wheel. base is the address that handles are relative to. lock is [borrowed]:
 * debug builds check that every call holds it; NULL when only one thread uses the wheel.
 * Memory is counted in budget, which may be NULL. Returns NULL when there is no memory.
 * Context: any thread, before the wheel is shared.
 */
struct wheel *wheel_create(char *base, struct budget *budget, const struct lock *lock,
                           msec_t now);

/*
 * Set the time of an empty wheel that was made earlier. Context: in shard, or before the wheel
 * is shared.
 */
void wheel_start(struct wheel *w, msec_t now);

/* Release everything and null the pointer; accepts NULL. Context: no other thread uses it. */
void wheel_destroy(struct wheel **w);

/*
 * Release the memory of an empty wheel; the wheel allocates it again for the next items. Makes
 * system calls, so no thread may be waiting for the shard. Context: in shard.
 */
void wheel_rest(struct wheel *w);

/*
 * Make sure that the next wheel_add() has room. Without a spare, memory is allocated here.
 * False when there is none. Context: in shard.
 */
bool wheel_reserve(struct wheel *w);

/*
 * Memory that a wheel grows by next, so that it allocates nothing in the shard: a slab of
 * nodes, and a longer directory of slabs when the present one is full. Empty: both NULL.
 */
struct wheel_spare {
    struct wheel_node *slab;
    struct wheel_node **slabs;
    uint32_t capacity; /* of slabs */
};

/*
 * From now on the wheel sets *wants when it needs a spare and has none. wants is [borrowed].
 * Context: before the wheel is shared; *wants is written in shard.
 */
void wheel_tell(struct wheel *w, bool *wants);

/* Required length of the directory of a spare; 0: no directory is needed. Context: in shard. */
uint32_t wheel_spare_capacity(const struct wheel *w);

/*
 * Allocate a spare, and touch its pages. False when there is not enough memory; a part that was
 * allocated can be used. Context: any thread, outside a shard.
 */
bool wheel_spare_make(struct wheel_spare *spare, uint32_t capacity);

/* Pass a spare to the wheel. On return it has the unused part. Context: in shard. */
void wheel_take_spare(struct wheel *w, struct wheel_spare *spare);

/* Release its content. Context: any thread, outside a shard. */
void wheel_spare_release(struct wheel_spare *spare);

/*
 * Add an item by its deadline (not MSEC_NEVER; it may have passed) and set its node.
 * Needs a reserve. Debt and forecast count the item by item_bytes(), which must not change
 * while it is in the wheel, as its deadline must not except by wheel_retime(). Context: in
 * shard.
 */
void wheel_add(struct wheel *w, handle_t handle);

/*
 * Remove an item and clear its node; an item without a node is ignored. Context: in shard.
 */
void wheel_remove(struct wheel *w, handle_t handle);

/*
 * Change the deadline of an item if it stays in its bucket. The item must have room for the new
 * deadline (item_can_have()), which must not be MSEC_NEVER.
 * Far deadlines share buckets of hours, so most items that are touched can stay. Returns false
 * and changes nothing when the item is not in the wheel, or must be removed and added instead.
 * Context: in shard.
 */
bool wheel_retime(struct wheel *w, handle_t handle, msec_t deadline);

/*
 * Put an item in the place of another one with the same key, if its deadline belongs in the
 * same bucket; the old item leaves the wheel. Both must have the TTL field, and the new one a
 * deadline. Returns false and changes nothing if the old item is not in the wheel, or must be
 * removed and the new one added instead. Context: in shard.
 */
bool wheel_replace(struct wheel *w, handle_t old, handle_t handle);

/*
 * An item was copied from one block to another, with its node and deadline; the header of
 * the old block still has its size. Context: in shard.
 */
void wheel_moved(struct wheel *w, handle_t from, handle_t to);

/*
 * One step of at most max items. Fills out[] with due items and returns their number; they are
 * still in the wheel, and leave it when the caller unlinks them. Also moves items that are not
 * due yet into finer buckets. *sampled counts both. "Due" means due at `now`, or at a later
 * time passed to an earlier call. Context: in shard.
 */
unsigned wheel_sample(struct wheel *w, msec_t now, handle_t *out, unsigned max,
                      unsigned *sampled);

/*
 * Draw up to max items at random; some may be due, and one may be drawn twice. Fewer after too
 * many unsuccessful draws, but at least one if the wheel has any. *random is the state of
 * random numbers (num_random()). Context: in shard.
 */
unsigned wheel_draw(struct wheel *w, uint64_t *random, handle_t *out, unsigned max);

/*
 * Up to max items with the earliest deadlines, in no order: items that are due, and items of
 * the first bucket. That bucket covers half a second for deadlines up to 65 s ahead, 66 s up to
 * some hours ahead, and 4.7 hours beyond. If no item is due, and the bucket has at most max - 4
 * items, the earliest item of all is among them. Of a larger bucket the newest items are
 * returned, and different ones in each call. Returns 0 only if the wheel is empty. Context: in
 * shard.
 */
unsigned wheel_soonest(struct wheel *w, handle_t *out, unsigned max);

/*
 * The number of due keys, as far as it is known without reading an item: all but those in a
 * bucket that is partly due (see wheel_behind()). O(1) when no time has passed.
 * Context: in shard.
 */
uint64_t wheel_debt(struct wheel *w, msec_t now);

/*
 * The number of keys that should be in finer buckets by now, so that each is in its place
 * before it falls due. The sampler should go on while this is not 0. Context: in shard.
 */
uint64_t wheel_behind(struct wheel *w, msec_t now);

#define WHEEL_FORECASTS 4u

/*
 * Debt is exact unless more than 4096 items would have to be read for it, because the sampler
 * is late. Then a bucket that is partly due counts by its share of the time, and debt_oldest_ms
 * may be too large.
 *
 * ttl_sum_ms is exact, from one sum of all deadlines, unless that many items would have to be
 * read. Then those that are due in coarse buckets are taken as evenly spread over them, and the
 * result is within what the buckets of the live items allow.
 *
 * The forecast counts what is not due yet. It counts the bucket that straddles its end by its
 * share of the time: that is half a second of deadlines up to 65 s ahead, and 66 s of them
 * beyond (also nearer, for keys whose bucket is still being refined).
 */
struct wheel_info {
    uint64_t keys;      /* volatile items */
    uint64_t debt_keys; /* due, and still in the wheel */
    uint64_t debt_bytes;
    msec_t debt_oldest_ms;        /* how long the oldest has been due; 0 without debt */
    uint64_t alive_keys;          /* those that are not due, and in ttl_sum_ms */
    unsigned __int128 ttl_sum_ms; /* their remaining time to live; at most 34 years each */
    uint64_t bytes;               /* memory of the wheel itself */
    /* falling due within 1 s, 10 s, 60 s, 600 s from now */
    uint64_t forecast_keys[WHEEL_FORECASTS];
    uint64_t forecast_bytes[WHEEL_FORECASTS];
};

/* Fill in the figures as of now; bounded by the number of buckets. Context: in shard. */
void wheel_info(struct wheel *w, msec_t now, struct wheel_info *info);

/* Memory of the wheel itself. Context: in shard, or before the wheel is shared. */
uint64_t wheel_bytes(const struct wheel *w);

/* Number of volatile items. Context: any thread (relaxed). */
uint64_t wheel_count(const struct wheel *w);

/* The latest time passed to a call. Context: in shard. */
msec_t wheel_time(const struct wheel *w);

/*
 * The time when the next work is due: an item to expire, or a coarse bucket to refine. Never
 * later than the earliest deadline; MSEC_NEVER when there is no work. Context: in shard.
 */
msec_t wheel_next(const struct wheel *w);

#endif
