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
 * The range is reserved as a whole. Where committed pages count against a limit of the system
 * or the process (see mem_promises_freely()), it is committed in steps, as segments are used
 * for the first time; elsewhere all of it is committed at the start.
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
     * [lock], except that next, fill and skip of a whole segment are [const] for the readers of
     * a value: they read them only where the value goes on (see struct large).
     */
    uint32_t next; /* in the chain, the run or the free list */
    union {
        uint32_t prev;      /* in the chain */
        uint32_t run_first; /* anchor of a run: its first segment */
    };
    uint32_t bin_next, bin_prev; /* sealed: others in the same bin. bin_next also joins runs */
    uint32_t fill;               /* bytes taken from the front; whole: the end of its part */
    union {
        uint32_t dead; /* bytes of dead blocks, without the unused tail */
        uint32_t skip; /* whole: where its part of the value begins */
    };
    uint32_t live;       /* live blocks */
    uint32_t generation; /* changes when it is taken, which voids entries of the death ring */
    uint32_t sealed_s;   /* second of sealing */
    uint32_t run_last;   /* anchor of a run: its last segment */
    uint32_t run_count;  /* anchor of a run: segments */
    union {
        uint32_t stamp;      /* anchor of a run: its grace number */
        uint32_t sealed_cas; /* sealed: low bits of the cas that came next then */
    };
    _Atomic uint64_t pins; /* [atomic] anchor of a value: slow readers that hold it */
    uint16_t busy; /* blocks being filled outside the lock; anchor: value being extended */
    uint8_t state; /* enum segment_state */
    uint8_t chain; /* enum chain_id */
    uint8_t bin;
    uint8_t is_cold : 1;   /* its pages were released, and it was not taken since */
    uint8_t is_small : 1;  /* first of a unit: huge pages are disabled in the unit */
    uint8_t is_passed : 1; /* in a chain: was searched, see shard_note_place() */
    uint8_t is_dated : 1;  /* anchor of a run: has a stamp; else that of the run before it */
    /*
     * Used outside the shard, so these are no bit fields. asks_small: first of a unit, while
     * its pages are being released: huge pages are to be disabled in the whole unit. is_bare:
     * while it is being made resident: the file system has refused its pages.
     */
    uint8_t asks_small;
    uint8_t is_bare;
} MF_LINE_ALIGNED;

/*
 * pins: the number of holders of the value, whether it has been unlinked, and the number of
 * segments of its longest pinned version, which are counted as pinned.
 */
#define PIN_COUNT          0x7fffffffull
#define PIN_DEAD           0x80000000ull
#define PIN_SEGMENTS_SHIFT 32

struct run_queue {
    segment_t head, tail;
    uint32_t segments;
    uint32_t stamp; /* of the last dated run taken off */
};

/* Common to all arenas of an engine, so that blocks can move between them unchanged. */
struct arena_shape {
    uint32_t shift;         /* log2 of the bytes of a segment */
    uint32_t step_segments; /* of the range, committed at once; 0: all of them */
    bool has_huge;          /* the range is of huge pages */
};

struct arena {
    /* [const] */
    char *base;
    struct segment *segments;
    uint64_t map_bytes;
    uint32_t shift;         /* log2 of the bytes of a segment */
    uint32_t step_segments; /* committed at once */
    uint32_t unit_segments; /* that share a huge page; 0: the range has none */
    struct budget *budget;
    struct grace *grace;
    const struct lock *lock;     /* [borrowed] guards the arena; NULL: one thread only */
    const struct region *region; /* [borrowed] of a file that the range is in, or NULL */

    /* [lock] */
    uint32_t held_max;    /* segments of the whole range; fewer once a step was refused */
    uint32_t committed;   /* numbers below this may be used */
    bool wants_range;     /* the next step should be committed */
    bool wants_stock;     /* free segments should be made resident ahead: see stock.h */
    bool wants_stock_now; /* none is left: the thread that took it calls stock_make() outside */
    uint32_t fresh;       /* lowest number never used */
    segment_t free;       /* held and unused */
    uint32_t free_count;
    uint32_t free_low;    /* least free_count since the trimmer last looked */
    segment_t cold;       /* unused and not resident */
    uint32_t held;        /* open, sealed, whole, waiting, free */
    uint32_t whole;       /* in large values, linked or being received */
    uint32_t small_units; /* units in which the system is to use no huge pages */
    segment_t unit_next;  /* first segment of the unit to check next: arena_unit_whole() */
    uint32_t trimming;    /* taken off the free list to be released to the system */
    uint32_t stocking;    /* being made resident for the free list */
    struct run_queue quarantine, lazy, pinned;
    struct run_queue values; /* linked large values, doubly linked by bin_next and bin_prev */
};

/* Checks "Context: in shard" in debug builds. */
#define arena_must_be_entered(a) debug_must((a)->lock == NULL || lock_is_held_here((a)->lock))

/* The longest range that handles can name, in bytes: 32 bits of ITEM_UNIT. */
#define ARENA_RANGE_MAX ((uint64_t)ITEM_UNIT << 32)

/*
 * The range that suits a process limit, in bytes: one shard may come to hold nearly all of it,
 * and it may be raised. Context: any thread.
 */
uint64_t arena_range_for(uint64_t limit_bytes);

/* log2 of the segment size that suits a shard's share of the limit. Context: any thread. */
uint32_t arena_shift_for(uint64_t share_bytes);

/*
 * The shape that suits a shard's share of the limit. With a region the range is in a file,
 * which says how large segments are; NULL: in memory of its own. has_steps: the range is
 * committed in steps. Context: any thread.
 */
struct arena_shape arena_shape_for(uint64_t share_bytes, const struct region *region,
                                   bool has_steps);

/*
 * Reserve a range. With a region (borrowed) it is in a file; NULL: in memory of its own. False
 * when the system refuses. Context: no other thread uses it.
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
 * Grow the range by a step, outside the lock. begin returns the number of segments committed so
 * far (0: no step is wanted), commit makes the system call, end records its result. When the
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
 * Take a segment: a free one, else one within the budget (overdraw: how many bytes beyond the
 * limit are tolerated). 0 when there is none, or (wants_range is set) its part of the range is
 * not committed yet. The entry of the segment is reset. Context: in shard.
 */
segment_t arena_take(struct arena *a, enum segment_state state, int64_t overdraw);

/*
 * Return whole segments, linked by next, that no other thread has seen: they are free at once.
 * Context: in shard.
 */
void arena_give_whole(struct arena *a, segment_t first, segment_t last, uint32_t count);

enum run_kind { RUN_DIRECT, RUN_LAZY };

/*
 * Hand over a run that was just unlinked: it is free after a grace period. Context: in shard.
 */
void arena_retire(struct arena *a, segment_t first, segment_t last, uint32_t count,
                  enum run_kind kind);

/*
 * Large values: the segments of one are a run. arena_link_value(): the value becomes visible.
 * arena_retire_value(): it was unlinked. arena_retire_values(): all of them were, in constant
 * time (flush). Context: in shard.
 */
void arena_link_value(struct arena *a, segment_t first, segment_t last, uint32_t count);
void arena_retire_value(struct arena *a, segment_t anchor, enum run_kind kind);

/*
 * The value with this anchor gets more whole segments, linked by next, after its last or before
 * its first. Context: in shard.
 */
enum run_end { RUN_FRONT, RUN_BACK, RUN_ENDS };
void arena_extend_value(struct arena *a, segment_t anchor, enum run_end where, segment_t first,
                        segment_t last, uint32_t count);
void arena_retire_values(struct arena *a, enum run_kind kind);

/* What a release has freed, for counters. */
struct run_released {
    uint32_t lazy_runs;
    uint32_t lazy_segments;
    uint32_t pinned_segments; /* moved to the pinned queue: not free yet */
    uint32_t unpinned_segments;
};

/*
 * Release up to max runs of a queue whose grace period is over. True if there are more such
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

/* Has the system refused to let the range grow? Context: in shard. */
static inline bool arena_range_is_cut(const struct arena *a)
{
    return a->held_max != (uint32_t)(a->map_bytes >> a->shift) - 1;
}

/* How many segments more the range can hold. Context: in shard. */
static inline uint32_t arena_unheld(const struct arena *a)
{
    arena_must_be_entered(a);
    return a->held_max - a->held;
}

/*
 * How many segments the budget and the range still allow; negative when the budget is
 * overdrawn. Context: in shard.
 */
static inline int64_t arena_allowed(const struct arena *a)
{
    int64_t left = budget_left(a->budget) >> a->shift;
    int64_t unheld = arena_unheld(a);

    return left < unheld ? left : unheld;
}

/*
 * How many segments can be taken now: free ones, and what budget and range still allow.
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
 * Trimming, in three steps: take up to max free segments off the list (in shard), release their
 * pages (outside), mark them as cold (in shard). take also adds the unused segments of the
 * newest unit, which are resident if the unit is one huge page; it returns the number of
 * segments. discard makes a system call for each run of neighbours in the list, and one for
 * each unit of which nothing was released before.
 */
uint32_t arena_trim_take(struct arena *a, uint32_t max, segment_t *list);
void arena_trim_discard(struct arena *a, segment_t list);
void arena_trim_done(struct arena *a, segment_t list, uint32_t count);

/*
 * The reverse, in three steps: take up to max segments that are not resident, and count them in
 * the budget, within the limit (in shard); touch their pages (outside); put them on the free
 * list (in shard). take returns the number of segments, 0 if the next step of the range is not
 * committed yet.
 */
uint32_t arena_stock_take(struct arena *a, uint32_t max, segment_t *list);
void arena_stock_touch(struct arena *a, segment_t list);
void arena_stock_done(struct arena *a, segment_t list, uint32_t count);

/*
 * Huge pages are disabled in a unit of which a part was released, because the kernel would fill
 * the holes again. They are enabled again once all segments of the unit are held. Checks a few
 * units, and returns a segment of one that has become whole, or 0. The caller then calls
 * arena_unit_use_huge() for it. Context: in shard; arena_unit_use_huge(): outside.
 */
segment_t arena_unit_whole(struct arena *a);
void arena_unit_use_huge(const struct arena *a, segment_t in);

#endif
