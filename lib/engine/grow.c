/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further shards: see grow.h.
 *
 * Under flush_lock no flush is scheduled, no guard is given and no limit set, so what is copied
 * from the other shards stays true until the new one is published. Only a flush that is
 * scheduled already may be carried out meanwhile, by a thread that finds it due: see publish().
 */
#include "lib/engine/grow.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/attach.h"
#include "lib/engine/engine.h"
#include "lib/engine/flush.h"
#include "lib/engine/prefix.h"
#include "lib/engine/rings.h"
#include "lib/engine/share.h"
#include "lib/memory/room.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"

static bool may_have_more(const struct engine *e)
{
    const uint64_t limit = (uint64_t)budget_limit(&e->budget);

    return e->shard_count < e->shard_capacity &&
           share_fits(limit, e->shard_count + 1, UINT64_MAX, e->group.shape.shift);
}

/* Everybody may meet it from now on. */
static void show(struct engine *e, struct shard *s, msec_t flush_at)
{
    shard_flush_follow(s, flush_at, e->flush_id);
    shard_prefix_follow(s, engine_prefix_newest(e));
    if (s->changes != NULL) {
        s->changes->flushed_before = s->flush_done;
        s->changes->prefix_before = engine_prefix_newest(e);
    }
    e->shards[s->id] = s;
    router_grow(&e->router, s->id + 1);
    atomic_store_explicit(&e->group.count, s->id + 1, memory_order_release);
    atomic_store_explicit(&e->shard_count, s->id + 1, memory_order_release);
}

/*
 * Publish the new shard, with the flush that is pending in other shards. Each shard carries
 * out a pending flush by itself, also while this runs. So a shard in which the flush is
 * pending is entered, which defers its flush until the new shard is published. A stream that
 * reads the records of this flush in all rings then waits for the ring of the new shard as
 * well. If the flush is pending in no shard, it is over.
 */
static void publish(struct engine *e, struct shard *s)
{
    bool is_published = false;

    for (uint32_t i = 0; !is_published && i < s->id; i++) {
        struct shard *other = e->shards[i];

        shard_enter(other);
        is_published =
            atomic_load_explicit(&other->flush_at, memory_order_relaxed) != MSEC_NEVER;
        if (is_published) {
            show(e, s, atomic_load_explicit(&other->flush_at, memory_order_relaxed));
        }
        shard_leave(other);
    }
    if (!is_published) {
        show(e, s, MSEC_NEVER);
    }
}

/* Copy the guard and the hold of the first shard, under flush_lock. */
static void follow_first(struct shard *s, struct shard *first)
{
    shard_enter(first);
    s->guard = first->guard;
    shard_leave(first);
    atomic_store_explicit(&s->is_held,
                          atomic_load_explicit(&first->is_held, memory_order_relaxed),
                          memory_order_relaxed);
    shard_enter(s);
    room_grace_ended(&s->memory); /* sets the number of segments to keep free */
    shard_leave(s);
}

static void must_be_equal(const struct shard *s, const struct shard *first)
{
    const struct memory *a = &s->memory;
    const struct memory *b = &first->memory;

    must(a->arena.shift == b->arena.shift && a->arena.map_bytes == b->arena.map_bytes &&
         a->arena.unit_segments == b->arena.unit_segments && a->piece_max == b->piece_max &&
         a->fitting_units == b->fitting_units && s->seed == first->seed);
}

/* Create a shard, give it what the others have, and publish it. Context: under flush_lock. */
static enum mf_err add(struct engine *e)
{
    struct shard *s = shard_create(&e->group, e->shard_count);

    if (s == NULL) {
        return MF_ENOMEM;
    }
    must_be_equal(s, e->shards[0]);
    /* No other flush is scheduled until it is published. */
    bool has_all = engine_flush_to_come(e) == MSEC_NEVER || shard_flush_prepare(s);
    pthread_mutex_lock(&e->streams_lock);
    has_all = has_all && rings_give(e, s);
    if (has_all) {
        follow_first(s, e->shards[0]);
        publish(e, s);
    }
    pthread_mutex_unlock(&e->streams_lock);
    if (!has_all) {
        shard_destroy(&s);
        return MF_ENOMEM;
    }
    return MF_OK;
}

/* Idle ones are fitted when they share it again: until then they need nothing. */
static void fit_sharers(struct engine *e)
{
    for (uint32_t i = 0; i < e->shard_count && !shard_is_idle(e->shards[i]); i++) {
        shard_fit_limit(e->shards[i]);
    }
}

void engine_share_among(struct engine *e, uint32_t shards)
{
    must_not_be_reading();
    must(shards != 0 && shards <= e->shard_count);
    pthread_mutex_lock(&e->flush_lock);
    atomic_store_explicit(&e->group.sharers, shards, memory_order_relaxed);
    fit_sharers(e);
    pthread_mutex_unlock(&e->flush_lock);
}

/* Add one; the others do not know their share yet. Context: under flush_lock. */
static enum mf_err add_next(struct engine *e)
{
    const uint32_t count = e->shard_count;
    const uint32_t sharers = atomic_load_explicit(&e->group.sharers, memory_order_relaxed);
    struct attach *a = e->config.attach;

    if (!may_have_more(e)) {
        return MF_EINVAL;
    }
    atomic_store_explicit(&e->group.sharers, count + 1, memory_order_relaxed);
    enum mf_err err = a == NULL || attach_extend(a, count) ? add(e) : MF_ESYS;
    if (err != MF_OK) {
        atomic_store_explicit(&e->group.sharers, sharers, memory_order_relaxed);
    }
    return err;
}

enum mf_err engine_add_shards(struct engine *e, uint32_t shards)
{
    enum mf_err err = MF_OK;
    bool has_added = false;

    must_not_be_reading();
    while (err == MF_OK && e->shard_count < shards) {
        pthread_mutex_lock(&e->flush_lock); /* a flush need not wait for all of them */
        err = add_next(e);
        pthread_mutex_unlock(&e->flush_lock);
        has_added |= err == MF_OK;
    }
    if (has_added) {
        pthread_mutex_lock(&e->flush_lock);
        fit_sharers(e);
        pthread_mutex_unlock(&e->flush_lock);
    }
    return err;
}
