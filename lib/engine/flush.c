/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush commands: see flush.h.
 */
#include "lib/engine/flush.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/shard/flush.h"
#include "lib/shard/shard.h"

/*
 * Everything is hidden first, so that all shards become empty together; then swapped one by
 * one.
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

enum outcome engine_flush(struct engine *e, msec_t at, msec_t now, bool may_wait)
{
    bool is_ready = true;

    /*
     * Flushed indexes are memory beyond the items: a burst of flushes has to wait for the
     * reclaimer, or they would take all memory.
     */
    if (may_wait && budget_retired(&e->budget) > memory_overdraw(&e->shards[0]->memory)) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY);
        return OUT_WAIT;
    }
    pthread_mutex_lock(&e->flush_lock);
    for (uint32_t i = 0; is_ready && i < e->shard_count; i++) {
        is_ready = shard_flush_prepare(e->shards[i]);
    }
    if (is_ready) {
        flush_all_shards(e, at, now);
    }
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_flush_settle(e->shards[i]);
    }
    pthread_mutex_unlock(&e->flush_lock);
    return is_ready ? OUT_OK : OUT_NO_MEMORY;
}
