/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items as the index sees them: see keyspace.h. Everything here runs in the shard.
 */
#include "lib/shard/keyspace.h"

#include "lib/base/probes.h"
#include "lib/memory/blocks.h"
#include "lib/shard/expire.h"
#include "lib/shard/upkeep.h"

/*
 * A new deadline that is not the earliest does not change when the sampler must begin, unless
 * there are many of them: a full bucket is refined earlier. So the hint is recomputed after
 * every NOTE_EVERY new deadlines.
 */
#define NOTE_EVERY 256

/* CAS values are drawn from the process in blocks. */
#define CAS_BLOCK 65536u

void keyspace_draw_cas(struct shard *s)
{
    shard_must_be_entered(s);
    s->cas_next =
        atomic_fetch_add_explicit(&s->group->cas_next, CAS_BLOCK, memory_order_relaxed);
    s->cas_end = s->cas_next + CAS_BLOCK;
}

/* ---- when the sampler has work ----------------------------------------------------------- */

void keyspace_note_due(struct shard *s)
{
    msec_t next = wheel_next(s->wheel);
    msec_t was = atomic_load_explicit(&s->next_due, memory_order_relaxed);

    shard_must_be_entered(s);
    if (next == was) {
        return;
    }
    atomic_store_explicit(&s->next_due, next, memory_order_relaxed);
    if (next < was) {
        shard_wake_home(s);
    }
}

/* A deadline was added. */
static void note_added(struct shard *s, msec_t deadline)
{
    if (deadline < atomic_load_explicit(&s->next_due, memory_order_relaxed) ||
        (wheel_count(s->wheel) & (NOTE_EVERY - 1)) == 0) {
        keyspace_note_due(s);
    }
}

/*
 * A deadline took the place of another in the same bucket. The hint may be in the middle of the
 * bucket, after a deadline that has become earlier.
 */
static inline void note_changed(struct shard *s, msec_t deadline)
{
    if (MF_UNLIKELY(deadline < atomic_load_explicit(&s->next_due, memory_order_relaxed))) {
        keyspace_note_due(s);
    }
}

/* Put an item into the wheel if it has a deadline. */
static void add_deadline(struct shard *s, handle_t h)
{
    msec_t deadline = item_deadline(shard_item(s, h));

    if (deadline != MSEC_NEVER) {
        wheel_add(s->wheel, h);
        note_added(s, deadline);
    }
}

bool keyspace_set_deadline(struct shard *s, handle_t h, msec_t deadline)
{
    shard_must_be_entered(s);
    debug_must(item_can_have(shard_item(s, h), deadline));
    if (MF_LIKELY(deadline != MSEC_NEVER) && wheel_retime(s->wheel, h, deadline)) {
        note_changed(s, deadline);
        shard_note_meta(s, shard_item(s, h));
        return true;
    }
    if (!wheel_reserve(s->wheel)) {
        return false;
    }
    wheel_remove(s->wheel, h);
    item_set_deadline(shard_item(s, h), deadline);
    add_deadline(s, h);
    shard_note_meta(s, shard_item(s, h));
    return true;
}

/* ---- linking and unlinking --------------------------------------------------------------- */

/* An item has left the index: remove it from everything else. Returns its weight. */
static inline uint64_t forget(struct shard *s, handle_t h, enum death_reason reason)
{
    struct item *it = shard_item(s, h);
    uint64_t weight = item_all_bytes(it);

    ctr_add(&s->counters, CTR_item_bytes, -weight);
    if (item_has_ttl(it)) {
        wheel_remove(s->wheel, h);
    }
    if (item_is_large(it)) {
        chunks_kill(&s->memory, h, reason);
    }
    blocks_kill(&s->memory, h);
    return weight;
}

/* Enter a new item everywhere but in the index. */
static inline void adopt(struct shard *s, handle_t h)
{
    struct item *it = shard_item(s, h);
    uint16_t shape = item_shape(it);

    if (MF_UNLIKELY(item_is_large(it))) {
        chunks_adopt(&s->memory, h);
    }
    if ((shape & SHAPE_TTL) != 0) {
        add_deadline(s, h);
    }
    ctr_add(&s->counters, CTR_item_bytes, item_all_bytes(it));
    ctr_add(&s->counters, CTR_total_items, 1);
}

void keyspace_insert(struct shard *s, uint64_t hash, handle_t h)
{
    shard_must_be_entered(s);
    adopt(s, h);
    table_insert(&s->table, hash, h);
    ctr_add(&s->counters, CTR_curr_items, 1);
    shard_note_work(s);
}

/* Is one of the two items large? Only wide ones can be. */
static inline bool has_large(struct shard *s, handle_t h, handle_t old, uint16_t shape,
                             uint16_t old_shape)
{
    return MF_UNLIKELY(((shape | old_shape) & SHAPE_WIDE) != 0) &&
           (item_is_large(shard_item(s, h)) || item_is_large(shard_item(s, old)));
}

/*
 * Are both volatile items of one block, and could the new one have the old one's place in
 * the wheel?
 */
static inline bool takes_place(struct shard *s, handle_t h, handle_t old, uint16_t shape,
                               uint16_t old_shape)
{
    if ((shape & old_shape & SHAPE_TTL) == 0 || has_large(s, h, old, shape, old_shape)) {
        return false;
    }
    msec_t deadline = item_deadline(shard_item(s, h));
    if (deadline == MSEC_NEVER || !wheel_replace(s->wheel, old, h)) {
        return false;
    }
    note_changed(s, deadline);
    return true;
}

/* keyspace_replace() when more than the block in the index changes. */
static MF_NOINLINE void replace_all(struct shard *s, handle_t h, _Atomic handle_t *slot,
                                    enum death_reason reason)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);

    adopt(s, h);
    table_replace(slot, h);
    ctr_add(&s->counters, CTR_overwritten_bytes, forget(s, old, reason));
}

/* keyspace_replace() when only the block in the index changes. */
static inline void replace_block(struct shard *s, handle_t h, _Atomic handle_t *slot)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);
    uint16_t shape = item_shape(shard_item(s, h));
    uint16_t old_shape = item_shape(shard_item(s, old));

    ctr_add(&s->counters, CTR_item_bytes,
            ((uint64_t)(shape & SHAPE_SIZE) - (old_shape & SHAPE_SIZE)) * ITEM_UNIT);
    ctr_add(&s->counters, CTR_overwritten_bytes, (old_shape & SHAPE_SIZE) * ITEM_UNIT);
    ctr_add(&s->counters, CTR_total_items, 1);
    table_replace(slot, h);
    blocks_kill(&s->memory, old);
}

/* keyspace_replace() when one of the two items has a deadline or may be large. */
static MF_NOINLINE void replace_slowly(struct shard *s, handle_t h, _Atomic handle_t *slot,
                                       enum death_reason reason)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);
    uint16_t shape = item_shape(shard_item(s, h));
    uint16_t old_shape = item_shape(shard_item(s, old));

    if ((((shape | old_shape) & SHAPE_TTL) != 0 || has_large(s, h, old, shape, old_shape)) &&
        !takes_place(s, h, old, shape, old_shape)) {
        replace_all(s, h, slot, reason);
    } else {
        replace_block(s, h, slot);
    }
}

void keyspace_replace(struct shard *s, handle_t h, _Atomic handle_t *slot,
                      enum death_reason reason)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);
    uint32_t marks = item_shape(shard_item(s, h)) | item_shape(shard_item(s, old));

    shard_must_be_entered(s);
    /*
     * In a function of its own: the usual path then has only a tail call, and saves no
     * registers.
     */
    if ((marks & (SHAPE_TTL | SHAPE_WIDE)) != 0) {
        replace_slowly(s, h, slot, reason);
    } else {
        replace_block(s, h, slot);
    }
}

/* Block h takes the place of the one in the slot, whose segments and pieces are h's now. */
static void succeed(struct shard *s, handle_t h, _Atomic handle_t *slot)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);
    const struct item *was = shard_item(s, old);

    if (item_has_ttl(was)) {
        wheel_remove(s->wheel, old);
    }
    add_deadline(s, h);
    table_replace(slot, h);
    ctr_add(&s->counters, CTR_item_bytes,
            item_all_bytes(shard_item(s, h)) - item_all_bytes(was));
    blocks_kill(&s->memory, old);
}

void keyspace_renew(struct shard *s, handle_t h, _Atomic handle_t *slot)
{
    shard_must_be_entered(s);
    if (item_is_large(shard_item(s, h))) {
        chunks_head_moved(&s->memory, atomic_load_explicit(slot, memory_order_relaxed), h);
    }
    succeed(s, h, slot);
    if (MF_UNLIKELY(s->leave != NULL)) {
        shard_note_place(s, shard_hash(s, shard_item(s, h)), h);
    }
    shard_note_meta(s, shard_item(s, h));
}

void keyspace_extend(struct shard *s, uint64_t hash, handle_t h, _Atomic handle_t *slot,
                     const struct growth by[RUN_ENDS])
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);

    shard_must_be_entered(s);
    ctr_add(&s->counters, CTR_overwritten_bytes, item_all_bytes(shard_item(s, old)));
    chunks_extend(&s->memory, old, h, by);
    succeed(s, h, slot);
    shard_note_change(s, CHANGE_PUT, hash, shard_item(s, h));
    chunks_extended(&s->memory, old);
    ctr_add(&s->counters, CTR_total_items, 1);
    ctr_add(&s->counters, CTR_values_extended, 1);
}

/* Count an item that was unlinked, unless the caller counts it. */
static inline void count_death(struct shard *s, enum death_reason reason, uint64_t bytes)
{
    switch (reason) {
    case DEATH_DELETE:
        ctr_add(&s->counters, CTR_deleted_items, 1);
        ctr_add(&s->counters, CTR_deleted_bytes, bytes);
        break;
    case DEATH_OVERWRITE:
        ctr_add(&s->counters, CTR_overwritten_bytes, bytes);
        break;
    case DEATH_FLUSH:
        ctr_add(&s->counters, CTR_flushed_items, 1);
        ctr_add(&s->counters, CTR_flushed_bytes, bytes);
        ctr_add(&s->counters, CTR_flush_prefix_items, 1);
        ctr_add(&s->counters, CTR_reclaimed, 1);
        break;
    case DEATH_EXPIRE:
    case DEATH_EVICT:
        break;
    }
}

/* Tell readers of records of changes, and a load beside requests, which item was flushed. */
static MF_NOINLINE void tell_gone(struct shard *s, uint64_t hash, const struct item *it,
                                  enum death_reason reason)
{
    if (reason == DEATH_FLUSH) {
        return;
    }
    if (s->guard != NULL) {
        guard_note(s->guard, hash);
    }
    if (reason == DEATH_EXPIRE) {
        shard_note_expiry(s, hash, it);
    } else if (reason == DEATH_EVICT) {
        shard_note_eviction(s, hash, it);
    } else {
        shard_note_change(s, CHANGE_DROP, hash, it);
    }
}

/* Tell readers of records of changes, and a load beside requests, that a key is gone. */
static inline void note_gone(struct shard *s, uint64_t hash, const struct item *it,
                             enum death_reason reason)
{
    if (MF_UNLIKELY(s->guard != NULL || s->changes != NULL)) {
        tell_gone(s, hash, it, reason);
    }
}

static inline void unlink_item(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                               enum death_reason reason, bool is_gone)
{
    handle_t h = atomic_load_explicit(slot, memory_order_relaxed);

    table_remove(&s->table, hash, slot);
    if (is_gone) {
        note_gone(s, hash, shard_item(s, h), reason);
    }
    ctr_add(&s->counters, CTR_curr_items, -(uint64_t)1);
    count_death(s, reason, forget(s, h, reason));
    if ((s->table.count & 0xff) == 0) {
        shard_note_work(s); /* the index may have become too large */
    }
}

void keyspace_unlink(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                     enum death_reason reason)
{
    shard_must_be_entered(s);
    unlink_item(s, hash, slot, reason, true);
}

void keyspace_unlink_copy(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                          enum death_reason reason)
{
    shard_must_be_entered(s);
    unlink_item(s, hash, slot, reason, false);
}

void keyspace_take_over(struct shard *s, uint64_t hash, handle_t h, struct shard *from,
                        _Atomic handle_t *slot, bool is_emptied)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);
    uint64_t weight = item_bytes(shard_item(s, h));

    shard_must_be_entered(s);
    shard_must_be_entered(from);
    debug_must(!item_is_large(shard_item(s, h)));
    add_deadline(s, h);
    table_insert(&s->table, hash, h);
    ctr_add(&s->counters, CTR_item_bytes, weight);
    ctr_add(&s->counters, CTR_curr_items, 1);

    table_remove(&from->table, hash, slot);
    ctr_add(&from->counters, CTR_item_bytes, -weight);
    ctr_add(&from->counters, CTR_curr_items, -(uint64_t)1);
    if (item_has_ttl(shard_item(from, old))) {
        wheel_remove(from->wheel, old);
    }
    if (is_emptied) {
        blocks_bury(&from->memory, old);
    } else {
        blocks_kill(&from->memory, old);
    }
}

/* ---- items dropped without a command that asks for it ------------------------------------ */

/* Notify the observer of an item that is about to be unlinked. */
static MF_NOINLINE void notify(struct shard *s, const struct item *it,
                               enum shard_event_kind kind, msec_t now)
{
    struct shard_group *g = s->group;
    struct shard_event ev = {kind, it, now};

    if ((atomic_load_explicit(&g->observed, memory_order_acquire) & 1u << kind) != 0) {
        g->observer(g->observer_arg, &ev);
    }
}

/* The same, inline: without an observer it costs one load. */
static inline void observe(struct shard *s, const struct item *it, enum shard_event_kind kind,
                           msec_t now)
{
    if (MF_UNLIKELY(atomic_load_explicit(&s->group->observed, memory_order_acquire) != 0)) {
        notify(s, it, kind, now);
    }
}

/* Count an item that is about to be dropped for its deadline. */
static void count_expired(struct shard *s, const struct item *it, enum shard_event_kind how)
{
    switch (how) {
    case SHARD_EXPIRED_LAZY:
        ctr_add(&s->counters, CTR_expired_lazy, 1);
        ctr_add(&s->counters, CTR_expired_lazy_bytes, item_all_bytes(it));
        break;
    case SHARD_EXPIRED_ACTIVE:
        ctr_add(&s->counters, CTR_expired_active, 1);
        ctr_add(&s->counters, CTR_expired_active_bytes, item_all_bytes(it));
        break;
    case SHARD_EXPIRED_RECLAIM:
        ctr_add(&s->counters, CTR_expired_reclaim, 1);
        ctr_add(&s->counters, CTR_expired_reclaim_bytes, item_all_bytes(it));
        break;
    case SHARD_EVICTED:
    case SHARD_FLUSHED:
        unreachable();
    }
    ctr_add(&s->counters, CTR_reclaimed, 1);
    if (!item_was_fetched(it)) {
        ctr_add(&s->counters, CTR_expired_unfetched, 1);
    }
}

void keyspace_expire(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                     enum shard_event_kind how, msec_t now)
{
    const struct item *it = shard_item(s, atomic_load_explicit(slot, memory_order_relaxed));

    shard_must_be_entered(s);
    count_expired(s, it, how);
    MF_PROBE4(item_expired, item_key(it), it->key_len, item_len(it), how);
    observe(s, it, how, now);
    keyspace_unlink(s, hash, slot, DEATH_EXPIRE);
}

void keyspace_evict(struct shard *s, uint64_t hash, _Atomic handle_t *slot, msec_t now)
{
    const struct item *it = shard_item(s, atomic_load_explicit(slot, memory_order_relaxed));

    shard_must_be_entered(s);
    ctr_add(&s->counters, CTR_evictions, 1);
    if (MF_UNLIKELY(shard_is_passive(s))) {
        ctr_add(&s->counters, CTR_repl_evicted, 1);
    }
    ctr_add(&s->counters, CTR_evicted_bytes, item_all_bytes(it));
    ctr_add(&s->counters, item_was_fetched(it) ? CTR_evicted_active : CTR_evicted_unfetched, 1);
    if (item_deadline(it) != MSEC_NEVER) {
        ctr_add(&s->counters, CTR_evicted_ttl, 1);
    }
    MF_PROBE3(item_evicted, item_key(it), it->key_len, item_len(it));
    observe(s, it, SHARD_EVICTED, now);
    keyspace_unlink(s, hash, slot, DEATH_EVICT);
}

void keyspace_flush(struct shard *s, uint64_t hash, _Atomic handle_t *slot, msec_t now)
{
    const struct item *it = shard_item(s, atomic_load_explicit(slot, memory_order_relaxed));

    shard_must_be_entered(s);
    observe(s, it, SHARD_FLUSHED, now);
    keyspace_unlink(s, hash, slot, DEATH_FLUSH);
}
