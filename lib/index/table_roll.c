/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rolling resizes of the index: see table.h.
 */
#include "lib/index/table.h"

/* The fewest parts of both arrays for a resize to roll: with fewer it saves too little. */
#define ROLL_LEAST 2u

static const struct table_view *view_of(const struct table *t)
{
    return atomic_load_explicit(&t->view, memory_order_acquire);
}

/* The smaller of two arrays if a resize from one to the other rolls; 0: it does not. */
static uint64_t rolling(const struct table *t, uint64_t a, uint64_t b)
{
    uint64_t least = a < b ? a : b;

    return least >= ROLL_LEAST * t->part_buckets ? least : 0;
}

uint64_t table_overlap(const struct table *t, uint64_t bytes)
{
    table_must_be_entered(t);
    return rolling(t, view_of(t)->mask + 1, bytes / sizeof(struct table_bucket)) *
           sizeof(struct table_bucket);
}

bool table_rolls(const struct table *t, uint64_t buckets)
{
    table_must_be_entered(t);
    return t->asked_rolls && t->asked == buckets &&
           rolling(t, view_of(t)->mask + 1, buckets) != 0;
}

/* Buckets in a part of both arrays. */
static uint64_t part_of(const struct table *t, const struct table_view *v)
{
    uint64_t n = t->part_buckets;

    n = n <= v->mask ? n : v->mask + 1;
    return n <= v->old_mask ? n : v->old_mask + 1;
}

bool table_next_part(struct table *t, struct table_part *part)
{
    const struct table_view *v = view_of(t);

    table_must_be_entered(t);
    if (t->ready == TABLE_ALL || t->move_next < t->ready || t->ready > v->old_mask) {
        return false;
    }
    *part = (struct table_part){
        .view = v,
        .buckets = &v->buckets[(t->ready & v->mask) + t->touched * (v->old_mask + 1)],
        .count = part_of(t, v),
    };
    return true;
}

/*
 * Rewrite a word of each page with its own value, atomically: inserts that found no room in the
 * old array may write there at the same time.
 */
void table_touch_part(const struct table_part *part)
{
    const uint64_t step = 4096 / sizeof(struct table_bucket);

    for (uint64_t i = 0; i < part->count; i += step) {
        uint64_t zero = 0;

        (void)atomic_compare_exchange_strong_explicit(
            &part->buckets[i].word[0], &zero, 0, memory_order_relaxed, memory_order_relaxed);
    }
}

void table_part_done(struct table *t, const struct table_part *part)
{
    const struct table_view *v = view_of(t);

    table_must_be_entered(t);
    /* A flush may have taken the table, or the thread may have called table_unroll(). */
    if (v != part->view || t->ready == TABLE_ALL) {
        return;
    }
    /* Items of an old bucket go to new ones that are as far apart as the old array is long. */
    t->touched++;
    if (t->touched * (v->old_mask + 1) > v->mask) {
        t->touched = 0;
        t->ready += part->count;
    }
}

/*
 * Buckets that have moved are empty, but count the items that passed over them until those have
 * moved, too. If the last one of some counts none, nothing from any of them is further on.
 */
bool table_drained(struct table *t, struct table_part *part)
{
    const struct table_view *v = view_of(t);

    table_must_be_entered(t);
    if (t->ready == TABLE_ALL || t->phase != TABLE_MOVING) {
        return false;
    }
    uint64_t end = t->move_next & ~(part_of(t, v) - 1);
    if (end <= t->drained || atomic_load_explicit(&v->old[end - 1].word[1],
                                                  memory_order_relaxed) >= TABLE_COUNT_ONE) {
        return false;
    }
    *part = (struct table_part){v, &v->old[t->drained], end - t->drained};
    t->drained = end;
    return true;
}

void table_drop_part(const struct table_part *part)
{
    mem_discard(part->buckets, part->count * sizeof(struct table_bucket));
}

void table_unroll(struct table *t)
{
    table_must_be_entered(t);
    t->asked_rolls = false;
    t->ready = TABLE_ALL;
}
