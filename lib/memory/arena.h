/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address range of a shard, divided into segments, and the state of each segment.
 *
 *     fresh -> (open -> sealed -> quarantine) or (whole -> quarantine) -> free -> ...
 *     free -> cold (released to the system) -> open or whole
 *     fresh or cold -> free (made resident ahead)
 *
 * Every segment that is neither fresh nor cold is *held*: resident and counted in the budget of
 * the process, so the resident size is known exactly.
 *
 * The range is reserved as a whole. If committed pages count against a limit of the system or
 * the process (see mem_promises_freely()), it is committed in steps, as segments are used for
 * the first time; otherwise all of it is committed at the start.
 *
 * Unused segments are retired in *runs*: lists of segments linked by `next`, described in the
 * entry of one of them, the anchor. The anchor is the first segment, unless a large value was
 * extended at its front. A run waits for its grace period in one of two queues (threads in the
 * shard release from `quarantine`, the reclaimer from `lazy`), then, if a reader has pinned it,
 * in `pinned`. Retiring and releasing a run is O(1) whatever its length.
 */
#ifndef MAYFLY_LIB_MEMORY_ARENA_H
#define MAYFLY_LIB_MEMORY_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/grace.h"
#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/memory/item.h"
#include "lib/memory/region.h"

typedef uint32_t segment_t; /* number of a segment; 0 is none and never used */

enum segment_state {
    SEG_FREE,   /* free, cold, fresh, or in a run that waits */
    SEG_OPEN,   /* blocks are being appended */
    SEG_SEALED, /* full; its dead blocks may become holes */
    SEG_WHOLE,  /* part of a large value */
};

enum chain_id { CHAIN_SMALL, CHAIN_MAIN, CHAIN_BIG, CHAINS };

struct segment {
    /*
     * [lock], except that next, fill and skip of a whole segment are [const] for readers of a
     * value, which read them only within the value (see struct large).
     */
    uint32_t next; /* in the chain, the run or the free list */
    union {
        uint32_t prev;      /* in the chain */
        uint32_t run_first; /* anchor of a run: its first segment */
    };
    uint32_t bin_next, bin_prev; /* sealed: others in the same bin. bin_next also joins runs */
    uint32_t fill;               /* bytes used from the front; whole: the end of its part */
    union {
        uint32_t dead; /* bytes of dead blocks, without the unused tail */
        uint32_t skip; /* whole: offset at which its part of the value begins */
    };
    uint32_t live;       /* live blocks */
    uint32_t generation; /* changes at each use, which invalidates entries of the death ring */
    uint32_t sealed_s;   /* second of sealing */
    uint32_t run_last;   /* anchor of a run: its last segment */
    uint32_t run_count;  /* anchor of a run: segments */
    union {
        uint32_t stamp;      /* anchor of a run: its grace number */
        uint32_t sealed_cas; /* sealed: low bits of the next cas at that time */
    };
    _Atomic uint64_t pins; /* [atomic] anchor of a value: slow readers that hold it */
    uint16_t busy; /* blocks being filled outside the lock; anchor: value being extended */
    uint8_t state; /* enum segment_state */
    uint8_t chain; /* enum chain_id */
    uint8_t bin;
    uint8_t is_cold : 1;   /* its pages were released, and it has not been used since */
    uint8_t is_small : 1;  /* first of a unit: huge pages are disabled in the unit */
    uint8_t is_passed : 1; /* in a chain: already searched, see shard_note_place() */
    uint8_t is_dated : 1;  /* anchor of a run: has a stamp; else that of the run before holds */
    /*
     * Used outside the shard, so these are not bit fields. asks_small: in the first segment of
     * a unit, while its pages are being released: disable huge pages in the whole unit.
     * is_bare: while it is being made resident: the file system has refused its pages.
     */
    uint8_t asks_small;
    uint8_t is_bare;
} MF_LINE_ALIGNED;

/*
 * Fields of pins: the number of holders of the value, whether it has been unlinked, and the
 * number of segments of its longest pinned version, which are counted as pinned.
 */
#define PIN_COUNT          0x7fffffffull
#define PIN_DEAD           0x80000000ull
#define PIN_SEGMENTS_SHIFT 32

struct run_queue {
    segment_t head, tail;
    uint32_t segments;
    uint32_t stamp; /* of the last dated run that was removed */
};

/* Common to all arenas of an engine, so that blocks can move between them unchanged. */
struct arena_shape {
    uint32_t shift;         /* log2 of the bytes of a segment */
    uint32_t step_segments; /* segments committed per step; 0: all at once */
    bool has_huge;          /* the range is of huge pages */
};

struct arena {
    /* [const] */
    char *base;
    struct segment *segments;
    uint64_t map_bytes;
    uint32_t shift;         /* log2 of the bytes of a segment */
    uint32_t step_segments; /* committed at once */
    uint32_t unit_segments; /* segments that share a huge page; 0: no huge pages */
    struct budget *budget;
    struct grace *grace;
    const struct lock *lock;     /* [borrowed] guards the arena; NULL: one thread only */
    const struct region *region; /* [borrowed] of a file that the range is in, or NULL */

    /* [lock] */
    uint32_t held_max;    /* segments of the whole range; fewer once a step was refused */
    uint32_t committed;   /* numbers below this may be used */
    bool wants_range;     /* the next step should be committed */
    bool wants_stock;     /* free segments should be made resident in advance: see stock.h */
    bool wants_stock_now; /* none is left: the thread that took it calls stock_make() outside */
    uint32_t fresh;       /* lowest number never used */
    segment_t free;       /* held and unused */
    uint32_t free_count;
    uint32_t free_low;    /* lowest free_count since the trimmer last checked */
    segment_t cold;       /* unused and not resident */
    uint32_t held;        /* open, sealed, whole, waiting, free */
    uint32_t whole;       /* in large values, linked or being received */
    uint32_t small_units; /* units in which the system is to use no huge pages */
    segment_t unit_next;  /* first segment of the unit to check next: arena_unit_whole() */
    uint32_t trimming;    /* removed from the free list to be released to the system */
    uint32_t stocking;    /* being made resident for the free list */
    struct run_queue quarantine, lazy, pinned;
    struct run_queue values; /* linked large values, doubly linked by bin_next and bin_prev */
};

/* Checks "Context: in shard" in debug builds. */
#define arena_must_be_entered(a) debug_must((a)->lock == NULL || lock_is_held_here((a)->lock))

/* The longest range, in bytes, that handles can address: 32 bits of ITEM_UNIT. */
#define ARENA_RANGE_MAX ((uint64_t)ITEM_UNIT << 32)

/*
 * The range for a limit of the process, in bytes: one shard may come to hold nearly all of it,
 * and the limit may be raised. Context: any thread.
 */
uint64_t arena_range_for(uint64_t limit_bytes);

/* log2 of the segment size for a shard's share of the limit. Context: any thread. */
uint32_t arena_shift_for(uint64_t share_bytes);

/*
 * The shape for a shard's share of the limit. With a region, the range is in a file, which
 * defines the segment size; NULL: in anonymous memory. has_steps: the range is committed in
 * steps. Context: any thread.
 */
struct arena_shape arena_shape_for(uint64_t share_bytes, const struct region *region,
                                   bool has_steps);

/*
 * Reserve a range. With a region (borrowed) it is in a file; NULL: in anonymous memory. False
 * if the system refuses. Context: no other thread uses it.
 */
bool arena_init(struct arena *a, uint64_t range_bytes, const struct arena_shape *shape,
                const struct region *region, struct budget *budget, struct grace *grace,
                const struct lock *lock);
void arena_fini(struct arena *a);

/*
 * Reset an arena without held segments to the state after arena_init(), and release the pages
 * of its entries and of segment 0; the committed part of the range stays committed. Generations
 * restart, so nothing may refer to a segment. False, with nothing changed, if segments are
 * held. Makes system calls. Context: in shard, while no thread waits for the shard.
 */
bool arena_reset(struct arena *a);

/*
 * Grow the range by a step, outside the lock. begin returns the number of segments committed
 * before (0: no step is wanted), commit makes the system call, end records its result. If the
 * system refuses, the range does not grow until arena_range_retry(). Context: begin, end,
 * retry: in shard; commit: outside a shard.
 */
uint32_t arena_range_begin(const struct arena *a);
bool arena_range_commit(const struct arena *a, uint32_t committed);
void arena_range_end(struct arena *a, uint32_t committed, bool is_done);
void arena_range_retry(struct arena *a);

static inline uint32_t segment_bytes(const struct arena *a)
{
    return 1u << a->shift;
}

/* Change the number of held segments by n in the budget. Context: any thread. */
static inline void arena_count_held(const struct arena *a, int64_t n)
{
    budget_add(a->budget, n * ((int64_t)1 << a->shift));
    budget_count(a->budget, BUDGET_HELD, n * ((int64_t)1 << a->shift));
}

static inline segment_t segment_of(const struct arena *a, handle_t h)
{
    return (segment_t)(((uint64_t)h * ITEM_UNIT) >> a->shift);
}

static inline handle_t segment_handle(const struct arena *a, segment_t s)
{
    return (handle_t)(((uint64_t)s << a->shift) / ITEM_UNIT);
}

static inline char *segment_ptr(const struct arena *a, segment_t s)
{
    return a->base + ((uint64_t)s << a->shift);
}

static inline struct item *arena_item(const struct arena *a, handle_t h)
{
    return item_at(a->base, h);
}

/*
 * Take a segment: a free one, else a new one within the budget (overdraw: tolerated bytes
 * beyond the limit). 0 if there is none, or (wants_range is set) if its part of the range is
 * not committed yet. The entry of the segment is reset. Context: in shard.
 */
segment_t arena_take(struct arena *a, enum segment_state state, int64_t overdraw);

/*
 * Return whole segments, linked by next, that no other thread has seen: they become free at
 * once. Context: in shard.
 */
void arena_give_whole(struct arena *a, segment_t first, segment_t last, uint32_t count);

enum run_kind { RUN_DIRECT, RUN_LAZY };

/*
 * Retire a run that was just unlinked: it becomes free after a grace period. Context: in shard.
 */
void arena_retire(struct arena *a, segment_t first, segment_t last, uint32_t count,
                  enum run_kind kind);

/*
 * The segments of a large value form a run. arena_link_value(): the value becomes visible.
 * arena_retire_value(): it was unlinked. arena_retire_values(): all were unlinked, by a flush,
 * in constant time. Context: in shard.
 */
void arena_link_value(struct arena *a, segment_t first, segment_t last, uint32_t count);
void arena_retire_value(struct arena *a, segment_t anchor, enum run_kind kind);

/*
 * Add whole segments, linked by next, to the value with this anchor, after its last segment or
 * before its first. Context: in shard.
 */
enum run_end { RUN_FRONT, RUN_BACK, RUN_ENDS };
void arena_extend_value(struct arena *a, segment_t anchor, enum run_end where, segment_t first,
                        segment_t last, uint32_t count);
void arena_retire_values(struct arena *a, enum run_kind kind);

/* Amounts freed by a release, for counters. */
struct run_released {
    uint32_t lazy_runs;
    uint32_t lazy_segments;
    uint32_t pinned_segments; /* moved to the pinned queue: not free yet */
    uint32_t unpinned_segments;
};

/*
 * Release up to max runs of a queue whose grace period has ended. True if there are more such
 * runs. Context: in shard.
 */
bool arena_release(struct arena *a, enum run_kind kind, uint32_t max, struct run_released *out);

/*
 * Check up to max pinned runs and release those that are no longer pinned. Context: in shard.
 */
void arena_release_pinned(struct arena *a, uint32_t max, struct run_released *out);

/* Must the range grow before another segment can be taken? Context: in shard. */
static inline bool arena_needs_range(const struct arena *a)
{
    arena_must_be_entered(a);
    return a->wants_range && a->free == 0 && a->cold == 0 && a->fresh == a->committed;
}

/* Has the system refused to commit more of the range? Context: in shard. */
static inline bool arena_range_is_cut(const struct arena *a)
{
    return a->held_max != (uint32_t)(a->map_bytes >> a->shift) - 1;
}

/* Number of further segments that the range can hold. Context: in shard. */
static inline uint32_t arena_unheld(const struct arena *a)
{
    arena_must_be_entered(a);
    return a->held_max - a->held;
}

/*
 * Number of further segments that the budget and the range allow; negative when the budget is
 * overdrawn. Context: in shard.
 */
static inline int64_t arena_allowed(const struct arena *a)
{
    int64_t left = budget_left(a->budget) >> a->shift;
    int64_t unheld = arena_unheld(a);

    return left < unheld ? left : unheld;
}

/*
 * Number of segments that can be taken now: free ones, and those that budget and range allow.
 * Context: in shard.
 */
uint32_t arena_avail(const struct arena *a);

/* Segments that wait for a grace period. Context: in shard. */
static inline uint32_t arena_waiting(const struct arena *a)
{
    arena_must_be_entered(a);
    return a->quarantine.segments + a->lazy.segments;
}

/*
 * Trimming, in three steps: remove up to max free segments from the list (in shard), release
 * their pages (outside), mark them as cold (in shard). take also adds the unused segments of
 * the newest unit, which are resident if the unit is one huge page; it returns the number of
 * segments. discard makes a system call for each run of adjacent segments in the list, and one
 * for each unit of which nothing was released before.
 */
uint32_t arena_trim_take(struct arena *a, uint32_t max, segment_t *list);
void arena_trim_discard(struct arena *a, segment_t list);
void arena_trim_done(struct arena *a, segment_t list, uint32_t count);

/*
 * The reverse, in three steps: take up to max segments that are not resident, and charge them
 * to the budget, within the limit (in shard); touch their pages (outside); add them to the free
 * list (in shard). take returns the number of segments, 0 if the next step of the range is not
 * committed yet.
 */
uint32_t arena_stock_take(struct arena *a, uint32_t max, segment_t *list);
void arena_stock_touch(struct arena *a, segment_t list);
void arena_stock_done(struct arena *a, segment_t list, uint32_t count);

/*
 * Huge pages are disabled in a unit of which a part was released, because the kernel would
 * allocate the released parts again. They are enabled again once all segments of the unit are
 * held. Checks a few units, and returns a segment of one that has become whole, or 0. The
 * caller then calls arena_unit_use_huge() for it. Context: in shard; arena_unit_use_huge():
 * outside.
 */
segment_t arena_unit_whole(struct arena *a);
void arena_unit_use_huge(const struct arena *a, segment_t in);

#endif
