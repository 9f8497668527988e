/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One entry of a writer into the shard of a key. While the key's slot moves it enters two
 * shards: new items go to `to`, an old one may still be in `from`.
 */
#ifndef MAYFLY_LIB_STORE_VISIT_H
#define MAYFLY_LIB_STORE_VISIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/engine/engine.h"
#include "lib/engine/router.h"
#include "lib/memory/blocks.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/shard.h"
#include "lib/shard/upkeep.h"

/* The event that a write with outcome OUT_WAIT waits for. */
enum visit_wait {
    WAIT_INDEX, /* a larger index, or memory from the system */
    WAIT_CLAIM, /* another thread extends the value (extend.c) */
    WAIT_ROOM,  /* segments: other shards may be able to release some */
    WAIT_RANGE, /* the range grows: try again at once */
};

struct visit {
    struct shard *to;
    struct shard *from; /* NULL when the slot does not move */
    bool is_move;       /* the visit is the mover's, so no item changes; set after entering */
    uint64_t hash;
    struct span key;
    msec_t now;
    /* set by visit_find() */
    struct shard *owner; /* the shard that has the item */
    /*
     * NULL: absent. If not is_live: the place of an item past its deadline that has to stay
     * (shard_due_now()) until what is linked replaces it.
     */
    _Atomic handle_t *slot;
    /*
     * NULL: absent. Valid until the next step that may move blocks: room_make(), or a
     * visit_block() that failed.
     */
    struct item *item;
    bool is_live; /* present */
    bool was_due; /* an item past its deadline was found; it was unlinked, or has to stay */
    /* set when a step returns OUT_WAIT */
    enum visit_wait waits_for;
    struct shard *needy; /* the shard that lacks room; not with WAIT_INDEX */
};

/*
 * The rest of visit_enter(): a slot that moves, a flush that is due, a prefix that is being
 * flushed, or a table that has been replaced. Context: read side, no shard held.
 */
void visit_enter_slowly(struct engine *e, struct visit *v);

/*
 * Enter both shards of a slot that moves (to and from are set), by the table of this version,
 * at a moment when neither has a flush to carry out. Context: read side, no shard held.
 */
void visit_enter_both(struct visit *v, uint64_t version);

/*
 * Call before the key is looked up. Unlinks items that a prefix has flushed in the key's range,
 * so that an item of this key that is stored now does not count as flushed. Context: in the
 * shards, read side.
 */
void visit_clean(struct visit *v, uint64_t hash, const char *key, size_t key_len);

/* Enter, in the order of lib/engine/router.h. Context: read side, no shard held. */
static inline void visit_enter(struct engine *e, struct visit *v, uint64_t hash,
                               struct span key, msec_t now)
{
    const struct route *rt = router_read(&e->router);
    const struct route_slot *rs = route_slot(rt, hash);
    struct shard *s = rt->shards[rs->put];

    must_be_reading();
    v->to = s;
    v->from = NULL;
    v->hash = hash;
    v->key = key;
    v->now = now;
    if (MF_LIKELY(rs->from == rs->put)) {
        shard_enter(s);
        /* The gate is shut under the lock: a writer that enters later sees it. */
        if (MF_LIKELY(router_read(&e->router) == rt &&
                      now < atomic_load_explicit(&s->gate_at, memory_order_relaxed))) {
            return;
        }
        shard_leave(s);
    }
    visit_enter_slowly(e, v);
}

/* Context: in shard. */
static inline void visit_leave(struct visit *v)
{
    shard_must_be_entered(v->to);
    shard_before_leave(v->to);
    shard_leave(v->to);
    if (MF_UNLIKELY(v->from != NULL)) {
        shard_leave(v->from);
    }
    shard_after_leave(v->to);
}

/* The found item is past its deadline: unlink it, unless it has to stay. Context: in shard. */
void visit_expire(struct visit *v);

/*
 * A writer has not found the key: a load must not bring it back (guard.h). Context: in shard.
 */
void visit_note_miss(struct visit *v);

/* visit_find() in one shard. */
static MF_INLINE bool visit_find_in(struct visit *v, struct shard *s)
{
    v->owner = s;
    v->slot = table_slot(&s->table, s->memory.arena.base, v->hash, v->key.ptr, v->key.len);
    v->is_live = v->slot != NULL;
    if (!v->is_live) {
        v->item = NULL;
        if (MF_UNLIKELY(s->guard != NULL)) {
            visit_note_miss(v);
        }
        return false;
    }
    v->item = shard_item(s, atomic_load_explicit(v->slot, memory_order_relaxed));
    if (MF_UNLIKELY(item_is_due(v->item, v->now))) {
        visit_expire(v);
    }
    return v->is_live;
}

/* visit_find() in the shard that the slot leaves. Context: in shard. */
bool visit_find_moving(struct visit *v);

/*
 * Find the key; an item past its deadline is not found, and unlinked if it may go. Context: in
 * shard.
 */
static MF_INLINE void visit_find(struct visit *v)
{
    shard_must_be_entered(v->to);
    v->was_due = false;
    if (MF_UNLIKELY(v->from != NULL) && visit_find_moving(v)) {
        return;
    }
    visit_find_in(v, v->to);
}

/*
 * The outcome when there is no room in the index, or none for a deadline. Segments from other
 * shards would not help. Context: in shard.
 */
enum outcome visit_wait_for_index(struct visit *v, bool may_wait);

/* The rest of visit_block(), when there was no room. */
handle_t visit_block_pressed(struct visit *v, enum chain_id chain, uint32_t *units,
                             bool may_wait, enum outcome *why);

/*
 * Allocate a block for a new item in `to`; if there is no room, as room_pressed() allows.
 * Returns 0, with *why set to OUT_WAIT or OUT_NO_MEMORY, on failure. Context: in shard, after
 * room_make().
 */
static inline handle_t visit_block(struct visit *v, enum chain_id chain, uint32_t *units,
                                   bool may_wait, enum outcome *why)
{
    handle_t h = blocks_put(&v->to->memory, chain, units, DRAW_PUT);

    shard_must_be_entered(v->to);
    return MF_LIKELY(h != 0) ? h : visit_block_pressed(v, chain, units, may_wait, why);
}

/* The same for a head or a piece of full length: DRAW_PART. */
static inline handle_t visit_part(struct visit *v, enum chain_id chain, uint32_t *units,
                                  bool may_wait, enum outcome *why)
{
    handle_t h = blocks_put(&v->to->memory, chain, units, DRAW_PUT | DRAW_PART);

    shard_must_be_entered(v->to);
    return MF_LIKELY(h != 0) ? h : visit_block_pressed(v, chain, units, may_wait, why);
}

/*
 * The chain for an item of `bytes` bytes that is new or replaces the found one. Context: in
 * shard.
 */
static inline enum chain_id visit_chain(struct visit *v, uint64_t bytes, bool has_deadline)
{
    struct evict *ev = &v->to->memory.evict;

    shard_must_be_entered(v->to);
    if (MF_UNLIKELY(evict_sorts_now(ev))) {
        return evict_sorted_chain(has_deadline);
    }
    if (v->slot != NULL) {
        handle_t h = atomic_load_explicit(v->slot, memory_order_relaxed);

        return memory_chain(&v->owner->memory, h);
    }
    return evict_chain(ev, v->hash, bytes);
}

/* Write a record of the link of block h. Context: in shard. */
void visit_note_link(struct visit *v);

/* Link a filled block in `to`, in place of the found item, if any. Context: in shard. */
static inline void visit_link(struct visit *v, handle_t h, enum death_reason reason)
{
    shard_must_be_entered(v->to);
    if (v->slot != NULL && v->owner == v->to) {
        keyspace_replace(v->to, h, v->slot, reason);
    } else {
        /* A reader looks in `from` first: link here before unlinking there. */
        keyspace_insert(v->to, v->hash, h);
        if (v->slot != NULL) {
            keyspace_unlink_copy(v->owner, v->hash, v->slot, reason);
        }
    }
    if (MF_UNLIKELY(v->to->changes != NULL)) {
        visit_note_link(v);
    }
}

/*
 * A write ended with `out`. Returns `out`, except if the write found no room: OUT_MISS if room
 * was made or taken from another shard, so that the write should be retried; OUT_NO_MEMORY if
 * waiting would not help. Context: outside the shards.
 */
enum outcome visit_help(struct engine *e, const struct visit *v, enum outcome out);

/*
 * visit_enter() again, with the key of the visit. A separate function, so that the common path
 * need not keep its arguments in registers. Context: read side, no shard held.
 */
void visit_enter_again(struct engine *e, struct visit *v);

/* Unlink the found item. Context: in shard. */
void visit_unlink(struct visit *v, enum death_reason reason);

/* The action of a write between entering and leaving. */
typedef enum outcome (*visit_act_fn)(struct visit *v, void *arg);

/*
 * A whole write: enter, act, leave; repeated if it found no room and some was taken from
 * another shard. It is inlined, with an `act` that has no other caller, so a set costs no extra
 * call. Context: read side, no shard held.
 */
static MF_INLINE enum outcome visit_run(struct engine *e, struct visit *v, uint64_t hash,
                                        struct span key, msec_t now, visit_act_fn act,
                                        void *arg)
{
    must_be_reading();
    visit_enter(e, v, hash, key, now);
    for (;;) {
        enum outcome out = act(v, arg);

        visit_leave(v);
        if (MF_LIKELY(out != OUT_WAIT) || (out = visit_help(e, v, out)) != OUT_MISS) {
            return out;
        }
        visit_enter_again(e, v);
    }
}

#endif
