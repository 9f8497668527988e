/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings of changes: see rings.h.
 */
#include "lib/engine/rings.h"

#include "lib/base/check.h"
#include "lib/engine/engine.h"
#include "lib/shard/changes.h"
#include "lib/shard/shard.h"

/* The rings of all shards count against the limit: this part of it, within these bounds. */
#define RING_PART      32
#define RING_BYTES_MIN ((uint64_t)2 << 20)
#define RING_BYTES_MAX ((uint64_t)16 << 20)

/* Give a shard a ring, or take it away. */
static struct changes *exchange_ring(struct shard *s, struct changes *c)
{
    shard_enter(s);
    struct changes *had = s->changes;
    s->changes = c;
    shard_leave(s);
    return had;
}

static void take_ring(struct shard *s)
{
    struct changes *c = exchange_ring(s, NULL);

    changes_destroy(&c); /* writers use the ring only in the shard */
}

static void take_all(struct engine *e)
{
    for (uint32_t i = 0; i < e->shard_count; i++) {
        take_ring(e->shards[i]);
    }
}

/* Of all rings. */
static uint64_t bytes_wanted(const struct engine *e)
{
    uint64_t part = (uint64_t)budget_limit(&e->budget) / RING_PART;

    if (e->config.ring_bytes != 0) {
        return e->config.ring_bytes;
    }
    return part < RING_BYTES_MIN   ? RING_BYTES_MIN
           : part > RING_BYTES_MAX ? RING_BYTES_MAX
                                   : part;
}

static struct changes *make_ring(struct engine *e, uint32_t shards)
{
    return changes_create(bytes_wanted(e) / shards, &e->budget, &e->bell);
}

static bool make_all(struct engine *e)
{
    const uint32_t count = e->shard_count;

    for (uint32_t i = 0; i < count; i++) {
        struct changes *c = make_ring(e, count);

        if (c == NULL) {
            take_all(e);
            return false;
        }
        (void)exchange_ring(e->shards[i], c);
    }
    return true;
}

bool rings_use(struct engine *e)
{
    pthread_mutex_lock(&e->streams_lock);
    bool has_rings = e->streams != 0 || make_all(e);
    e->streams += has_rings;
    pthread_mutex_unlock(&e->streams_lock);
    return has_rings;
}

void rings_leave(struct engine *e)
{
    pthread_mutex_lock(&e->streams_lock);
    if (--e->streams == 0) {
        take_all(e);
    }
    pthread_mutex_unlock(&e->streams_lock);
}

void rings_record_expiries(struct engine *e, bool records)
{
    pthread_mutex_lock(&e->streams_lock);
    must(e->streams != 0);
    for (uint32_t i = 0; i < e->shard_count; i++) {
        struct shard *s = e->shards[i];

        shard_enter(s);
        s->changes->expiry_readers += records ? 1 : -1u;
        shard_leave(s);
    }
    pthread_mutex_unlock(&e->streams_lock);
}

bool rings_give(struct engine *e, struct shard *s)
{
    struct shard *other = e->shards[0];

    if (e->streams == 0) {
        return true;
    }
    struct changes *c = make_ring(e, e->shard_count + 1);
    if (c == NULL) {
        return false;
    }
    shard_enter(other);
    c->expiry_readers = other->changes->expiry_readers;
    shard_leave(other);
    s->changes = c;
    return true;
}
