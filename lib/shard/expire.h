/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active expiry of a shard: the slices of the cycle (lib/expiry/cycle.h), whose sampling loops
 * take the lock one by one, and their counters.
 */
#ifndef MAYFLY_LIB_SHARD_EXPIRE_H
#define MAYFLY_LIB_SHARD_EXPIRE_H

#include <stdbool.h>

#include "lib/base/clock.h"
#include "lib/expiry/cycle.h"
#include "lib/shard/shard.h"

/*
 * One slice of active expiry and its counters; true while the cycle wants another. Context:
 * home worker.
 */
bool shard_expire_slice(struct shard *s, enum cycle_kind kind, const struct cycle_config *cfg);

/*
 * May a fast cycle begin? Yes if there is debt and the gap and the CPU cap allow it. Two loads
 * if not. Context: home worker.
 */
bool shard_wants_fast(struct shard *s, const struct cycle_config *cfg, msec_t now);

/*
 * In how many milliseconds, rounded up, the gap and the CPU cap allow a fast cycle. Context:
 * home worker.
 */
unsigned shard_fast_in_ms(const struct shard *s, const struct cycle_config *cfg);

/*
 * When the next background work falls due (deadline, refinement, delayed flush); MSEC_NEVER:
 * none. Context: any thread.
 */
msec_t shard_next_due(const struct shard *s);

/*
 * The same, for a home worker that is about to sleep: if active expiry is off, what falls due
 * meanwhile is not late until it is on again. Context: home worker.
 */
msec_t shard_sleep_until(struct shard *s);

/*
 * Are expired items kept now? They are not found, but nobody unlinks them: neither the sampler
 * nor who meets one, nor what cleans. Two exceptions: an item takes the place of an expired one
 * of its key, and where there is no room left, expired items go before anything alive. Context:
 * any thread.
 */
static inline bool shard_holds(const struct shard *s, msec_t now)
{
    return now < atomic_load_explicit(&s->group->hold_until, memory_order_relaxed);
}

/*
 * A time up to which nothing due is left: each item that is here has a later deadline. At most
 * `now`; earlier while something due is kept or waits for the sampler. It never goes back. A
 * writer that read the clock before may yet store an item with an earlier deadline, which has
 * passed by then. Context: in shard.
 */
msec_t shard_due_gone(struct shard *s, msec_t now);

/* Hold the sampler: nothing is expired actively. Context: any thread. */
void shard_hold_sampler(struct shard *s, bool held);

#endif
