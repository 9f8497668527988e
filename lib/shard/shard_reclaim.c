/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the reclaimer's thread does for a shard: release large values, and give memory back to
 * the system that stayed free, or that exceeds the budget. In bursts, with the shard entered
 * only for moments.
 */
#include "lib/shard/shard.h"

/* Segments discarded in one burst: a discard of 256 KiB takes some 10 us. */
#define TRIM_BURST 8

/*
 * How soon to look again, microseconds: at what slow readers hold, and while the budget is
 * overdrawn.
 */
#define LOOK_PINNED_US 50000
#define LOOK_OVER_US   5000

/* Deaths turned into holes at once when no put comes by to do it. */
#define RIPEN_BURST 256

/*
 * Segments to give back now: when overdrawn what is owed; else those that stayed free for
 * idle_trim_ms beyond what is kept. Lowers *again to when to look next. Context: in shard.
 */
static uint32_t excess(struct shard *s, msec_t now, uint64_t *again)
{
    const struct engine *e = s->engine;
    uint32_t keep = room_wanted(s) + (uint32_t)(s->blocks.put_peak >> s->arena.shift);
    uint32_t unused = s->arena.free_count;
    int64_t left = budget_left(&e->budget);
    msec_t trim_ms = engine_option(e->config.options, idle_trim_ms);
    uint32_t idle;

    if (left < 0) {
        uint32_t owed = (uint32_t)(((uint64_t)-left >> s->arena.shift) / e->shard_count) + 1;
        uint32_t spare = unused > ROOM_RESERVE ? unused - ROOM_RESERVE : 0;

        *again = LOOK_OVER_US;
        return owed < spare ? owed : spare;
    }
    if (unused <= room_wanted(s)) {
        s->arena.free_low = unused;
        s->trim_looked = now;
        return 0;
    }
    if (now - s->trim_looked < trim_ms) {
        *again = (uint64_t)(trim_ms - (now - s->trim_looked)) * 1000;
        return 0;
    }
    idle = s->arena.free_low > keep ? s->arena.free_low - keep : 0;
    if (idle <= TRIM_BURST) {
        /* What bursts took lately is kept for the next one, but less and less of it. */
        s->blocks.put_peak /= 2;
        s->arena.free_low = unused - idle;
        s->trim_looked = now;
        *again = (uint64_t)trim_ms * 1000;
    }
    return idle;
}

/* One burst; true when there is more to give back. */
static bool trim(struct shard *s, msec_t now, uint64_t *again)
{
    uint32_t want;

    shard_enter(s);
    want = excess(s, now, again);
    shard_leave(s);
    return want != 0 && room_give_back(s, want < TRIM_BURST ? want : TRIM_BURST) < want;
}

/* Release what is over; turn deaths into holes when no put did so since the last look. */
static uint64_t release(struct shard *s)
{
    uint64_t again = RECLAIM_IDLE;

    shard_enter(s);
    room_release(s);
    if (s->blocks.put_bytes == s->reclaim_seen) {
        blocks_ripen(s, RIPEN_BURST);
        if (s->blocks.ring_head != s->blocks.ring_tail &&
            grace_is_over(s->arena.grace,
                          s->blocks.ring[s->blocks.ring_head & s->blocks.ring_mask].stamp)) {
            again = 0;
        }
    }
    s->reclaim_seen = s->blocks.put_bytes;
    if (s->arena.pinned.segments != 0) {
        again = again < LOOK_PINNED_US ? again : LOOK_PINNED_US;
    }
    shard_leave(s);
    return again;
}

uint64_t shard_reclaim(struct shard *s)
{
    uint64_t again = release(s);
    uint64_t look = RECLAIM_IDLE;

    if (trim(s, clock_now(&s->engine->clock), &look)) {
        return 0;
    }
    return again < look ? again : look;
}
