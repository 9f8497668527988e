/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See access.h. A search begins at the place that the hash gives, and ends at an entry that
 * is not in use. The hash has a seed of its own, so that nobody can choose addresses that meet.
 */
#include "daemon/access/access.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#define CAP_LEAST 64u

void addresses_init(struct addresses *a)
{
    must_be_main();
    memset(a, 0, sizeof(*a));
    pthread_mutex_init(&a->lock, NULL);
    a->seed = hash_random_seed();
}

void addresses_fini(struct addresses *a)
{
    must_be_main();
    mem_free(a->entries);
    a->entries = NULL;
    pthread_mutex_destroy(&a->lock);
}

static uint32_t home_of(const struct addresses *a, uint64_t id)
{
    return (uint32_t)hash_key(a->seed, &id, sizeof(id)) & (a->cap - 1);
}

/* Its entry, or the one that it would take. */
static uint32_t place_of(const struct addresses *a, uint64_t id)
{
    uint32_t i = home_of(a, id);

    while (a->entries[i].conns > 0 && a->entries[i].id != id) {
        i = (i + 1) & (a->cap - 1);
    }
    return i;
}

/* Move all to a table of this size. False: no memory, nothing changed. */
static bool resize(struct addresses *a, uint32_t cap)
{
    struct address_entry *had = a->entries;
    const uint32_t had_cap = a->cap;
    struct address_entry *entries = mem_zalloc(cap * sizeof(*entries));

    if (entries == NULL) {
        return false;
    }
    a->entries = entries;
    a->cap = cap;
    for (uint32_t i = 0; i < had_cap; i++) {
        if (had[i].conns > 0) {
            a->entries[place_of(a, had[i].id)] = had[i];
        }
    }
    mem_free(had);
    return true;
}

/* Close the gap: move entries up that were placed later because this place was taken. */
static void remove_entry(struct addresses *a, uint32_t gap)
{
    uint32_t i = gap;

    a->entries[gap].conns = 0;
    a->used--;
    for (;;) {
        i = (i + 1) & (a->cap - 1);
        if (a->entries[i].conns == 0) {
            return;
        }
        const uint32_t home = home_of(a, a->entries[i].id);

        /* It may move into the gap if its home is not between the gap and itself. */
        if (((i - home) & (a->cap - 1)) >= ((i - gap) & (a->cap - 1))) {
            a->entries[gap] = a->entries[i];
            a->entries[i].conns = 0;
            gap = i;
        }
    }
}

static enum address_answer enter(struct addresses *a, uint64_t id, uint32_t limit)
{
    if (a->used * 2 >= a->cap && !resize(a, a->cap > 0 ? a->cap * 2 : CAP_LEAST)) {
        return ADDRESS_NO_MEMORY;
    }
    struct address_entry *e = &a->entries[place_of(a, id)];
    if (limit > 0 && e->conns >= limit) {
        return ADDRESS_FULL;
    }
    a->used += e->conns == 0;
    e->id = id;
    e->conns++;
    return ADDRESS_IN;
}

enum address_answer addresses_enter(struct addresses *a, uint64_t id, uint32_t limit)
{
    pthread_mutex_lock(&a->lock);
    enum address_answer answer = enter(a, id, limit);
    pthread_mutex_unlock(&a->lock);
    return answer;
}

void addresses_leave(struct addresses *a, uint64_t id)
{
    pthread_mutex_lock(&a->lock);
    const uint32_t i = place_of(a, id);

    must(a->entries[i].conns > 0);
    if (--a->entries[i].conns == 0) {
        remove_entry(a, i);
        if (a->cap > CAP_LEAST && a->used * 8 < a->cap) {
            (void)resize(a, a->cap / 2); /* without memory it stays as large */
        }
    }
    pthread_mutex_unlock(&a->lock);
}

bool addresses_are_none(struct addresses *a)
{
    pthread_mutex_lock(&a->lock);
    bool is = a->used == 0;
    pthread_mutex_unlock(&a->lock);
    return is;
}
