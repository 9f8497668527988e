/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of a shard: see arena.h. Nothing here reads what is in a segment. */
#include "lib/memory/arena.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/poison.h"

#define MIB (1024u * 1024)
#define GIB (1024ull * MIB)

/* Handles are 32 bits of 8 bytes. */
#define RANGE_MAX (32 * GIB)
#define RANGE_MIN GIB

/*
 * Segment size: big segments need fewer table entries and links, small ones waste less when the
 * shard itself is small (each chain has an open one, and some are kept free).
 */
static uint32_t choose_shift(uint64_t share_bytes)
{
    return share_bytes >= 128 * MIB ? 18 : share_bytes >= 16 * MIB ? 16 : 15;
}

bool arena_init(struct arena *a, uint64_t limit_bytes, uint64_t share_bytes,
                struct budget *budget, struct grace *grace, const struct lock *lock)
{
    /* One shard may come to hold nearly all of the limit, and the limit may be raised. */
    uint64_t range = limit_bytes * 8;

    range = range < RANGE_MIN ? RANGE_MIN : range > RANGE_MAX ? RANGE_MAX : range;
    memset(a, 0, sizeof(*a));
    a->shift = choose_shift(share_bytes);
    a->segment_max = (uint32_t)(range >> a->shift);
    a->map_bytes = range;
    a->budget = budget;
    a->grace = grace;
    a->lock = lock;
    a->fresh = 1;
    /* Huge pages suit big shards only: a small one would be rounded up to 2 MiB a piece. */
    a->base = mem_map(range, share_bytes >= 128 * MIB ? MEM_PAGES_HUGE : MEM_PAGES_SMALL);
    a->segments = mem_map((uint64_t)a->segment_max * sizeof(struct segment), MEM_PAGES_SMALL);
    if (a->base == NULL || a->segments == NULL) {
        arena_fini(a);
        return false;
    }
    return true;
}

void arena_fini(struct arena *a)
{
    if (a->base != NULL) {
        /* The poison of holes would outlive the mapping, and hit what is mapped here next. */
        UNPOISON(a->base, (uint64_t)a->fresh << a->shift);
        mem_unmap(a->base, a->map_bytes);
    }
    if (a->segments != NULL) {
        mem_unmap(a->segments, (uint64_t)a->segment_max * sizeof(struct segment));
    }
    budget_add(a->budget, -((int64_t)a->held << a->shift));
    memset(a, 0, sizeof(*a));
}

static bool is_pinned(const struct segment *g)
{
    return (atomic_load_explicit(&g->pins, memory_order_acquire) & PIN_COUNT) != 0;
}

static segment_t pop_free(struct arena *a)
{
    segment_t s = a->free;

    if (s != 0) {
        a->free = a->segments[s].next;
        a->free_count--;
        if (a->free_count < a->free_low) {
            a->free_low = a->free_count;
        }
    }
    return s;
}

/* One that is not resident yet, paid for from the budget. */
static segment_t pop_unheld(struct arena *a, int64_t overdraw)
{
    segment_t s = a->cold;

    if (s == 0 && a->fresh >= a->segment_max) {
        return 0;
    }
    if (!budget_take(a->budget, (int64_t)1 << a->shift, overdraw)) {
        return 0;
    }
    if (s != 0) {
        a->cold = a->segments[s].next;
    } else {
        s = a->fresh++;
    }
    a->held++;
    return s;
}

segment_t arena_take(struct arena *a, enum segment_state state, int64_t overdraw)
{
    segment_t s = pop_free(a);

    arena_must_be_entered(a);
    if (s == 0) {
        s = pop_unheld(a, overdraw);
    }
    if (s == 0) {
        return 0;
    }

    struct segment *g = &a->segments[s];
    uint32_t generation = g->generation + 1;

    debug_must(!is_pinned(g));
    memset(g, 0, sizeof(*g));
    g->generation = generation;
    g->state = (uint8_t)state;
    if (state == SEG_WHOLE) {
        a->whole++;
    }
    UNPOISON(segment_ptr(a, s), segment_bytes(a));
    return s;
}

/* Put a run at the front of the free list. */
static void free_run(struct arena *a, segment_t first)
{
    struct segment *g = &a->segments[first];
    uint32_t count = g->run_count;

    g->is_lazy = 0;
    a->segments[g->run_last].next = a->free;
    a->free = first;
    a->free_count += count;
}

void arena_give_whole(struct arena *a, segment_t first, segment_t last, uint32_t count)
{
    arena_must_be_entered(a);
    a->whole -= count;
    a->segments[first].run_last = last;
    a->segments[first].run_count = count;
    free_run(a, first);
}

static void queue_push(struct arena *a, struct run_queue *q, segment_t first)
{
    a->segments[first].bin_next = 0;
    a->segments[first].bin_prev = q->tail;
    if (q->tail != 0) {
        a->segments[q->tail].bin_next = first;
    } else {
        q->head = first;
    }
    q->tail = first;
    q->segments += a->segments[first].run_count;
}

static segment_t queue_pop(struct arena *a, struct run_queue *q)
{
    segment_t first = q->head;

    q->head = a->segments[first].bin_next;
    if (q->head == 0) {
        q->tail = 0;
    }
    q->segments -= a->segments[first].run_count;
    return first;
}

void arena_retire(struct arena *a, segment_t first, segment_t last, uint32_t count,
                  enum run_kind kind)
{
    struct segment *g = &a->segments[first];

    arena_must_be_entered(a);
    g->run_last = last;
    g->run_count = count;
    g->stamp = grace_stamp(a->grace);
    g->is_dated = 1;
    g->is_lazy = kind == RUN_LAZY;
    queue_push(a, kind == RUN_LAZY ? &a->lazy : &a->quarantine, first);
    grace_ask(a->grace, GRACE_SOON);
}

void arena_link_value(struct arena *a, segment_t first, segment_t last, uint32_t count)
{
    struct segment *g = &a->segments[first];

    arena_must_be_entered(a);
    g->run_last = last;
    g->run_count = count;
    g->is_dated = 0;
    g->is_lazy = 1; /* what a flush retires counts as such */
    queue_push(a, &a->values, first);
}

void arena_retire_value(struct arena *a, segment_t first, enum run_kind kind)
{
    struct segment *g = &a->segments[first];

    arena_must_be_entered(a);
    if (g->bin_prev != 0) {
        a->segments[g->bin_prev].bin_next = g->bin_next;
    } else {
        a->values.head = g->bin_next;
    }
    if (g->bin_next != 0) {
        a->segments[g->bin_next].bin_prev = g->bin_prev;
    } else {
        a->values.tail = g->bin_prev;
    }
    a->values.segments -= g->run_count;
    a->whole -= g->run_count;
    atomic_fetch_or_explicit(&g->pins, PIN_DEAD, memory_order_relaxed);
    arena_retire(a, first, g->run_last, g->run_count, kind);
}

void arena_retire_values(struct arena *a, enum run_kind kind)
{
    struct run_queue *v = &a->values;
    struct run_queue *q = kind == RUN_LAZY ? &a->lazy : &a->quarantine;

    arena_must_be_entered(a);
    if (v->head == 0) {
        return;
    }
    /* The first run is dated for all: those after it in the queue use its stamp. */
    a->segments[v->head].stamp = grace_stamp(a->grace);
    a->segments[v->head].is_dated = 1;
    if (q->tail != 0) {
        a->segments[q->tail].bin_next = v->head;
    } else {
        q->head = v->head;
    }
    q->tail = v->tail;
    q->segments += v->segments;
    a->whole -= v->segments;
    memset(v, 0, sizeof(*v));
    grace_ask(a->grace, GRACE_SOON);
}

/* Is the run at the head of a queue past its grace period? */
static bool head_is_over(const struct arena *a, struct run_queue *q)
{
    const struct segment *g = &a->segments[q->head];

    if (g->is_dated) {
        q->stamp = g->stamp;
    }
    return grace_is_over(a->grace, q->stamp);
}

bool arena_release(struct arena *a, enum run_kind kind, uint32_t max, struct run_released *out)
{
    struct run_queue *q = kind == RUN_LAZY ? &a->lazy : &a->quarantine;

    arena_must_be_entered(a);
    while (q->head != 0 && head_is_over(a, q)) {
        if (max-- == 0) {
            return true;
        }

        segment_t first = queue_pop(a, q);
        struct segment *g = &a->segments[first];

        if (g->is_lazy) {
            out->lazy_runs++;
            out->lazy_segments += g->run_count;
        }
        /*
         * No new pin can come after the grace period: whoever pins has found the value in a
         * section.
         */
        if (is_pinned(g)) {
            out->pinned_segments += g->run_count;
            atomic_fetch_or_explicit(&g->pins, PIN_DEAD, memory_order_relaxed);
            queue_push(a, &a->pinned, first);
        } else {
            free_run(a, first);
        }
    }
    return false;
}

void arena_release_pinned(struct arena *a, uint32_t max, struct run_released *out)
{
    segment_t stop = a->pinned.tail;

    arena_must_be_entered(a);
    while (a->pinned.head != 0 && max-- > 0) {
        segment_t first = queue_pop(a, &a->pinned);
        struct segment *g = &a->segments[first];

        if (is_pinned(g)) {
            queue_push(a, &a->pinned, first);
        } else {
            out->unpinned_segments += g->run_count;
            free_run(a, first);
        }
        if (first == stop) {
            break;
        }
    }
}

uint32_t arena_avail(const struct arena *a)
{
    int64_t left = budget_left(a->budget) >> a->shift;

    arena_must_be_entered(a);
    return a->free_count + (left > 0 ? (uint32_t)left : 0);
}

uint32_t arena_trim_take(struct arena *a, uint32_t max, segment_t *list)
{
    uint32_t n = 0;

    arena_must_be_entered(a);
    *list = 0;
    while (n < max && a->free != 0) {
        segment_t s = pop_free(a);

        a->segments[s].next = *list;
        *list = s;
        n++;
    }
    a->trimming += n;
    return n;
}

void arena_trim_discard(struct arena *a, segment_t list)
{
    for (segment_t s = list; s != 0; s = a->segments[s].next) {
        mem_discard(segment_ptr(a, s), segment_bytes(a));
    }
}

void arena_trim_done(struct arena *a, segment_t list, uint32_t count)
{
    arena_must_be_entered(a);
    while (list != 0) {
        segment_t next = a->segments[list].next;

        a->segments[list].next = a->cold;
        a->cold = list;
        list = next;
    }
    a->trimming -= count;
    a->held -= count;
    budget_add(a->budget, -((int64_t)count << a->shift));
}

_Static_assert(sizeof(struct segment) == 64, "an entry is a cache line");
