/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments of a shard: see arena.h. Nothing here reads the content of a segment. */
#include "lib/memory/arena.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/poison.h"

#define MIB (1024u * 1024)
#define GIB (1024ull * MIB)

/* Minimum address range, so that a small limit can be raised later. */
#define RANGE_MIN (4 * GIB)

/*
 * Step by which the range grows: this fraction of the shard's share, at least STEP_SEGMENTS.
 */
#define STEPS_A_SHARE 32
#define STEP_SEGMENTS 64u

/* Multiple of segments in a step, so that their table entries fill whole pages. */
#define STEP_MULTIPLE (4096u / sizeof(struct segment))

/*
 * Segment size. Large segments need fewer table entries and links. Small ones waste less in a
 * small shard, where each chain has an open one and some are kept free.
 */
uint32_t arena_shift_for(uint64_t share_bytes)
{
    return share_bytes >= 128 * MIB ? 18 : share_bytes >= 16 * MIB ? 16 : 15;
}

uint64_t arena_range_for(uint64_t limit_bytes)
{
    if (limit_bytes >= ARENA_RANGE_MAX / 8) {
        return ARENA_RANGE_MAX;
    }
    return limit_bytes * 8 > RANGE_MIN ? limit_bytes * 8 : RANGE_MIN;
}

static uint64_t table_bytes(uint32_t segments)
{
    return (uint64_t)segments * sizeof(struct segment);
}

struct arena_shape arena_shape_for(uint64_t share_bytes, const struct region *region,
                                   bool has_steps)
{
    const uint32_t shift = region != NULL ? region->shift : arena_shift_for(share_bytes);
    uint64_t step = share_bytes / STEPS_A_SHARE >> shift;

    step -= step % STEP_MULTIPLE;
    return (struct arena_shape){
        .shift = shift,
        .step_segments = !has_steps             ? 0
                         : step > STEP_SEGMENTS ? (uint32_t)step
                                                : STEP_SEGMENTS,
        /*
         * Huge pages suit large shards only: a small one would be rounded up to 2 MiB each. In
         * a file, pages are allocated per segment.
         */
        .has_huge = share_bytes >= 128 * MIB && region == NULL,
    };
}

bool arena_init(struct arena *a, uint64_t range_bytes, const struct arena_shape *shape,
                const struct region *region, struct budget *budget, struct grace *grace,
                const struct lock *lock)
{
    enum mem_pages pages = shape->has_huge ? MEM_PAGES_HUGE : MEM_PAGES_SMALL;
    const uint64_t step = (uint64_t)(shape->step_segments != 0 ? shape->step_segments : 1)
                          << shape->shift;

    memset(a, 0, sizeof(*a));
    a->region = region;
    a->shift = shape->shift;
    a->unit_segments = shape->has_huge ? (uint32_t)(MEM_HUGE_BYTES >> a->shift) : 0;
    a->map_bytes = range_bytes < ARENA_RANGE_MAX ? range_bytes : ARENA_RANGE_MAX;
    a->map_bytes -= a->map_bytes % step;
    a->step_segments =
        shape->step_segments != 0 ? shape->step_segments : (uint32_t)(a->map_bytes >> a->shift);
    a->budget = budget;
    a->grace = grace;
    a->lock = lock;
    a->fresh = 1;
    if (a->map_bytes == 0) {
        return false;
    }
    a->held_max = (uint32_t)(a->map_bytes >> a->shift) - 1; /* number 0 is never used */
    a->base =
        region != NULL ? region_map(region, a->map_bytes) : mem_reserve(a->map_bytes, pages);
    a->segments = mem_reserve(table_bytes(a->held_max + 1), MEM_PAGES_SMALL);
    if (a->base == NULL || a->segments == NULL || !arena_range_commit(a, 0)) {
        arena_fini(a);
        return false;
    }
    a->committed = a->step_segments;
    return true;
}

void arena_fini(struct arena *a)
{
    if (a->base != NULL) {
        /*
         * Poison of holes would outlive the mapping and affect later mappings at the address.
         */
        UNPOISON(a->base, (uint64_t)a->fresh << a->shift);
        mem_unmap(a->base, a->map_bytes);
    }
    if (a->segments != NULL) {
        mem_unmap(a->segments, table_bytes((uint32_t)(a->map_bytes >> a->shift)));
    }
    arena_count_held(a, -(int64_t)a->held);
    memset(a, 0, sizeof(*a));
}

bool arena_reset(struct arena *a)
{
    const uint64_t bytes = (uint64_t)a->committed << a->shift;

    arena_must_be_entered(a);
    if (a->held != 0) {
        return false;
    }
    UNPOISON(a->base, (uint64_t)a->fresh << a->shift);
    if (a->region == NULL) {
        /* With huge pages, number 0 became resident with the rest of its unit. */
        mem_discard(a->base, segment_bytes(a));
    }
    if (a->small_units != 0) {
        mem_use_huge(a->base, bytes, true);
    }
    mem_discard(a->segments, table_bytes(a->fresh)); /* no entry beyond that was written */
    a->fresh = 1;
    a->cold = 0;
    a->small_units = 0;
    a->unit_next = 0;
    return true;
}

/* ---- the range --------------------------------------------------------------------------- */

uint32_t arena_range_begin(const struct arena *a)
{
    arena_must_be_entered(a);
    return a->wants_range && a->committed <= a->held_max ? a->committed : 0;
}

bool arena_range_commit(const struct arena *a, uint32_t committed)
{
    return mem_commit((char *)a->segments + table_bytes(committed),
                      table_bytes(a->step_segments)) &&
           mem_commit(segment_ptr(a, committed), (uint64_t)a->step_segments << a->shift);
}

void arena_range_end(struct arena *a, uint32_t committed, bool is_done)
{
    arena_must_be_entered(a);
    if (a->committed != committed) {
        return; /* another thread did it first */
    }
    a->wants_range = false;
    if (is_done) {
        a->committed += a->step_segments;
        arena_range_retry(a); /* another thread may have been refused the same step */
    } else {
        a->held_max = committed - 1;
    }
}

void arena_range_retry(struct arena *a)
{
    arena_must_be_entered(a);
    a->held_max = (uint32_t)(a->map_bytes >> a->shift) - 1;
}

/* ---- taking and releasing ---------------------------------------------------------------- */

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

/* Take a segment that is not yet resident, and charge it to the budget; 0: none. */
static segment_t pop_unheld(struct arena *a, int64_t overdraw)
{
    segment_t s = a->cold;

    if (a->region != NULL && a->held >= a->held_max) {
        return 0; /* the file system has refused more pages */
    }
    if (s == 0 && a->committed - a->fresh <= a->step_segments / 2) {
        a->wants_range = a->committed <= a->held_max;
        if (a->fresh == a->committed) {
            return 0;
        }
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
    budget_count(a->budget, BUDGET_HELD, (int64_t)1 << a->shift);
    return s;
}

/* Return a segment that was charged but has no pages, because the file system refused them. */
static void give_unbacked(struct arena *a, segment_t s)
{
    a->segments[s].is_cold = 1;
    a->segments[s].next = a->cold;
    a->cold = s;
    a->held--;
    a->held_max = a->held; /* until arena_range_retry() */
    arena_count_held(a, -1);
}

/* In a file, allocate pages for a segment before it is used; elsewhere, do nothing. */
static bool back(const struct arena *a, segment_t s)
{
    return a->region == NULL ||
           region_back(a->region, (uint64_t)s << a->shift, segment_bytes(a));
}

/* The rest of arena_take() in a file. Takes as long as touching the pages. */
static MF_NOINLINE segment_t back_or_give(struct arena *a, segment_t s)
{
    if (!back(a, s)) {
        give_unbacked(a, s);
        return 0;
    }
    return s;
}

segment_t arena_take(struct arena *a, enum segment_state state, int64_t overdraw)
{
    segment_t s = pop_free(a);

    arena_must_be_entered(a);
    if (s == 0) {
        s = pop_unheld(a, overdraw);
        if (s != 0 && MF_UNLIKELY(a->region != NULL)) {
            s = back_or_give(a, s);
        }
    }
    if (s == 0) {
        return 0;
    }

    struct segment *g = &a->segments[s];
    uint32_t generation = g->generation + 1;
    uint8_t is_small = g->is_small;

    debug_must(!is_pinned(g));
    memset(g, 0, sizeof(*g));
    g->generation = generation;
    g->is_small = is_small & 1;
    g->state = (uint8_t)state;
    if (state == SEG_WHOLE) {
        a->whole++;
    }
    UNPOISON(segment_ptr(a, s), segment_bytes(a));
    return s;
}

/* Put a run at the front of the free list. */
static void free_run(struct arena *a, segment_t anchor)
{
    struct segment *g = &a->segments[anchor];
    uint32_t count = g->run_count;

    a->segments[g->run_last].next = a->free;
    a->free = g->run_first;
    a->free_count += count;
}

/* Make the first segment of a run its anchor. */
static struct segment *describe_run(struct arena *a, segment_t first, segment_t last,
                                    uint32_t count)
{
    struct segment *g = &a->segments[first];

    g->run_first = first;
    g->run_last = last;
    g->run_count = count;
    return g;
}

void arena_give_whole(struct arena *a, segment_t first, segment_t last, uint32_t count)
{
    arena_must_be_entered(a);
    a->whole -= count;
    describe_run(a, first, last, count);
    free_run(a, first);
}

static void queue_push(struct arena *a, struct run_queue *q, segment_t anchor)
{
    a->segments[anchor].bin_next = 0;
    a->segments[anchor].bin_prev = q->tail;
    if (q->tail != 0) {
        a->segments[q->tail].bin_next = anchor;
    } else {
        q->head = anchor;
    }
    q->tail = anchor;
    q->segments += a->segments[anchor].run_count;
}

static segment_t queue_pop(struct arena *a, struct run_queue *q)
{
    segment_t anchor = q->head;

    q->head = a->segments[anchor].bin_next;
    if (q->head == 0) {
        q->tail = 0;
    }
    q->segments -= a->segments[anchor].run_count;
    return anchor;
}

/* Stamp a run and queue it for its grace period. */
static void retire_run(struct arena *a, segment_t anchor, enum run_kind kind)
{
    struct segment *g = &a->segments[anchor];

    g->stamp = grace_stamp(a->grace);
    g->is_dated = 1;
    queue_push(a, kind == RUN_LAZY ? &a->lazy : &a->quarantine, anchor);
    grace_ask(a->grace, GRACE_SOON);
}

void arena_retire(struct arena *a, segment_t first, segment_t last, uint32_t count,
                  enum run_kind kind)
{
    arena_must_be_entered(a);
    describe_run(a, first, last, count);
    retire_run(a, first, kind);
}

void arena_link_value(struct arena *a, segment_t first, segment_t last, uint32_t count)
{
    struct segment *g = describe_run(a, first, last, count);

    arena_must_be_entered(a);
    g->is_dated = 0;
    queue_push(a, &a->values, first);
}

void arena_extend_value(struct arena *a, segment_t anchor, enum run_end where, segment_t first,
                        segment_t last, uint32_t count)
{
    struct segment *g = &a->segments[anchor];

    arena_must_be_entered(a);
    if (where == RUN_BACK) {
        a->segments[g->run_last].next = first;
        g->run_last = last;
    } else {
        a->segments[last].next = g->run_first;
        g->run_first = first;
    }
    g->run_count += count;
    a->values.segments += count;
}

void arena_retire_value(struct arena *a, segment_t anchor, enum run_kind kind)
{
    struct segment *g = &a->segments[anchor];

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
    retire_run(a, anchor, kind);
}

void arena_retire_values(struct arena *a, enum run_kind kind)
{
    struct run_queue *v = &a->values;
    struct run_queue *q = kind == RUN_LAZY ? &a->lazy : &a->quarantine;

    arena_must_be_entered(a);
    if (v->head == 0) {
        return;
    }
    /* The stamp of the first run holds for all that follow it in the queue. */
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

/* Has the grace period of the run at the head of a queue ended? */
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

        segment_t anchor = queue_pop(a, q);
        struct segment *g = &a->segments[anchor];

        if (kind == RUN_LAZY) {
            out->lazy_runs++;
            out->lazy_segments += g->run_count;
        }
        /*
         * After the grace period there are no new pins, because a thread pins only a value that
         * it has found within a section.
         */
        if (is_pinned(g)) {
            out->pinned_segments += g->run_count;
            atomic_fetch_or_explicit(&g->pins, PIN_DEAD, memory_order_relaxed);
            queue_push(a, &a->pinned, anchor);
        } else {
            free_run(a, anchor);
        }
    }
    return false;
}

void arena_release_pinned(struct arena *a, uint32_t max, struct run_released *out)
{
    segment_t stop = a->pinned.tail;

    arena_must_be_entered(a);
    while (a->pinned.head != 0 && max-- > 0) {
        segment_t anchor = queue_pop(a, &a->pinned);
        struct segment *g = &a->segments[anchor];

        if (is_pinned(g)) {
            queue_push(a, &a->pinned, anchor);
        } else {
            out->unpinned_segments += g->run_count;
            free_run(a, anchor);
        }
        if (anchor == stop) {
            break;
        }
    }
}

uint32_t arena_avail(const struct arena *a)
{
    int64_t allowed = arena_allowed(a);

    arena_must_be_entered(a);
    return a->free_count + (allowed > 0 ? (uint32_t)allowed : 0);
}

/* First segment of the unit that contains a segment. Number 0 is never used. */
static segment_t unit_of(const struct arena *a, segment_t s)
{
    return s - s % a->unit_segments;
}

/* A segment is being released. Context: in shard. */
static void note_small_unit(struct arena *a, segment_t s)
{
    if (a->unit_segments == 0) {
        return;
    }
    struct segment *first = &a->segments[unit_of(a, s)];
    if (!first->is_small) {
        first->is_small = 1;
        a->small_units++;
        a->segments[s].asks_small = 1;
    }
}

/* Maximum units examined in a call of arena_unit_whole(). */
#define UNITS_A_CALL 16

static bool unit_is_held(const struct arena *a, segment_t first)
{
    if (first + a->unit_segments > a->fresh) {
        return false;
    }
    for (segment_t s = first; s < first + a->unit_segments; s++) {
        if (a->segments[s].is_cold) {
            return false;
        }
    }
    return true;
}

segment_t arena_unit_whole(struct arena *a)
{
    arena_must_be_entered(a);
    /* Units whose segments are being released are not cold yet. */
    for (unsigned i = 0; i < UNITS_A_CALL && a->small_units != 0 && a->trimming == 0; i++) {
        segment_t first = a->unit_next;

        a->unit_next = first + a->unit_segments < a->fresh ? first + a->unit_segments : 0;
        if (a->segments[first].is_small && unit_is_held(a, first)) {
            a->segments[first].is_small = 0;
            a->small_units--;
            return first + 1;
        }
    }
    return 0;
}

void arena_unit_use_huge(const struct arena *a, segment_t in)
{
    mem_use_huge(segment_ptr(a, unit_of(a, in)), MEM_HUGE_BYTES, true);
}

/*
 * Take the unused segments of the newest unit. They are resident, because touching the first
 * segment of a huge page makes the whole unit resident. They count as held from now on, until
 * the trimmer has released them.
 */
static uint32_t take_rest_of_unit(struct arena *a, segment_t *list)
{
    uint32_t n = 0;

    if (a->unit_segments == 0) {
        return 0;
    }
    while (a->fresh % a->unit_segments != 0 && a->fresh < a->committed) {
        a->segments[a->fresh].next = *list;
        *list = a->fresh++;
        n++;
    }
    if (n != 0) {
        note_small_unit(a, *list);
        a->held += n;
        arena_count_held(a, n);
    }
    return n;
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
        note_small_unit(a, s);
    }
    if (n != 0) {
        n += take_rest_of_unit(a, list);
    }
    a->trimming += n;
    return n;
}

static void discard(struct arena *a, segment_t first, uint32_t count)
{
    uint64_t bytes = (uint64_t)count << a->shift;

    if (a->region != NULL) {
        region_drop(a->region, (uint64_t)first << a->shift, bytes);
    } else {
        mem_discard(segment_ptr(a, first), bytes);
    }
}

/*
 * The flags of listed segments are not written meanwhile: their units stay small while anything
 * is being trimmed.
 */
void arena_trim_discard(struct arena *a, segment_t list)
{
    segment_t s = list;

    for (; s != 0; s = a->segments[s].next) {
        if (a->segments[s].asks_small) {
            mem_use_huge(segment_ptr(a, unit_of(a, s)), MEM_HUGE_BYTES, false);
        }
    }
    s = list;
    while (s != 0) {
        segment_t low = s;
        segment_t high = s;

        while ((s = a->segments[s].next) != 0 && (s + 1 == low || s == high + 1)) {
            low = s < low ? s : low;
            high = s > high ? s : high;
        }
        discard(a, low, high - low + 1);
    }
}

void arena_trim_done(struct arena *a, segment_t list, uint32_t count)
{
    arena_must_be_entered(a);
    while (list != 0) {
        struct segment *g = &a->segments[list];
        segment_t next = g->next;

        g->is_cold = 1;
        g->asks_small = 0;
        g->next = a->cold;
        a->cold = list;
        list = next;
    }
    a->trimming -= count;
    a->held -= count;
    arena_count_held(a, -(int64_t)count);
}

uint32_t arena_stock_take(struct arena *a, uint32_t max, segment_t *list)
{
    uint32_t n = 0;
    segment_t s;

    arena_must_be_entered(a);
    *list = 0;
    while (n < max && (s = pop_unheld(a, 0)) != 0) {
        a->segments[s].next = *list;
        a->segments[s].is_cold = 0;
        a->segments[s].is_bare = 0;
        *list = s;
        n++;
    }
    a->stocking += n;
    return n;
}

void arena_stock_touch(struct arena *a, segment_t list)
{
    for (segment_t s = list; s != 0; s = a->segments[s].next) {
        UNPOISON(segment_ptr(a, s), segment_bytes(a));
        if (MF_LIKELY(back(a, s))) {
            mem_touch(segment_ptr(a, s), segment_bytes(a));
        } else {
            a->segments[s].is_bare = 1;
        }
    }
}

void arena_stock_done(struct arena *a, segment_t list, uint32_t count)
{
    arena_must_be_entered(a);
    a->stocking -= count;
    while (list != 0) {
        struct segment *g = &a->segments[list];
        segment_t next = g->next;

        if (g->is_bare) {
            give_unbacked(a, list);
        } else {
            g->next = a->free;
            a->free = list;
            a->free_count++;
        }
        list = next;
    }
}

_Static_assert(sizeof(struct segment) == 64, "an entry is a cache line");
