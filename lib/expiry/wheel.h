/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volatile items of a shard, ordered by deadline: a hierarchical timing wheel (G. Varghese,
 * A. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987) whose buckets are chains of
 * dense chunks of handles. An item stores where it stands (wheel_pos), so add, move and
 * remove are O(1) and touch at most three cache lines.
 */
#ifndef MAYFLY_LIB_EXPIRY_WHEEL_H
#define MAYFLY_LIB_EXPIRY_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/memory/item.h"

struct wheel;

/*
 * Make an empty set; base is that of the handles; memory is counted in budget (may be
 * NULL). NULL when there is no memory. Context: before start, or outside the shard.
 */
struct wheel *wheel_create(char *base, struct budget *budget, msec_t now);

/* An empty set that was made earlier begins now. Context: in shard, or not yet of one. */
void wheel_start(struct wheel *w, msec_t now);

/* Release all; takes the address and nulls it; accepts NULL. Context: nobody else uses it. */
void wheel_destroy(struct wheel **w);

/* Make sure that the next add cannot fail. False when there is no memory. Context: in shard. */
bool wheel_reserve(struct wheel *w);

/*
 * Add an item by its deadline field (not MSEC_NEVER; one that has passed is fine) and set its
 * position. Needs a reserve. Debt and forecast count it by item_bytes(), which must not change
 * while it is in. Context: in shard.
 */
void wheel_add(struct wheel *w, handle_t handle);

/*
 * Remove an item and clear its position; a position of 0 is ignored. The deadline may be
 * changed before or after, but not while the item stays in. Context: in shard.
 */
void wheel_remove(struct wheel *w, handle_t handle);

/*
 * Change the deadline field of an item (not to MSEC_NEVER) where that leaves it in its place:
 * of far deadlines hours share a bucket, so most that are put off stay. False, and nothing was
 * changed: the item is not in the set, or must be removed and added. Context: in shard.
 */
bool wheel_retime(struct wheel *w, handle_t handle, msec_t deadline);

/*
 * An item takes the place of another with the same key, when its deadline belongs where that of
 * the old one does; the old one leaves the set. False, and nothing was changed: the old one is
 * not in the set, or it must be removed and the new one added. Both have the fields, and the
 * new one a deadline. Context: in shard.
 */
bool wheel_replace(struct wheel *w, handle_t old, handle_t handle);

/*
 * An item was copied from one block to another, position and deadline included; the header of
 * the old block still tells its size. Context: in shard.
 */
void wheel_moved(struct wheel *w, handle_t from, handle_t to);

/*
 * One step of at most max handles: fills out[] with due items (still in the set: the caller
 * unlinks them, which removes them), and moves not yet due items that it had to look at
 * into finer buckets. *sampled counts all it looked at. Returns the number of due ones: due by
 * now, or by a later moment that another call has named before. Context: in shard.
 */
unsigned wheel_sample(struct wheel *w, msec_t now, handle_t *out, unsigned max,
                      unsigned *sampled);

/*
 * The sum of what those had left to live that the last sample found alive: *sampled less
 * the due ones. Context: in shard.
 */
uint64_t wheel_sampled_ttl_ms(const struct wheel *w);

/*
 * Due keys that are known as such without a look at any item, in O(1) when no time has
 * passed: all, but for a bucket that is partly due (see wheel_behind). Context: in shard.
 */
uint64_t wheel_debt(struct wheel *w, msec_t now);

/*
 * Keys that ought to be in finer buckets by now, so that everything is in its place before
 * it falls due: while this is not 0 the sampler should go on. Context: in shard.
 */
uint64_t wheel_behind(struct wheel *w, msec_t now);

/*
 * Debt is exact as long as the sampler is not so late that more than 4096 items have to be
 * looked at for it; then it counts a bucket that is partly due by its share of the time, and
 * debt_oldest_ms may be too large. The forecast is of what is not due yet; it counts the bucket
 * that straddles its end by share: half a second of deadlines up to 65 s ahead, 66 s of them
 * beyond (also nearer, for keys of such a bucket that is still being refined).
 */
struct wheel_info {
    uint64_t keys;      /* volatile items */
    uint64_t debt_keys; /* due and still here */
    uint64_t debt_bytes;
    msec_t debt_oldest_ms; /* how long the oldest has been due; 0 without debt */
    uint64_t bytes;        /* memory of the set itself */
    /* what falls due within 1 s, 10 s, 60 s, 600 s from now */
    uint64_t forecast_keys[4];
    uint64_t forecast_bytes[4];
};

/* Fill in the figures as of now. Bounded by the number of buckets. Context: in shard. */
void wheel_info(struct wheel *w, msec_t now, struct wheel_info *info);

/* Memory of the set itself. Context: in shard. */
uint64_t wheel_bytes(const struct wheel *w);

/* Number of volatile items. Context: any thread (relaxed). */
uint64_t wheel_count(const struct wheel *w);

/*
 * The moment at which the next work is due (an item, or a coarse bucket to refine), never later
 * than the earliest deadline; MSEC_NEVER when there is none. Context: in shard.
 */
msec_t wheel_next(const struct wheel *w);

/*
 * True when every structure agrees with every other; walks all. For tests and debugging.
 * Context: in shard.
 */
bool wheel_verify(const struct wheel *w);

#endif
