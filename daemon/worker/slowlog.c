/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of slow requests; see slowlog.h. All threads write to one ring, under a lock, whose
 * cost does not matter, since only slow requests take it.
 */
#include "daemon/worker/slowlog.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

void slowlog_init(struct slowlog *s)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
}

void slowlog_fini(struct slowlog *s)
{
    mem_free(s->ring);
    s->ring = NULL;
    pthread_mutex_destroy(&s->lock);
}

/* The entry that is `age` entries older than the latest. Context: lock held. */
static struct slow_entry *entry(const struct slowlog *s, uint32_t age)
{
    must(age < s->used);
    return &s->ring[(s->next + s->cap - 1 - age) % s->cap];
}

/* Make room for `max` entries and keep the latest. Context: lock held. */
static bool fit(struct slowlog *s, uint32_t max)
{
    struct slow_entry *ring;
    uint32_t kept = s->used < max ? s->used : max;

    if (s->cap == max) {
        return true;
    }
    ring = mem_alloc(max * sizeof(*ring));
    if (ring == NULL) {
        return s->cap > 0; /* the ring is not changed */
    }
    for (uint32_t i = 0; i < kept; i++) {
        ring[kept - 1 - i] = *entry(s, i);
    }
    mem_free(s->ring);
    s->ring = ring;
    s->cap = max;
    s->used = kept;
    s->next = kept % max;
    return true;
}

void slowlog_add(struct slowlog *s, struct slow_entry *e, uint32_t max)
{
    pthread_mutex_lock(&s->lock);
    if (fit(s, max)) {
        e->id = s->next_id++;
        s->ring[s->next] = *e;
        s->next = (s->next + 1) % s->cap;
        s->used += s->used < s->cap;
    }
    pthread_mutex_unlock(&s->lock);
}

static uint32_t shown(const struct slowlog *s, uint32_t max)
{
    return s->used < max ? s->used : max;
}

uint32_t slowlog_copy(struct slowlog *s, struct slow_entry *out, uint32_t n, uint32_t max)
{
    pthread_mutex_lock(&s->lock);
    n = n < shown(s, max) ? n : shown(s, max);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = *entry(s, i);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

uint32_t slowlog_len(struct slowlog *s, uint32_t max)
{
    pthread_mutex_lock(&s->lock);
    uint32_t n = shown(s, max);
    pthread_mutex_unlock(&s->lock);
    return n;
}

void slowlog_reset(struct slowlog *s)
{
    pthread_mutex_lock(&s->lock);
    s->used = 0;
    s->next = 0;
    pthread_mutex_unlock(&s->lock);
}
