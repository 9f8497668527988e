/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the memory of a shard asks of the shard: see struct memory_owner_ops.
 */
#include "lib/shard/owner.h"

#include "lib/base/check.h"
#include "lib/expiry/wheel.h"
#include "lib/index/table.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/upkeep.h"

/* The most that drop_due() drops at once. */
#define DUE_MAX 20

static uint64_t owner_prefetch(void *owner, const struct item *it)
{
    struct shard *s = owner;
    uint64_t hash = shard_hash(s, it);

    table_prefetch_bucket(&s->table, hash);
    return hash;
}

static void owner_moved(void *owner, handle_t from, handle_t to)
{
    struct shard *s = owner;
    uint64_t hash;
    _Atomic handle_t *slot = keyspace_slot_of(s, from, &hash);

    if (item_has_ttl(shard_item(s, to))) {
        wheel_moved(s->wheel, from, to);
    }
    table_replace(slot, to);
    shard_note_place(s, hash, to);
}

static uint64_t owner_drop(void *owner, handle_t h, enum death_reason reason, msec_t now)
{
    struct shard *s = owner;
    uint64_t hash;
    _Atomic handle_t *slot = keyspace_slot_of(s, h, &hash);

    if (reason == DEATH_EXPIRE) {
        keyspace_expire(s, hash, slot, SHARD_EXPIRED_RECLAIM, now);
    } else {
        keyspace_evict(s, hash, slot, now);
    }
    return hash;
}

static unsigned owner_drop_due(void *owner, unsigned max, msec_t now, unsigned *looked)
{
    struct shard *s = owner;
    handle_t due[DUE_MAX];
    unsigned sampled = 0;
    unsigned n;

    if (wheel_count(s->wheel) == 0 || wheel_next(s->wheel) > now) {
        return 0;
    }
    n = wheel_sample(s->wheel, now, due, max < DUE_MAX ? max : DUE_MAX, &sampled);
    /* All have left the cache long ago: their misses overlap. */
    for (unsigned i = 0; i < n; i++) {
        __builtin_prefetch(shard_item(s, due[i]), 1);
    }
    for (unsigned i = 0; i < n; i++) {
        (void)owner_prefetch(s, shard_item(s, due[i]));
    }
    for (unsigned i = 0; i < n; i++) {
        owner_drop(s, due[i], DEATH_EXPIRE, now);
    }
    *looked += sampled;
    return n;
}

static uint64_t owner_next_cas(void *owner)
{
    const struct shard *s = owner;

    shard_must_be_entered(s);
    return s->cas_next;
}

static unsigned owner_sample(void *owner, enum evict_source source, uint64_t *random,
                             handle_t *out, unsigned max)
{
    struct shard *s = owner;

    switch (source) {
    case SOURCE_ALL:
        return table_sample(&s->table, random, out, max);
    case SOURCE_VOLATILE:
        return wheel_draw(s->wheel, random, out, max);
    case SOURCE_SOONEST:
        return wheel_soonest(s->wheel, out, max);
    }
    unreachable();
}

static void owner_wants_tidy(void *owner)
{
    struct shard *s = owner;

    if (!shard_wants_tidy(s)) {
        atomic_store_explicit(&s->wants_tidy, true, memory_order_relaxed);
        shard_wake_home(s);
    }
}

static void owner_wants_range(void *owner)
{
    struct shard *s = owner;

    atomic_store_explicit(&s->wants_making, true, memory_order_relaxed);
    shard_want_work(s);
}

const struct memory_owner_ops shard_owner_ops = {
    .prefetch = owner_prefetch,
    .moved = owner_moved,
    .drop = owner_drop,
    .drop_due = owner_drop_due,
    .sample = owner_sample,
    .next_cas = owner_next_cas,
    .wants_tidy = owner_wants_tidy,
    .wants_range = owner_wants_range,
};
