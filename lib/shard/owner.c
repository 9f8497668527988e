/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the memory of a shard asks of the shard: see struct memory_owner_ops.
 */
#include "lib/shard/shard.h"

#include "lib/base/check.h"
#include "lib/expiry/wheel.h"
#include "lib/index/table.h"
#include "lib/shard/expire.h"
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

/*
 * On a passive engine: items past their deadline that only a shortage of room may drop. The
 * wheel is not shown the clock, or it would return these items to the sampler as well.
 */
static unsigned find_masked(struct shard *s, handle_t *out, unsigned max, msec_t now,
                            unsigned *looked)
{
    unsigned n = wheel_soonest(s->wheel, out, max);
    unsigned due = 0;

    *looked += n;
    for (unsigned i = 0; i < n; i++) {
        if (item_is_due(shard_item(s, out[i]), now)) {
            out[due++] = out[i];
        }
    }
    return due;
}

static unsigned owner_drop_due(void *owner, unsigned max, msec_t now, unsigned *looked)
{
    struct shard *s = owner;
    msec_t limit = shard_due_limit(s, now);
    handle_t due[DUE_MAX];
    unsigned sampled = 0;

    if (wheel_count(s->wheel) == 0 || wheel_next(s->wheel) > now) {
        return 0;
    }
    max = max < DUE_MAX ? max : DUE_MAX;
    unsigned n = wheel_sample(s->wheel, limit, due, max, &sampled);
    if (n == 0 && limit < now) {
        n = find_masked(s, due, max, now, &sampled);
    }
    /* All have left the cache long ago: their misses overlap. */
    for (unsigned i = 0; i < n; i++) {
        __builtin_prefetch(shard_item(s, due[i]), 1);
    }
    for (unsigned i = 0; i < n; i++) {
        (void)owner_prefetch(s, shard_item(s, due[i]));
    }
    for (unsigned i = 0; i < n; i++) {
        if (item_is_live(shard_item(s, due[i]))) { /* wheel_soonest() may return one twice */
            owner_drop(s, due[i], DEATH_EXPIRE, now);
        }
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
