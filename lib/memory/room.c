/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room for puts: how much is kept free, who makes it, and what happens when there is none. Work
 * per put is bounded, so that a put of any size is many small steps.
 */
#include "lib/base/check.h"

#include "lib/shard/shard.h"

/* Kept free beyond what is put during a grace period. */
#define KEEP_FREE 4

/* What is put during a grace period is foreseen up to this share of a shard's part. */
#define GRACE_SHARE 256

/* Overdraft: a thirty-second of the limit, at least 4 MiB. */
#define OVERDRAW_SHARE 32
#define OVERDRAW_MIN   (4ll << 20)

/* One slice of the cursor: for a put, and for one that finds nothing free. */
#define SLICE_WORK  64
#define PRESS_WORK  512
#define PRESS_TRIES 8

/* Runs released at once: each is O(1). */
#define RELEASE_MAX 16

uint64_t room_share(const struct shard *s)
{
    return (uint64_t)atomic_load_explicit(&s->engine->budget.limit_bytes,
                                          memory_order_relaxed) /
           s->engine->shard_count;
}

int64_t room_overdraw(const struct shard *s)
{
    int64_t part = atomic_load_explicit(&s->engine->budget.limit_bytes, memory_order_relaxed) /
                   OVERDRAW_SHARE;

    return part > OVERDRAW_MIN ? part : OVERDRAW_MIN;
}

uint32_t room_wanted(const struct shard *s)
{
    uint32_t shift = s->arena.shift;
    uint64_t foreseen = s->blocks.put_per_grace;
    uint64_t most = room_share(s) / GRACE_SHARE;
    int64_t left = budget_left_soon(s->arena.budget);
    uint32_t want = KEEP_FREE + (uint32_t)((foreseen < most ? foreseen : most) >> shift);

    /* An overdraft is paid back by all shards alike. */
    if (left < 0) {
        want += (uint32_t)((uint64_t)-left / s->engine->shard_count >> shift) + 1;
    }
    return want;
}

uint32_t room_waiting(const struct shard *s)
{
    int64_t retired = budget_retired(s->arena.budget);

    /* What is retired is of all shards: each has its part of it. */
    return arena_waiting(&s->arena) +
           (retired > 0 ? (uint32_t)(retired >> s->arena.shift) / s->engine->shard_count : 0);
}

bool room_is_short(const struct shard *s)
{
    /*
     * What waits for a grace period counts as room: when the system keeps the reclaimer from
     * its CPU for long, evicting more and more would only empty the cache.
     */
    return arena_avail(&s->arena) + room_waiting(s) < room_wanted(s);
}

static void count_released(struct shard *s, const struct run_released *r)
{
    uint64_t lazy = (uint64_t)r->lazy_segments << s->arena.shift;
    uint64_t pinned = (uint64_t)r->pinned_segments << s->arena.shift;
    uint64_t unpinned = (uint64_t)r->unpinned_segments << s->arena.shift;

    if (r->lazy_runs != 0) {
        ctr_add(&s->counters, CTR_lazyfree_pending_objects, -(uint64_t)r->lazy_runs);
        ctr_add(&s->counters, CTR_lazyfree_pending_bytes, -lazy);
        ctr_add(&s->counters, CTR_lazyfree_freed_objects, r->lazy_runs);
        ctr_add(&s->counters, CTR_lazyfree_freed_bytes, lazy);
    }
    if (pinned != unpinned) {
        ctr_add(&s->counters, CTR_pinned_dead_bytes, pinned - unpinned);
    }
}

static void release_queue(struct shard *s, enum run_kind kind)
{
    struct run_released r = {0, 0, 0, 0};

    arena_release(&s->arena, kind, RELEASE_MAX, &r);
    count_released(s, &r);
}

void room_release(struct shard *s)
{
    struct run_released r = {0, 0, 0, 0};

    arena_release(&s->arena, RUN_DIRECT, RELEASE_MAX, &r);
    arena_release(&s->arena, RUN_LAZY, RELEASE_MAX, &r);
    arena_release_pinned(&s->arena, RELEASE_MAX, &r);
    count_released(s, &r);
}

void room_grace_ended(struct shard *s)
{
    struct blocks *b = &s->blocks;

    if (s->arena.quarantine.head != 0) {
        release_queue(s, RUN_DIRECT);
    }
    b->put_per_grace = b->put_bytes - b->put_mark;
    b->put_mark = b->put_bytes;
    if (b->put_per_grace > b->put_peak) {
        b->put_peak = b->put_per_grace;
    }
    b->put_completed = atomic_load_explicit(&s->arena.grace->completed, memory_order_relaxed);
    b->want = room_wanted(s);
}

void room_make_slowly(struct shard *s, uint64_t bytes, msec_t now)
{
    if (!room_is_short(s)) {
        if (arena_avail(&s->arena) <= ROOM_RESERVE) {
            grace_ask(s->arena.grace, GRACE_HURRY);
        }
        return;
    }
    if (!s->evictions && s->blocks.hole_bytes > bytes) {
        return; /* a hole may do; see room_pressed() */
    }
    cursor_slice(s, SLICE_WORK + (int64_t)(bytes / ITEM_UNIT), now);
    room_release(s);

    /* Only when nothing at all is left, and nothing is on its way, one put does more. */
    for (int i = 0; i < PRESS_TRIES && arena_avail(&s->arena) <= ROOM_RESERVE &&
                    room_waiting(s) < room_wanted(s);
         i++) {
        ctr_add(&s->counters, CTR_direct_reclaims, 1);
        if (!cursor_slice(s, PRESS_WORK, now)) {
            break;
        }
        room_release(s);
    }
}

enum outcome room_pressed(struct shard *s, msec_t now)
{
    if (!s->evictions && cursor_slice(s, PRESS_WORK, now)) {
        grace_ask(s->arena.grace, GRACE_HURRY);
        return OUT_WAIT; /* cleaning goes on: there was something dead enough */
    }
    if (room_waiting(s) == 0 && s->blocks.ring_head == s->blocks.ring_tail) {
        return OUT_NO_MEMORY;
    }
    grace_ask(s->arena.grace, GRACE_HURRY);
    /* The overdraft is for what a grace period will give back. */
    if (room_waiting(s) > 0 &&
        -budget_left(s->arena.budget) + (int64_t)segment_bytes(&s->arena) <= room_overdraw(s)) {
        return OUT_OK;
    }
    return OUT_WAIT;
}

enum outcome room_take_whole(struct shard *s, msec_t now, segment_t *out)
{
    bool can_go_on = true;

    room_release(s);
    if (arena_avail(&s->arena) + room_waiting(s) <= room_wanted(s)) {
        can_go_on = cursor_slice(s, PRESS_WORK, now);
        room_release(s);
    }
    if (arena_avail(&s->arena) > ROOM_RESERVE) {
        *out = arena_take(&s->arena, SEG_WHOLE, 0);
        if (*out != 0) {
            s->blocks.put_bytes += segment_bytes(&s->arena);
            return OUT_OK;
        }
    }
    /* What waits will do: evicting more meanwhile would only empty the cache. */
    if (room_waiting(s) > ROOM_RESERVE) {
        grace_ask(s->arena.grace, GRACE_HURRY);
        return OUT_WAIT;
    }
    return can_go_on ? OUT_MISS : OUT_NO_MEMORY;
}

uint32_t room_give_back(struct shard *s, uint32_t want)
{
    segment_t list = 0;
    uint32_t n;

    shard_enter(s);
    n = arena_trim_take(&s->arena, want, &list);
    shard_leave(s);
    if (n != 0) {
        arena_trim_discard(&s->arena, list);
        shard_enter(s);
        arena_trim_done(&s->arena, list, n);
        ctr_add(&s->counters, CTR_segments_discarded, n);
        shard_leave(s);
    }
    return n;
}
