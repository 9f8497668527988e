/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushing a prefix in all shards: see prefix.h.
 *
 * The set of prefixes is published before the command comes into force in any shard, and a
 * prefix leaves the set only when every shard is clean of it.
 */
#include "lib/engine/prefix.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/engine/engine.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

static void release_set(struct retired *r)
{
    mem_free(r);
}

/* Make a set with room for `room` prefixes; NULL: no memory. */
static struct prefixes *make_set(uint32_t room)
{
    struct prefixes *p = mem_zalloc(sizeof(*p) + room * sizeof(p->at[0]));

    if (p != NULL) {
        p->retired.fn = release_set;
    }
    return p;
}

/* Context: under flush_lock. */
static struct prefixes *set_of(const struct engine *e)
{
    return (struct prefixes *)(uintptr_t)atomic_load_explicit(&e->group.prefixes,
                                                              memory_order_relaxed);
}

static uint32_t count_of(const struct prefixes *p)
{
    return p != NULL ? p->count : 0;
}

static void publish(struct engine *e, struct prefixes *next)
{
    struct prefixes *old = set_of(e);

    atomic_store_explicit(&e->group.prefixes, next, memory_order_release);
    atomic_store_explicit(&e->prefixes, count_of(next), memory_order_relaxed);
    if (old != NULL) {
        reclaim_push(e->reclaimer, &old->retired);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

/* All shards have completed the flush commands up to this number. */
static uint64_t clean_of(const struct engine *e)
{
    uint64_t clean = e->prefix_id;

    for (uint32_t i = 0; i < e->shard_count; i++) {
        uint64_t one = shard_prefix_clean(e->shards[i]);

        clean = one < clean ? one : clean;
    }
    return clean;
}

static bool is_same(const struct prefix *a, const struct prefix *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* Does a newer flush of the same prefix include this one? */
static bool is_repeated(const struct prefixes *set, uint32_t i)
{
    for (uint32_t k = i + 1; k < set->count; k++) {
        if (is_same(&set->at[i], &set->at[k])) {
            return true;
        }
    }
    return false;
}

/* Must the prefix stay in the set? */
static bool is_needed(const struct prefixes *set, uint32_t i, uint64_t clean)
{
    return set->at[i].id > clean && !is_repeated(set, i);
}

/* While no prefix is in force, the shards have no marks. Context: under flush_lock. */
static void end_if_none(struct engine *e)
{
    for (uint32_t i = 0; set_of(e) == NULL && i < e->shard_count; i++) {
        shard_prefix_end(e->shards[i]);
    }
}

/*
 * Remove finished prefixes from the set. While older items are loaded beside requests, only
 * prefixes that were flushed again are removed. False: no memory. Context: under flush_lock.
 */
static bool settle(struct engine *e)
{
    const struct prefixes *set = set_of(e);
    const uint64_t clean = atomic_load(&e->is_guarded) ? 0 : clean_of(e);
    uint32_t needed = 0;

    for (uint32_t i = 0; i < count_of(set); i++) {
        needed += is_needed(set, i, clean);
    }
    if (needed == count_of(set)) {
        return true;
    }
    struct prefixes *next = needed != 0 ? make_set(needed) : NULL;
    if (needed != 0 && next == NULL) {
        return false;
    }
    for (uint32_t i = 0; needed != 0 && i < set->count; i++) {
        if (is_needed(set, i, clean)) {
            next->at[next->count++] = set->at[i];
        }
    }
    publish(e, next);
    end_if_none(e);
    return true;
}

bool engine_prefix_settle(struct engine *e)
{
    must_not_be_reading();
    if (atomic_load_explicit(&e->group.prefixes, memory_order_relaxed) == NULL) {
        return false;
    }
    if (pthread_mutex_trylock(&e->flush_lock) != 0) {
        return true;
    }
    bool is_done = settle(e) && set_of(e) == NULL;
    pthread_mutex_unlock(&e->flush_lock);
    return !is_done;
}

void engine_prefix_finish(struct engine *e)
{
    must_not_be_reading();
    if (set_of(e) == NULL) {
        return;
    }
    rcu_register(); /* the reclaimer frees sets that it has settled meanwhile */
    for (uint32_t i = 0; i < e->shard_count; i++) {
        struct shard *s = e->shards[i];
        bool has_more;

        do {
            rcu_begin();
            shard_enter(s);
            has_more = shard_prefix_slice(s);
            shard_leave(s);
            rcu_end();
        } while (has_more);
    }
    rcu_unregister();
    pthread_mutex_lock(&e->flush_lock); /* the reclaimer may have it */
    publish(e, NULL);
    end_if_none(e);
    pthread_mutex_unlock(&e->flush_lock);
}

/* ---- the beginning ----------------------------------------------------------------------- */

/* Copy the set, and add a prefix; NULL: no memory. */
static struct prefixes *set_with(const struct prefixes *set, uint64_t id, struct span text)
{
    const uint32_t n = count_of(set);
    struct prefixes *next = make_set(n + 1);

    if (next != NULL) {
        for (uint32_t i = 0; i < n; i++) {
            next->at[i] = set->at[i];
        }
        prefix_init(&next->at[n], id, text);
        next->count = n + 1;
    }
    return next;
}

static bool prepare_all(struct engine *e)
{
    bool is_ready = true;

    for (uint32_t i = 0; i < e->shard_count && is_ready; i++) {
        is_ready = shard_prefix_prepare(e->shards[i]);
    }
    return is_ready;
}

/* Context: under flush_lock. */
static enum outcome flush_prefix(struct engine *e, struct span text)
{
    (void)settle(e);
    if (count_of(set_of(e)) >= engine_option(e->config.options, flush_prefix_max)) {
        return OUT_WAIT;
    }
    struct prefixes *next = prepare_all(e) ? set_with(set_of(e), e->prefix_id + 1, text) : NULL;
    if (next == NULL) {
        end_if_none(e);
        return OUT_NO_MEMORY;
    }
    publish(e, next);
    atomic_store_explicit(&e->prefix_id, e->prefix_id + 1, memory_order_release);
    rcu_begin();
    for (uint32_t i = 0; i < e->shard_count; i++) {
        shard_enter(e->shards[i]);
        shard_prefix_begin(e->shards[i], e->prefix_id);
        shard_want_work(e->shards[i]);
        shard_leave(e->shards[i]);
    }
    rcu_end();
    return OUT_OK;
}

enum outcome engine_flush_prefix(struct engine *e, struct span prefix)
{
    must_not_be_reading();
    must(prefix.len != 0 && prefix.len <= ITEM_KEY_MAX);
    pthread_mutex_lock(&e->flush_lock);
    enum outcome out = flush_prefix(e, prefix);
    pthread_mutex_unlock(&e->flush_lock);
    if (out == OUT_WAIT || clean_of(e) == engine_prefix_newest(e)) {
        grace_ask(reclaim_grace(e->reclaimer), GRACE_HURRY); /* its hook ends them */
    }
    return out;
}

uint32_t engine_prefixes(const struct engine *e)
{
    return atomic_load_explicit(&e->prefixes, memory_order_relaxed);
}

uint64_t engine_prefix_newest(const struct engine *e)
{
    return atomic_load_explicit(&e->prefix_id, memory_order_acquire);
}
