/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much room there is and should be: see room.h.
 */
#include "lib/memory/room.h"

#include "lib/base/check.h"
#include "lib/memory/chains.h"
#include "lib/memory/line.h"

/*
 * Segments kept free beyond what is put during a grace period. Those of a shard that was added
 * to an engine may be larger than suits its share (arena_shift_for()): then fewer are kept.
 */
#define KEEP_FREE       4
#define KEEP_FREE_LARGE (ROOM_RESERVE + 1)

/* Room for what is put during a grace period is kept up to this part of a shard's share. */
#define GRACE_SHARE 256

/*
 * A shard that holds at most this many segments evicts nothing to pay back an overdraft: the
 * overdraft is then due to an index that was made for more items, and is about to shrink.
 */
#define HELD_LEAST 8

/* A shard holds clearly less than the others' average if it is less by this fraction. */
#define LATER_SHARE 32

/* A grace period takes at most this many milliseconds, unless the reclaimer gets no CPU. */
#define GRACE_MS 8

/* Runs released at once: each is O(1). */
#define RELEASE_MAX 16

/* One memory's share of the limit, in bytes. */
static uint64_t share_of_limit(const struct memory *m)
{
    return (uint64_t)budget_limit(m->arena.budget) / memory_sharers(m);
}

bool room_is_paid_by_others(const struct memory *m)
{
    const struct budget *b = m->arena.budget;
    int64_t held = budget_part(b, BUDGET_HELD);

    memory_must_be_entered(m);
    return budget_is_lowered(b) && !evict_sorts_now(&m->evict) &&
           ((int64_t)m->arena.held << m->arena.shift) * memory_sharers(m) <
               held - held / LATER_SHARE;
}

uint32_t room_wanted(const struct memory *m)
{
    uint32_t shift = m->arena.shift;
    uint64_t foreseen = m->blocks.put_per_grace;
    uint64_t share = share_of_limit(m);
    uint64_t most = share / GRACE_SHARE;
    int64_t left = budget_left_soon(m->arena.budget);
    uint32_t want = shift > arena_shift_for(share) ? KEEP_FREE_LARGE : KEEP_FREE;

    memory_must_be_entered(m);
    want += (uint32_t)((foreseen < most ? foreseen : most) >> shift);
    want += m->line.wanted < LINE_MOST ? m->line.wanted : LINE_MOST;
    /* All shards pay back an overdraft in equal parts. */
    if (left < 0 && chains_filled(m) >> shift > HELD_LEAST && !room_is_paid_by_others(m)) {
        want += (uint32_t)((uint64_t)-left / memory_sharers(m) >> shift) + 1;
    }
    return want;
}

uint32_t room_coming(const struct memory *m)
{
    int64_t leaving = budget_part(m->arena.budget, BUDGET_LEAVING);

    memory_must_be_entered(m);
    return memory_waiting(m) +
           (leaving > 0 ? (uint32_t)(leaving >> m->arena.shift) / memory_sharers(m) : 0);
}

bool room_is_short(const struct memory *m)
{
    memory_must_be_entered(m);
    /*
     * What waits for a grace period counts as room: when the system keeps the reclaimer from
     * its CPU for long, evicting more and more would only empty the cache.
     */
    return arena_avail(&m->arena) + room_coming(m) < room_wanted(m);
}

bool room_may_evict(const struct memory *m)
{
    const struct budget *b = m->arena.budget;
    uint64_t items = ctr_get(m->counters, CTR_curr_items);
    int64_t over = -budget_left(b);

    memory_must_be_entered(m);
    return items > 1 || (items == 1 && (budget_is_lowered(b) || over > budget_overdraw(b) ||
                                        (over > 0 && m->trim.is_over_long)));
}

bool room_is_pressed(const struct memory *m)
{
    memory_must_be_entered(m);
    return arena_avail(&m->arena) <= ROOM_RESERVE && memory_waiting(m) <= ROOM_RESERVE;
}

static void count_released(struct memory *m, const struct run_released *r)
{
    uint64_t lazy = (uint64_t)r->lazy_segments << m->arena.shift;
    uint64_t pinned = (uint64_t)r->pinned_segments << m->arena.shift;
    uint64_t unpinned = (uint64_t)r->unpinned_segments << m->arena.shift;

    if (r->lazy_runs != 0) {
        ctr_add(m->counters, CTR_lazyfree_pending_objects, -(uint64_t)r->lazy_runs);
        ctr_add(m->counters, CTR_lazyfree_pending_bytes, -lazy);
        ctr_add(m->counters, CTR_lazyfree_freed_objects, r->lazy_runs);
        ctr_add(m->counters, CTR_lazyfree_freed_bytes, lazy);
    }
    if (pinned != unpinned) {
        ctr_add(m->counters, CTR_pinned_dead_bytes, pinned - unpinned);
    }
}

static void release_queue(struct memory *m, enum run_kind kind)
{
    struct run_released r = {0, 0, 0, 0};

    arena_release(&m->arena, kind, RELEASE_MAX, &r);
    count_released(m, &r);
    line_settle(m);
}

bool room_release(struct memory *m)
{
    struct run_released r = {0, 0, 0, 0};

    memory_must_be_entered(m);
    bool has_more = arena_release(&m->arena, RUN_DIRECT, RELEASE_MAX, &r);
    has_more = arena_release(&m->arena, RUN_LAZY, RELEASE_MAX, &r) || has_more;
    arena_release_pinned(&m->arena, RELEASE_MAX, &r);
    count_released(m, &r);
    line_settle(m);
    return has_more;
}

/*
 * What was put during the period that has just ended. While nothing dies no period runs: then
 * only the part counts that came within an ordinary one.
 */
static uint64_t put_per_grace(struct memory *m, msec_t now)
{
    uint64_t put = m->blocks.put_bytes - m->blocks.put_mark;
    msec_t passed = now - m->blocks.put_marked;

    m->blocks.put_marked = now;
    return passed > GRACE_MS ? put * GRACE_MS / (uint64_t)passed : put;
}

void room_grace_ended(struct memory *m)
{
    struct blocks *b = &m->blocks;

    memory_must_be_entered(m);
    if (m->arena.quarantine.head != 0) {
        release_queue(m, RUN_DIRECT);
    }
    b->put_per_grace = put_per_grace(m, clock_now(m->clock));
    b->put_mark = b->put_bytes;
    if (b->put_per_grace > b->put_peak) {
        b->put_peak = b->put_per_grace;
    }
    b->put_completed = atomic_load_explicit(&m->arena.grace->completed, memory_order_relaxed);
    b->want = room_wanted(m);
}

uint32_t room_give_back(struct memory *m, uint32_t want)
{
    segment_t list = 0;

    lock_take(m->lock);
    uint32_t n = arena_trim_take(&m->arena, want, &list);
    lock_give(m->lock);
    if (n != 0) {
        arena_trim_discard(&m->arena, list);
        lock_take(m->lock);
        arena_trim_done(&m->arena, list, n);
        ctr_add(m->counters, CTR_segments_discarded, n);
        lock_give(m->lock);
    }
    return n;
}
