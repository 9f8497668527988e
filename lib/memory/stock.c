/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments made resident ahead: see stock.h.
 */
#include "lib/memory/stock.h"

#include "lib/base/context.h"
#include "lib/memory/chains.h"
#include "lib/memory/room.h"

/*
 * So many free ones where pages are huge: the first of a unit makes all of the unit resident,
 * and if more were trimmed than are kept free for good, the unit would have small pages then.
 */
#define STOCK_HUGE 4

/*
 * A memory with fewer segments of blocks may stay as small as it is. What waits for a period
 * does not count: where flushes follow each other, segments go that are nearly empty, and most
 * of their pages need not become resident.
 */
#define FILLED_MIN 8

/* Segments that a writer makes resident when there are none. */
#define WRITER_BURST 2

/* Segments made resident at once by the reclaimer: 512 KiB at most, or a huge page. */
static uint32_t burst(const struct arena *a)
{
    return a->unit_segments != 0 ? 1 : 8;
}

/* How many more there should be; as many as leave the room that is wanted. */
static uint32_t missing(const struct memory *m)
{
    const struct arena *a = &m->arena;
    uint32_t room = room_wanted(m);
    uint32_t want = a->unit_segments != 0 ? STOCK_HUGE : room;
    int64_t spare = arena_allowed(a) - (int64_t)room;
    uint32_t n = want > a->free_count ? want - a->free_count : 0;

    return spare <= 0 ? 0 : n < spare ? n : (uint32_t)spare;
}

/* The same for puts that come one by one. */
static uint32_t missing_to_puts(const struct memory *m)
{
    return chains_segments(m) < FILLED_MIN ? 0 : missing(m);
}

segment_t stock_take(struct memory *m, int64_t overdraw)
{
    struct arena *a = &m->arena;
    bool is_late = a->free_count == 0;
    segment_t s = arena_take(a, SEG_OPEN, overdraw);

    memory_must_be_entered(m);
    if (s != 0 && is_late) {
        ctr_add(m->counters, CTR_segments_late, 1);
    }
    if (missing_to_puts(m) != 0) {
        a->wants_stock = true;
        grace_ask(a->grace, GRACE_SOON);
        a->wants_stock_now = a->free_count == 0;
    }
    if (a->wants_range || a->wants_stock_now) {
        m->ops->wants_range(m->owner);
    }
    return s;
}

/* The rest of that, outside, for n segments that were taken in the shard. */
static void make_resident(struct memory *m, segment_t list, uint32_t n)
{
    if (n != 0) {
        arena_stock_touch(&m->arena, list);
        lock_take(m->lock);
        arena_stock_done(&m->arena, list, n);
        lock_give(m->lock);
    }
}

/* Make up to max of them resident; how many are wanted beyond that. */
static uint32_t make(struct memory *m, uint32_t max)
{
    struct arena *a = &m->arena;
    segment_t list = 0;
    uint32_t n = 0;

    lock_take(m->lock);
    uint32_t left = a->wants_stock ? missing_to_puts(m) : 0;
    if (left != 0) {
        n = arena_stock_take(a, left < max ? left : max, &list);
    }
    a->wants_stock = n != 0 && n < left;
    a->wants_stock_now = false;
    lock_give(m->lock);
    make_resident(m, list, n);
    return n == 0 ? 0 : left - n;
}

bool stock_burst(struct memory *m)
{
    must_be_reclaimer();
    return make(m, burst(&m->arena)) != 0;
}

void stock_make(struct memory *m)
{
    lock_take(m->lock);
    bool wants_now = m->arena.wants_stock_now;
    lock_give(m->lock);
    if (wants_now) {
        (void)make(m, WRITER_BURST);
    }
}

void stock_fill(struct memory *m)
{
    struct arena *a = &m->arena;
    segment_t list = 0;
    uint32_t n = 0;

    must_not_be_reading();
    lock_take(m->lock);
    if (stock_is_low(m)) {
        n = arena_stock_take(a, missing(m), &list);
    }
    lock_give(m->lock);
    make_resident(m, list, n);
}
