/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Background work of a shard, done by writers and the home worker: resizing the index, creating
 * the ghost lists of the eviction policy, keeping room free, releasing memory.
 */
#ifndef MAYFLY_LIB_SHARD_UPKEEP_H
#define MAYFLY_LIB_SHARD_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/shard/shard.h"

/* ---- the home worker --------------------------------------------------------------------- */

/* Should shard_maintain() be called soon? One relaxed load. Context: any thread. */
bool shard_wants_work(const struct shard *s);

/*
 * Background work for about max_us microseconds: resize steps, cursor slices while room is
 * short, the walk for flushed prefixes, a delayed flush. True if there is more to do at once.
 * Context: home worker, outside a section.
 */
bool shard_maintain(struct shard *s, msec_t now, usec_t max_us);

/*
 * The same while requests are served: the walk for flushed prefixes pauses between its slices,
 * so that it takes the same share of the worker's time as active expiry, unless commands wait
 * for its end. Call it again after a millisecond while shard_prefix_goes_on().
 */
bool shard_maintain_beside(struct shard *s, const struct cycle_config *cfg, msec_t now,
                           usec_t max_us);

/*
 * Are there enough dead bytes that shard_tidy() should be called? One relaxed load. Context:
 * any thread.
 */
bool shard_wants_tidy(const struct shard *s);

/* Result of shard_tidy(): nothing to do until shard_wants_tidy(). */
#define SHARD_TIDY UINT32_MAX

/*
 * Reduce memory after a mass death: check whether dead bytes will soon be reused, or run a
 * slice of cleaning. Its time counts towards the CPU cap of active expiry. Returns the delay
 * until the next call in milliseconds: 0 for none, or SHARD_TIDY. Context: home worker, outside
 * a section.
 */
uint32_t shard_tidy(struct shard *s, const struct cycle_config *cfg, msec_t now);

/* ---- the reclaimer ----------------------------------------------------------------------- */

/*
 * Make a part of the next index resident, and publish it when all of it is. True if there is
 * more to do. Context: reclaimer, outside a shard.
 */
bool shard_touch_burst(struct shard *s);

/* ---- writers ----------------------------------------------------------------------------- */

/*
 * Continue a resize of the index by this many old buckets. True if there is more to do.
 * Context: in shard.
 */
bool shard_resize_step(struct shard *s, uint64_t buckets);

/* A flush discarded the index that was being resized. Accepts NULL. Context: any thread. */
void shard_resize_forget(struct table_retiree *t);

/* Release the objects of a resize. Context: the shard is being destroyed. */
void shard_resize_fini(struct shard *s);

/*
 * Wake the home worker, which may be asleep, for new work: an earlier deadline or flush, or a
 * shard that starts to need upkeep or tidying. Called only when that changes, so most
 * operations pay nothing for it. Context: in shard.
 */
void shard_wake_home(struct shard *s);

/* The shard wants upkeep; wakes the home worker if that is new. Context: in shard. */
void shard_want_work(struct shard *s);

/*
 * Check whether the index, the past of the eviction policy or the budget need work, and set the
 * flags accordingly. Context: in shard.
 */
void shard_note_work(struct shard *s);

/*
 * Resize the index for `items` items. is_least: it does not shrink below that until the next
 * call. The reclaimer makes large arrays resident. shard_resize_goes_on() says whether there is
 * more to do, and shard_resize_step() does a step. Context: outside the shard.
 *
 * rolls: a resize of a large array is a rolling one (lib/index/table.h). Until it is complete,
 * the caller calls shard_roll_index() before each step, which makes the next part of the new
 * array resident and releases the empty part of the old one. Or it calls shard_unroll_index(),
 * and the resize continues without it. Context: one thread at a time, outside the shard and a
 * section.
 */
void shard_fit_index(struct shard *s, uint64_t items, bool is_least, bool rolls);
void shard_roll_index(struct shard *s);
void shard_unroll_index(struct shard *s);
bool shard_resize_goes_on(const struct shard *s); /* Context: in shard */

/*
 * Create an index, a past or a step of the range that is wanted. Large arrays are only mapped:
 * see shard_touch_burst(). Context: outside the shard.
 */
void shard_make_wanted(struct shard *s);

/* Old buckets moved by each writer while the index is resized. */
#define RESIZE_STEP_BUCKETS 2

/*
 * What a writer does before and after it leaves; cheap if there is no work. Context: in shard /
 * outside.
 */
static inline void shard_before_leave(struct shard *s)
{
    shard_must_be_entered(s);
    if (MF_UNLIKELY(s->table.phase != TABLE_STEADY)) {
        shard_resize_step(s, RESIZE_STEP_BUCKETS);
    }
}

static inline void shard_after_leave(struct shard *s)
{
    shard_must_not_be_entered(s);
    if (MF_UNLIKELY(atomic_load_explicit(&s->wants_making, memory_order_relaxed))) {
        shard_make_wanted(s);
    }
}

#endif
