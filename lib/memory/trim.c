/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the reclaimer's thread does for a memory: see evict.h.
 */
#include "lib/memory/state.h"

#include "lib/base/context.h"
#include "lib/base/reclaim.h"
#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/room.h"
#include "lib/memory/stock.h"

/* Segments discarded in one burst: a discard of 256 KiB takes some 10 us. */
#define TRIM_BURST 8

/* How soon to check again, in microseconds: what slow readers hold, and after a lower limit. */
#define LOOK_PINNED_US 50000
#define LOOK_OVER_US   5000

/*
 * An overdraft is paid back with segments that stayed free for this time. If stores come faster
 * than grace periods end, they overdraw repeatedly. If briefly free segments were used, their
 * pages would be released and faulted in again all the time.
 */
#define OVERDRAWN_MS 50

/* When it has lasted for this time, no store is about to pay it back. */
#define OVER_LONG_MS 1000

/* If the system refuses something, it is asked again after this time. */
#define REFUSED_MS 10000

/* Deaths turned into holes at once when no put does it. */
#define RIPEN_BURST 256

/* Segments that stayed free since the last look, beyond `keep`; begins another look. */
static uint32_t idle_since(struct memory *m, msec_t now, uint32_t keep, uint32_t most)
{
    uint32_t idle = m->arena.free_low > keep ? m->arena.free_low - keep : 0;

    idle = idle < most ? idle : most;
    if (idle <= TRIM_BURST) {
        m->arena.free_low = m->arena.free_count - idle;
        m->trim.looked = now;
    }
    return idle;
}

/*
 * The number of segments to pay back when the budget is overdrawn by `over` bytes: immediately
 * if the limit was lowered, else those that stayed free. Other parameters as for excess().
 */
static uint32_t owed(struct memory *m, int64_t over, msec_t now, uint64_t *again)
{
    uint32_t most = (uint32_t)(((uint64_t)over >> m->arena.shift) / memory_sharers(m)) + 1;

    if (now < m->trim.hasty_until) {
        uint32_t keep = room_is_paid_by_others(m) ? room_wanted(m) : ROOM_RESERVE;
        uint32_t spare = m->arena.free_count > keep ? m->arena.free_count - keep : 0;

        *again = LOOK_OVER_US;
        return most < spare ? most : spare;
    }
    if (now - m->trim.looked < OVERDRAWN_MS) {
        *again = (uint64_t)(OVERDRAWN_MS - (now - m->trim.looked)) * 1000;
        return 0;
    }
    *again = (uint64_t)OVERDRAWN_MS * 1000;
    return idle_since(m, now, ROOM_RESERVE, most);
}

/*
 * The number of segments to release to the system now: when overdrawn, what must be paid back;
 * otherwise those beyond the reserve that stayed free for idle_trim_ms. Lowers *again to the
 * time of the next check. Context: in shard.
 */
static uint32_t excess(struct memory *m, msec_t now, uint64_t *again)
{
    uint32_t unused = m->arena.free_count;
    msec_t trim_ms = engine_option(m->options, idle_trim_ms);
    int64_t over = -budget_left(m->arena.budget); /* other shards change it at any time */

    if (budget_is_lowered(m->arena.budget)) {
        m->trim.hasty_until = now + TRIM_HASTY_MS;
        *again = LOOK_OVER_US;
    }
    if (over > 0) {
        m->trim.over_since = m->trim.over_since == 0 ? now : m->trim.over_since;
        m->trim.is_over_long = now - m->trim.over_since >= OVER_LONG_MS;
        return owed(m, over, now, again);
    }
    m->trim.over_since = 0;
    m->trim.is_over_long = false;
    if (now - m->trim.looked >= trim_ms) {
        if (m->blocks.put_bytes == m->trim.put_bytes_then) {
            m->blocks.put_per_grace = 0; /* nobody stores: nothing is foreseen */
        }
        m->trim.put_bytes_then = m->blocks.put_bytes;
    }
    if (unused <= room_wanted(m)) {
        m->arena.free_low = unused;
        m->trim.looked = now;
        return 0;
    }
    if (now - m->trim.looked < trim_ms) {
        *again = (uint64_t)(trim_ms - (now - m->trim.looked)) * 1000;
        return 0;
    }
    uint32_t keep = room_wanted(m) + (uint32_t)(m->blocks.put_peak >> m->arena.shift);
    uint32_t idle = idle_since(m, now, keep, UINT32_MAX);
    if (idle <= TRIM_BURST) {
        /* What recent bursts took is kept for the next one, but less and less of it. */
        m->blocks.put_peak /= 2;
        *again = (uint64_t)trim_ms * 1000;
    }
    return idle;
}

/* Release one burst of free segments to the system. True when there are more to release. */
static bool give_excess_back(struct memory *m, msec_t now, uint64_t *again)
{
    lock_take(m->lock);
    uint32_t want = excess(m, now, again);
    lock_give(m->lock);
    return want != 0 && room_give_back(m, want < TRIM_BURST ? want : TRIM_BURST) < want;
}

/* Context: in shard. */
static void retry_range(struct memory *m, msec_t now)
{
    if (!arena_range_is_cut(&m->arena)) {
        m->trim.retry_at = 0;
    } else if (m->trim.retry_at == 0) {
        m->trim.retry_at = now + REFUSED_MS;
    } else if (now >= m->trim.retry_at) {
        arena_range_retry(&m->arena);
        m->trim.retry_at = 0;
    }
}

/* Release what can be released. Turn deaths into holes if no put did so since the last time. */
static uint64_t release_memory(struct memory *m)
{
    lock_take(m->lock);
    uint64_t again = room_release(m) ? 0 : RECLAIM_IDLE;
    retry_range(m, clock_now(m->clock));
    line_nudge(m);
    if (m->blocks.put_bytes == m->trim.put_bytes_seen) {
        blocks_ripen(m, RIPEN_BURST);
        if (blocks_has_ripe(m)) {
            again = 0;
        }
    }
    m->trim.put_bytes_seen = m->blocks.put_bytes;
    if (m->arena.pinned.segments != 0) {
        again = again < LOOK_PINNED_US ? again : LOOK_PINNED_US;
    }
    lock_give(m->lock);
    return again;
}

/* Let the system use huge pages again in what is wholly held again. */
static void mend_unit(struct memory *m)
{
    lock_take(m->lock);
    segment_t first = arena_unit_whole(&m->arena);
    lock_give(m->lock);
    if (first != 0) {
        arena_unit_use_huge(&m->arena, first);
    }
}

uint64_t trim_burst(struct memory *m)
{
    uint64_t again = release_memory(m);
    uint64_t look = RECLAIM_IDLE;

    must_be_reclaimer();
    mend_unit(m);
    bool has_more = evict_touch_burst(m);
    if (stock_burst(m) || has_more) {
        return 0;
    }
    if (give_excess_back(m, clock_now(m->clock), &look)) {
        return 0;
    }
    return again < look ? again : look;
}
