/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active expiry of a shard: the slices of the cycle (lib/expiry/cycle.h), which take the lock
 * separately for each sampling loop, and their counters.
 */
#ifndef MAYFLY_LIB_SHARD_EXPIRE_H
#define MAYFLY_LIB_SHARD_EXPIRE_H

#include <stdbool.h>

#include "lib/base/clock.h"
#include "lib/expiry/cycle.h"
#include "lib/shard/shard.h"

/*
 * Run one slice of active expiry and update its counters. True if the cycle needs another.
 * Context: home worker.
 */
bool shard_expire_slice(struct shard *s, enum cycle_kind kind, const struct cycle_config *cfg);

/*
 * May a fast cycle start? Yes if there is debt, and the gap and the CPU cap allow it. Costs a
 * few loads if not. Context: home worker.
 */
bool shard_wants_fast(struct shard *s, const struct cycle_config *cfg, msec_t now);

/*
 * Milliseconds, rounded up, until the gap and the CPU cap allow a fast cycle. Context: home
 * worker.
 */
unsigned shard_fast_in_ms(const struct shard *s, const struct cycle_config *cfg);

/*
 * Time of the next background work (deadline, refinement, delayed flush). MSEC_NEVER: none, or
 * none until the limit of a passive engine rises, which wakes the home worker. Context: any
 * thread.
 */
msec_t shard_next_due(const struct shard *s);

/*
 * The same, for a home worker that is about to sleep. While active expiry is off, items that
 * become due are not counted as late until it is on again. Context: home worker.
 */
msec_t shard_sleep_until(struct shard *s);

/*
 * The latest time that may be passed to the wheel: now, or on a passive engine the time up to
 * which its primary has expired items, if that is earlier. Context: any thread.
 */
static inline msec_t shard_due_limit(const struct shard *s, msec_t now)
{
    msec_t limit = atomic_load_explicit(&s->group->due_limit, memory_order_relaxed);

    return now < limit ? now : limit;
}

/*
 * Items with a deadline at or before this time may be unlinked as expired: the limit above, or
 * DUE_NOTHING during a hold. Expired items that must stay are invisible to readers and writers,
 * which compare deadlines with the clock. They are removed in three cases only. A store under
 * the same key replaces the item. When there is no room, they are removed before live items.
 * And a writer drops one that it finds in a slot that moves to another shard. Context: any
 * thread; in shard, the result stays valid until the shard is left.
 */
static inline msec_t shard_due_now(const struct shard *s, msec_t now)
{
    if (MF_UNLIKELY(now < atomic_load_explicit(&s->group->hold_until, memory_order_relaxed))) {
        return DUE_NOTHING;
    }
    return shard_due_limit(s, now);
}

/* Does the engine follow another one? See engine_follow_due(). Context: any thread. */
static inline bool shard_is_passive(const struct shard *s)
{
    return atomic_load_explicit(&s->group->due_limit, memory_order_relaxed) != MSEC_NEVER;
}

/*
 * Was a later time than the limit passed to the wheel before the engine became passive? Then it
 * would return items that must stay, and is not sampled until the limit has reached that time.
 * Context: in shard.
 */
static inline bool shard_is_ahead(const struct shard *s)
{
    shard_must_be_entered(s);
    return wheel_time(s->wheel) >
           atomic_load_explicit(&s->group->due_limit, memory_order_relaxed);
}

/*
 * A time up to which no due item is left: each linked item has a later deadline. At most
 * shard_due_limit(); earlier while a due item is kept or waits for the sampler. It never
 * decreases. A writer that read the clock earlier may still store an item with an earlier
 * deadline, which has passed by then. Context: in shard.
 */
msec_t shard_due_gone(struct shard *s, msec_t now);

/* Hold the sampler: no item is expired actively. Context: any thread. */
void shard_hold_sampler(struct shard *s, bool held);

#endif
