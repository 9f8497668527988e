/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See counts.h. A search begins at the place that the hash gives, and ends at a place that is
 * not in use. The hash has a seed of its own.
 */
#include "lib/base/counts.h"

#include <stdbool.h>

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#define CAP_LEAST 64u

void counts_init(struct counts *c)
{
    *c = (struct counts){.seed = hash_random_seed()};
}

void counts_fini(struct counts *c)
{
    mem_free(c->places);
    c->places = NULL;
    c->cap = 0;
    c->used = 0;
}

static uint32_t home_of(const struct counts *c, uint64_t id)
{
    return (uint32_t)hash_key(c->seed, &id, sizeof(id)) & (c->cap - 1);
}

/* Its place, or the one that it would take. */
static uint32_t place_of(const struct counts *c, uint64_t id)
{
    uint32_t i = home_of(c, id);

    while (c->places[i].n > 0 && c->places[i].id != id) {
        i = (i + 1) & (c->cap - 1);
    }
    return i;
}

/* Move all to a table of this size. False: no memory, nothing changed. */
static bool resize(struct counts *c, uint32_t cap)
{
    struct count *had = c->places;
    const uint32_t had_cap = c->cap;
    struct count *places = mem_zalloc(cap * sizeof(*places));

    if (places == NULL) {
        return false;
    }
    c->places = places;
    c->cap = cap;
    for (uint32_t i = 0; i < had_cap; i++) {
        if (had[i].n > 0) {
            c->places[place_of(c, had[i].id)] = had[i];
        }
    }
    mem_free(had);
    return true;
}

struct count *counts_of(struct counts *c, uint64_t id)
{
    if (c->used * 2 >= c->cap && !resize(c, c->cap > 0 ? c->cap * 2 : CAP_LEAST)) {
        return NULL;
    }
    struct count *count = &c->places[place_of(c, id)];
    c->used += count->n == 0;
    count->id = id;
    return count;
}

/* Close the gap: move counts up that were placed later because this place was taken. */
static void remove_place(struct counts *c, uint32_t gap)
{
    uint32_t i = gap;

    c->places[gap].n = 0;
    c->used--;
    for (;;) {
        i = (i + 1) & (c->cap - 1);
        if (c->places[i].n == 0) {
            return;
        }
        const uint32_t home = home_of(c, c->places[i].id);

        /* It may move into the gap if its home is not between the gap and itself. */
        if (((i - home) & (c->cap - 1)) >= ((i - gap) & (c->cap - 1))) {
            c->places[gap] = c->places[i];
            c->places[i].n = 0;
            gap = i;
        }
    }
}

void counts_drop(struct counts *c, uint64_t id)
{
    const uint32_t i = place_of(c, id);

    must(c->places[i].n > 0);
    if (--c->places[i].n == 0) {
        remove_place(c, i);
        if (c->cap > CAP_LEAST && c->used * 8 < c->cap) {
            (void)resize(c, c->cap / 2); /* without memory it stays as large */
        }
    }
}
