/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking keys up: see find.h.
 */
#include "lib/store/find.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/shard/expire.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"
#include "lib/store/find_inline.h"

void engine_prefetch_bucket(const struct route *rt, uint64_t hash)
{
    must_be_reading();
    table_prefetch_bucket(&route_shard(rt, hash)->table, hash);
}

void engine_prefetch_items(const struct route *rt, const uint64_t *hash, size_t stride,
                           unsigned n)
{
    const char *p = (const char *)hash;

    must_be_reading();
    for (; n > 0; n--, p += stride) {
        uint64_t h = *(const uint64_t *)(const void *)p;
        const struct shard *s = route_shard(rt, h);

        (void)table_prefetch_item(&s->table, s->memory.arena.base, h);
    }
}

/* A reader found an item that may go: unlink it if the shard is free, or the sampler will. */
static void expire_lazily(struct shard *s, uint64_t hash, const char *key, size_t key_len,
                          msec_t now)
{
    if (!shard_try_enter(s)) {
        return;
    }

    _Atomic handle_t *slot = table_slot(&s->table, s->memory.arena.base, hash, key, key_len);

    if (slot != NULL) {
        const struct item *it = shard_item(s, atomic_load_explicit(slot, memory_order_relaxed));

        if (item_is_due(it, shard_due_now(s, now))) {
            keyspace_expire(s, hash, slot, SHARD_EXPIRED_LAZY, now);
        }
    }
    shard_leave(s);
}

static const struct item *find_in(struct shard *s, uint64_t hash, const char *key,
                                  size_t key_len, msec_t now, enum miss *miss)
{
    /* Acquire: a thread that sees the flush over sees the new index too. */
    if (MF_UNLIKELY(now >= atomic_load_explicit(&s->flush_at, memory_order_acquire))) {
        *miss = MISS_FLUSHED;
        return NULL;
    }
    if (shard_hides(s, hash, key, key_len)) {
        *miss = MISS_FLUSHED;
        return NULL;
    }
    const struct item *it = table_find(&s->table, s->memory.arena.base, hash, key, key_len);
    if (it != NULL && MF_UNLIKELY(item_is_due(it, now))) {
        *miss = MISS_EXPIRED;
        if (item_is_due(it, shard_due_now(s, now))) {
            expire_lazily(s, hash, key, key_len, now);
        }
        return NULL;
    }
    return it;
}

struct found engine_find_slowly(const struct route *rt, uint64_t hash, const char *key,
                                size_t key_len, msec_t now)
{
    const struct route_slot *rs = route_slot(rt, hash);
    struct found f = {NULL, rt->shards[rs->from], MISS_ABSENT};

    must_be_reading();
    f.item = find_in(f.shard, hash, key, key_len, now, &f.miss);
    if (f.item == NULL && route_is_moving(rs)) {
        f.shard = rt->shards[rs->to];
        f.item = find_in(f.shard, hash, key, key_len, now, &f.miss);
    }
    return f;
}

struct found engine_find(const struct route *rt, uint64_t hash, const char *key, size_t key_len,
                         msec_t now)
{
    must_be_reading();
    return engine_find_inline(rt, hash, key, key_len, now);
}
