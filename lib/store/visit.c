/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Visits of writers: the rare halves of visit.h.
 */
#include "lib/store/visit.h"

#include "lib/base/context.h"
#include "lib/memory/room_make.h"
#include "lib/shard/expire.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"

/* A flush whose instant has come is carried out before anything is written. */
static void flush_if_due(struct shard *s, msec_t now)
{
    if (MF_UNLIKELY(now >= atomic_load_explicit(&s->flush_at, memory_order_relaxed))) {
        shard_flush(s, now);
    }
}

static bool is_flush_due(const struct visit *v, msec_t now)
{
    return now >= atomic_load_explicit(&v->from->flush_at, memory_order_relaxed) ||
           now >= atomic_load_explicit(&v->to->flush_at, memory_order_relaxed);
}

/* Both locks, the lower shard id first. */
static void enter_both(struct visit *v)
{
    struct shard *first = v->from->id < v->to->id ? v->from : v->to;

    shard_enter(first);
    shard_enter(first == v->from ? v->to : v->from);
}

/*
 * `to` was flushed by a command that has not reached `from` yet. It reaches it now, or an item
 * could survive the flush by being taken over from there. The command has prepared both shards.
 * If `from` has a newer flush scheduled, that has replaced this one. Context: both entered.
 */
static bool is_flush_behind(struct visit *v, msec_t now)
{
    if (MF_LIKELY(v->to->flush_done <= v->from->flush_id)) {
        return false;
    }
    v->from->flush_id = v->to->flush_done;
    atomic_store_explicit(&v->from->flush_at, now, memory_order_release);
    shard_set_gate(v->from);
    return true;
}

/*
 * The same for flushes of a prefix: what one of the shards knows by now comes into force in the
 * other as well, or what was stored before could be taken over. Context: both entered.
 */
static void level_prefixes(struct visit *v)
{
    uint64_t to = shard_prefix_newest(v->to);
    uint64_t from = shard_prefix_newest(v->from);

    if (MF_UNLIKELY(to != from)) {
        struct shard *behind = to < from ? v->to : v->from;

        shard_prefix_begin(behind, to < from ? from : to);
        shard_want_work(behind);
    }
}

/* Enter both shards at a moment when neither has a flush to carry out. */
static void enter_unflushed(struct visit *v)
{
    for (;;) {
        msec_t now = clock_now(v->to->group->clock);

        flush_if_due(v->to, now);
        flush_if_due(v->from, now);
        enter_both(v);
        now = clock_now(v->to->group->clock);
        if (MF_LIKELY(!is_flush_due(v, now) && !is_flush_behind(v, now))) {
            return;
        }
        shard_leave(v->to);
        shard_leave(v->from);
    }
}

void visit_enter_both(struct visit *v, uint64_t version)
{
    must_be_reading();
    v->is_move = false;
    enter_unflushed(v);
    level_prefixes(v);
    /*
     * The cas of a key must grow even when another shard drew the last one: the block of values
     * of this shard must be newer than any of the other's.
     */
    if (v->to->cas_version != version) {
        v->to->cas_version = version;
        keyspace_draw_cas(v->to);
    }
}

/* Enter according to this table. */
static void enter_by(struct visit *v, const struct route *rt, const struct route_slot *rs)
{
    v->to = rt->shards[rs->put];
    v->from = NULL;
    if (rs->from == rs->put) {
        flush_if_due(v->to, v->now);
        shard_enter(v->to);
        return;
    }
    v->from = rt->shards[rs->from];
    visit_enter_both(v, rt->version);
}

void visit_clean(struct visit *v, uint64_t hash, const char *key, size_t key_len)
{
    shard_must_be_entered(v->to);
    shard_clean_for(v->to, hash, key, key_len);
    if (v->from != NULL) {
        shard_clean_for(v->from, hash, key, key_len);
    }
}

void visit_enter_slowly(struct engine *e, struct visit *v)
{
    must_be_reading();
    for (;;) {
        const struct route *rt = router_read(&e->router);

        enter_by(v, rt, route_slot(rt, v->hash));
        if (router_read(&e->router) == rt) {
            visit_clean(v, v->hash, v->key.ptr, v->key.len);
            return;
        }
        shard_leave(v->to);
        if (v->from != NULL) {
            shard_leave(v->from);
        }
    }
}

void visit_expire(struct visit *v)
{
    const bool may_go = item_is_due(v->item, shard_due_now(v->owner, v->now));

    shard_must_be_entered(v->owner);
    if (v->from != NULL && v->is_move && !may_go) {
        return; /* the mover takes over what has to be kept */
    }
    /* A slot that moves would leave what is kept in one shard, and a new item in the other. */
    if (v->from != NULL || may_go) {
        keyspace_expire(v->owner, v->hash, v->slot, SHARD_EXPIRED_LAZY, v->now);
        v->slot = NULL;
    }
    v->item = NULL;
    v->is_live = false;
    v->was_due = true;
}

void visit_note_miss(struct visit *v)
{
    shard_must_be_entered(v->owner);
    if (!guard_is_loader()) {
        guard_note(v->owner->guard, v->hash);
    }
}

bool visit_find_moving(struct visit *v)
{
    bool is_found = visit_find_in(v, v->from);

    shard_must_be_entered(v->from);
    /* It was written there by a writer that did not know yet that the slot moves. */
    if (is_found && item_cas(v->item) >= v->to->cas_next) {
        keyspace_draw_cas(v->to);
    }
    return is_found;
}

enum outcome visit_wait_for_index(struct visit *v, bool may_wait)
{
    shard_must_be_entered(v->to);
    v->waits_for = WAIT_INDEX;
    /* Its items move once a grace period is over. */
    grace_ask(v->to->memory.arena.grace, GRACE_HURRY);
    return may_wait && !v->to->table_refused ? OUT_WAIT : OUT_NO_MEMORY;
}

handle_t visit_block_pressed(struct visit *v, enum chain_id chain, uint32_t *units,
                             bool may_wait, enum outcome *why)
{
    struct shard *s = v->to;
    handle_t h = 0;

    v->waits_for = WAIT_ROOM;
    v->needy = s;
    *why = room_pressed(&s->memory, v->now);
    if (*why == OUT_OK) {
        h = blocks_put(&s->memory, chain, units, DRAW_PRESSED | DRAW_PART);
        if (h != 0) {
            if (v->slot != NULL && v->item != NULL) {
                /* The cursor may have moved it, before it had nothing more to do. */
                v->item =
                    shard_item(v->owner, atomic_load_explicit(v->slot, memory_order_relaxed));
            }
            return h;
        }
        *why = OUT_WAIT;
    }
    if (arena_needs_range(&s->memory.arena)) {
        v->waits_for = WAIT_RANGE;
        *why = OUT_WAIT;
        return 0; /* nobody waits: visit_help() lets it grow */
    }
    if (*why == OUT_NO_MEMORY && may_wait && memory_evicts(&s->memory) &&
        memory_sharers(&s->memory) > 1) {
        *why = OUT_WAIT; /* another shard may have some: see visit_help() */
    }
    if (*why == OUT_WAIT && !may_wait) {
        *why = OUT_NO_MEMORY;
    }
    if (*why == OUT_WAIT) {
        line_note_blocks(&s->memory, false);
    }
    if (*why == OUT_NO_MEMORY) {
        ctr_add(&s->counters, CTR_outofmemory, 1);
    }
    return 0;
}

enum outcome visit_help(struct engine *e, const struct visit *v, enum outcome out)
{
    shard_must_not_be_entered(v->to);
    if (out != OUT_WAIT || v->waits_for == WAIT_INDEX || v->waits_for == WAIT_CLAIM) {
        return out;
    }
    if (v->waits_for == WAIT_RANGE) {
        memory_grow(&v->needy->memory); /* or it ends there, and the next try knows that */
        return OUT_MISS;
    }
    if (!memory_evicts(&v->needy->memory)) {
        return out;
    }
    enum steal stolen = engine_steal(e, v->needy);
    if (stolen == STEAL_DONE) {
        return OUT_MISS;
    }
    return stolen == STEAL_NOTHING && engine_is_barren(e) ? OUT_NO_MEMORY : out;
}

void visit_enter_again(struct engine *e, struct visit *v)
{
    must_be_reading();
    visit_enter(e, v, v->hash, v->key, v->now);
}

void visit_note_link(struct visit *v)
{
    shard_must_be_entered(v->to);
    if (v->from == NULL || !v->is_move) {
        /* The block's own key was stored just now: loads of it would wait for cache misses. */
        changes_put(v->to->changes, CHANGE_PUT, v->hash, v->key.ptr, v->key.len);
        changes_count_made();
    }
}

void visit_unlink(struct visit *v, enum death_reason reason)
{
    shard_must_be_entered(v->owner);
    keyspace_unlink(v->owner, v->hash, v->slot, reason);
    v->slot = NULL;
}
