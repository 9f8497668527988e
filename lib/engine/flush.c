/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush commands: see flush.h.
 */
#include "lib/engine/flush.h"

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/shard/flush.h"
#include "lib/shard/shard.h"

/*
 * Schedule the flush in all shards. If it is due, this hides their items, so that all shards
 * become empty together. Then their indexes are replaced one by one.
 */
static void flush_all_shards(struct engine *e, msec_t at, msec_t now)
{
    e->flush_id++;
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_flush_schedule(e->shards[i], at, e->flush_id);
    }
    for (uint32_t i = 0; at <= now && i < e->shard_count; i++) {
        shard_flush(e->shards[i], clock_now(&e->clock));
    }
}

/* The earliest time of a pending flush, other than `not_at`; MSEC_NEVER: none is pending. */
static msec_t to_come(const struct engine *e, msec_t not_at)
{
    msec_t first = MSEC_NEVER;

    for (uint32_t i = 0; i < e->shard_count; i++) {
        msec_t at = atomic_load_explicit(&e->shards[i]->flush_at, memory_order_acquire);

        first = at < first && at != not_at ? at : first;
    }
    return first;
}

/* Context: under the lock of flushes. */
static enum outcome flush_now_or_later(struct engine *e, msec_t at, msec_t now, msec_t then)
{
    bool is_ready = true;

    for (uint32_t i = 0; is_ready && i < e->shard_count; i++) {
        is_ready = shard_flush_prepare(e->shards[i]);
    }
    if (is_ready) {
        flush_all_shards(e, at, now);
        /* If the time of the pending flush has come by now, it is over: its items are gone. */
        if (then != MSEC_NEVER && then > clock_now(&e->clock)) {
            /* The shards were prepared for this flush when it was requested. */
            flush_all_shards(e, then, now);
        }
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_flush_settle(e->shards[i]);
    }
    return is_ready ? OUT_OK : OUT_NO_MEMORY;
}

enum outcome engine_flush(struct engine *e, msec_t at, msec_t now, bool may_wait)
{
    /*
     * Flushed indexes take memory in addition to the items. So a burst of flushes has to wait
     * for the reclaimer, or the indexes would take all memory.
     */
    if (may_wait &&
        budget_part(&e->budget, BUDGET_RETIRED) > memory_overdraw(&e->shards[0]->memory)) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        return OUT_WAIT;
    }
    pthread_mutex_lock(&e->flush_lock);
    enum outcome out = flush_now_or_later(e, at, now, MSEC_NEVER);
    pthread_mutex_unlock(&e->flush_lock);
    return out;
}

enum outcome engine_flush_old(struct engine *e, msec_t at, msec_t before, msec_t now)
{
    enum outcome out = OUT_OK;

    pthread_mutex_lock(&e->flush_lock);
    msec_t newer = to_come(e, before);
    if (at <= now || newer == MSEC_NEVER) {
        out = flush_now_or_later(e, at, now, newer);
    }
    pthread_mutex_unlock(&e->flush_lock);
    return out;
}

msec_t engine_flush_to_come(const struct engine *e)
{
    return to_come(e, MSEC_NEVER);
}
