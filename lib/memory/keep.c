/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments over a restart: see keep.h.
 */
#include "lib/memory/keep.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/chains.h"

_Static_assert(sizeof(struct keep_segment) == 32, "it is written as it is");

/* A whole segment that no value has claimed yet: its count of a run. */
#define UNCLAIMED UINT32_MAX

/* ---- the list ---------------------------------------------------------------------------- */

uint32_t keep_count(const struct memory *m)
{
    memory_must_be_entered(m);
    return chains_segments(m) + m->arena.values.segments;
}

static void note(const struct memory *m, segment_t n, enum keep_place place,
                 struct keep_segment *out)
{
    const struct segment *g = &m->arena.segments[n];

    *out = (struct keep_segment){.number = n,
                                 .fill = g->fill,
                                 .dead = g->dead,
                                 .live = g->live,
                                 .sealed_s = g->sealed_s,
                                 .sealed_cas = g->sealed_cas,
                                 .chain = g->chain,
                                 .place = (uint8_t)place};
}

static enum keep_place place_of(const struct memory *m, const struct chain *c, int id,
                                segment_t n)
{
    return n == c->open              ? KEEP_OPEN
           : n == c->compact         ? KEEP_COMPACT
           : n == m->blocks.rest[id] ? KEEP_REST
                                     : KEEP_SEALED;
}

void keep_list(const struct memory *m, struct keep_segment *out)
{
    const struct segment *segs = m->arena.segments;

    memory_must_be_entered(m);
    for (int id = 0; id < CHAINS; id++) {
        const struct chain *c = &m->blocks.chain[id];

        for (segment_t n = c->head; n != 0; n = segs[n].next) {
            note(m, n, place_of(m, c, id, n), out++);
        }
    }
    for (segment_t run = m->arena.values.head; run != 0; run = segs[run].bin_next) {
        segment_t n = segs[run].run_first;

        for (uint32_t i = 0; i < segs[run].run_count; i++) {
            note(m, n, KEEP_WHOLE, out);
            /* Of the anchor these fields describe the run, of others they have no meaning. */
            out->live = out->sealed_s = out->sealed_cas = 0;
            out->next = i + 1 < segs[run].run_count ? segs[n].next : 0;
            out++;
            n = segs[n].next;
        }
    }
}

void keep_drop_rest(const struct memory *m, const struct keep_segment *list, uint32_t count)
{
    const struct arena *a = &m->arena;
    bool *is_kept = mem_zalloc(a->fresh + 1);
    segment_t from = 0;

    if (is_kept == NULL) {
        return; /* the next process does the same */
    }
    for (uint32_t i = 0; i < count; i++) {
        is_kept[list[i].number] = true;
    }
    is_kept[a->fresh] = true;
    for (segment_t n = 0; n <= a->fresh; n++) {
        if (is_kept[n]) {
            if (n != from) {
                region_drop(a->region, (uint64_t)from << a->shift,
                            (uint64_t)(n - from) << a->shift);
            }
            from = n + 1;
        }
    }
    mem_free(is_kept);
}

/* ---- entering it ------------------------------------------------------------------------- */

/* Have the range committed as far as it was used. */
static bool commit(struct arena *a, uint32_t fresh)
{
    while (a->committed < fresh) {
        uint32_t from = a->committed;

        if (from > a->held_max || !arena_range_commit(a, from)) {
            return false;
        }
        a->committed += a->step_segments;
    }
    return true;
}

static bool is_sane(const struct arena *a, const struct keep_segment *k)
{
    if (k->number == 0 || k->number >= a->fresh || k->chain >= CHAINS ||
        k->place >= KEEP_PLACES || k->fill > segment_bytes(a) || k->dead > k->fill ||
        k->next >= a->fresh) {
        return false;
    }
    const struct segment *g = &a->segments[k->number];
    return g->state == SEG_FREE;
}

static bool enter_whole(struct arena *a, const struct keep_segment *k)
{
    struct segment *g = &a->segments[k->number];

    g->state = SEG_WHOLE;
    g->fill = k->fill;
    g->skip = k->dead;
    g->next = k->next;
    g->run_count = UNCLAIMED;
    return true;
}

/* Only one segment of a chain is open, and so on. */
static bool enter_place(struct memory *m, const struct keep_segment *k)
{
    struct chain *c = &m->blocks.chain[k->chain];
    segment_t *at = k->place == KEEP_OPEN      ? &c->open
                    : k->place == KEEP_COMPACT ? &c->compact
                    : k->place == KEEP_REST    ? &m->blocks.rest[k->chain]
                                               : NULL;

    if (at == NULL) {
        return true;
    }
    if (*at != 0) {
        return false;
    }
    *at = k->number;
    return true;
}

static bool enter_chained(struct memory *m, const struct keep_segment *k)
{
    struct segment *g = &m->arena.segments[k->number];

    g->state = k->place == KEEP_SEALED ? SEG_SEALED : SEG_OPEN;
    g->fill = k->fill;
    g->sealed_s = k->sealed_s;
    g->sealed_cas = k->sealed_cas;
    chains_enter(m, k->number, (enum chain_id)k->chain);
    return enter_place(m, k);
}

bool keep_enter(struct memory *m, const struct keep_segment *list, uint32_t count,
                uint32_t fresh)
{
    struct arena *a = &m->arena;

    memory_must_be_entered(m);
    must(a->fresh == 1 && a->held == 0);
    if (fresh == 0 || fresh - 1 > a->held_max || !commit(a, fresh)) {
        return false;
    }
    a->fresh = fresh;
    for (uint32_t i = 0; i < count; i++) {
        const struct keep_segment *k = &list[i];

        if (!is_sane(a, k) ||
            !(k->place == KEEP_WHOLE ? enter_whole(a, k) : enter_chained(m, k))) {
            return false;
        }
        a->segments[k->number].generation = 1;
    }
    return true;
}

bool keep_back(const struct memory *m, const struct keep_segment *list, uint32_t count)
{
    const struct arena *a = &m->arena;

    for (uint32_t i = 0; a->region->has_holes && i < count; i++) {
        if (!region_back(a->region, (uint64_t)list[i].number << a->shift, segment_bytes(a))) {
            return false;
        }
    }
    return true;
}

bool keep_claim(struct memory *m, segment_t n)
{
    struct arena *a = &m->arena;

    memory_must_be_entered(m);
    if (n == 0 || n >= a->fresh || a->segments[n].state != SEG_WHOLE ||
        a->segments[n].run_count != UNCLAIMED) {
        return false;
    }
    a->segments[n].run_count = 0;
    a->whole++;
    return true;
}

/* ---- when all is entered ----------------------------------------------------------------- */

static bool is_used(const struct segment *g)
{
    return g->state == SEG_OPEN || g->state == SEG_SEALED ||
           (g->state == SEG_WHOLE && g->run_count != UNCLAIMED);
}

/* Make a segment cold, whatever is in it. */
static void give(struct arena *a, segment_t n)
{
    struct segment *g = &a->segments[n];

    memset(g, 0, sizeof(*g));
    g->generation = 1;
    g->is_cold = 1;
    g->next = a->cold;
    a->cold = n;
}

void keep_entered(struct memory *m)
{
    struct arena *a = &m->arena;
    segment_t unused = 0; /* the first of some in a row */

    memory_must_be_entered(m);
    for (segment_t n = 1; n <= a->fresh; n++) {
        bool is_end = n == a->fresh || is_used(&a->segments[n]);

        if (is_end && unused != 0) {
            region_drop(a->region, (uint64_t)unused << a->shift,
                        (uint64_t)(n - unused) << a->shift);
            unused = 0;
        } else if (!is_end && unused == 0) {
            unused = n;
        }
        if (!is_end) {
            give(a, n);
        } else if (n != a->fresh) {
            a->held++;
            if (a->segments[n].state == SEG_SEALED) {
                chains_entered(m, n);
            }
        }
    }
    /* Pages touched after them, if any. */
    region_drop(a->region, (uint64_t)a->fresh << a->shift,
                a->region->bytes - ((uint64_t)a->fresh << a->shift));
    arena_count_held(a, a->held);
}
