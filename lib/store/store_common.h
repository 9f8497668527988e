/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files that store items: deciding whether a store may proceed, making the new
 * block, finishing it, and failing.
 */
#ifndef MAYFLY_LIB_STORE_STORE_COMMON_H
#define MAYFLY_LIB_STORE_STORE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/memory/item.h"
#include "lib/store/find.h"
#include "lib/store/store.h"
#include "lib/store/visit.h"

/* Is the value a body, rather than a span? */
static inline bool store_has_body(const struct store *st)
{
    return st->body != NULL && *st->body != NULL;
}

/* The rest of store_judge(): anything but a plain set. Context: in shard. */
enum outcome store_judge_mode(const struct visit *v, const struct store *st);

/* May this store continue, given the item found? OUT_STORED: yes. Context: in shard. */
static inline enum outcome store_judge(const struct visit *v, const struct store *st)
{
    shard_must_be_entered(v->to);
    return MF_LIKELY(st->mode == STORE_SET) ? OUT_STORED : store_judge_mode(v, st);
}

/* Does an item with such a value fit one block? Context: any thread. */
static inline bool store_fits_block(const struct shard *s, size_t key_len, size_t value_len,
                                    bool has_ttl, bool is_wide)
{
    return value_len <= ITEM_SIZE_MAX * ITEM_UNIT &&
           memory_fits(&s->memory, keyspace_units(key_len, value_len, has_ttl, is_wide));
}

/*
 * keyspace_reserve() for an item that may replace the found one: only a new key needs room in
 * the index. Context: in shard.
 */
static inline bool store_reserve_over(const struct visit *v, bool has_ttl)
{
    shard_must_be_entered(v->to);
    return (!has_ttl || wheel_reserve(v->to->wheel)) &&
           (MF_LIKELY(v->slot != NULL && v->owner == v->to) || table_has_room(&v->to->table));
}

/*
 * A store that the engine makes itself (as STORE_CAS) over an item that it has read without the
 * lock: it goes on only if that very block is still there with that deadline, else EXISTS. The
 * cas does not prove it, because clients may choose it. A body is kept on EXISTS, too.
 */
struct store_over {
    const struct item *item; /* [borrowed] until the section ends */
    msec_t deadline;
    uint16_t clears,
        sets;     /* marks of the new item: those of the old one without `clears`, and `sets` */
    bool is_copy; /* keep heat and last access */
    bool is_move; /* into another shard: the item does not change */
};

/* visit_enter() for a store that may be the mover's. Context: read side, no shard held. */
static inline void store_enter(struct engine *e, struct visit *v, const struct store *st,
                               msec_t now)
{
    must_be_reading();
    visit_enter(e, v, st->hash, st->key, now);
    v->is_move = st->over != NULL && st->over->is_move;
}

/* The rest of store_finish(). Context: in shard. */
void store_finish_specially(struct visit *v, struct store *st, struct item *it);

/*
 * Copy these bits of the heat of the replaced item, if any, to the new one. Context: in shard.
 */
static inline void store_inherit(const struct visit *v, struct item *it, uint8_t mask)
{
    shard_must_be_entered(v->to);
    if (v->is_live) {
        uint8_t heat = atomic_load_explicit(&v->item->heat, memory_order_relaxed) & mask;

        if (MF_UNLIKELY(heat_is_freq(heat))) {
            heat = heat_inherited(heat, item_access_s(v->item, (uint32_t)(v->now / 1000)),
                                  (uint32_t)(v->now / 1000), v->to->group->options);
        }
        atomic_store_explicit(&it->heat, heat, memory_order_relaxed);
    }
}

/*
 * The last step after keyspace_fill(), before the block is linked. The caller sets value_len
 * of the store. Context: in shard.
 */
static inline void store_finish(struct visit *v, struct store *st, struct item *it,
                                uint8_t inherit)
{
    shard_must_be_entered(v->to);
    store_inherit(v, it, inherit);
    st->cas = keyspace_last_cas(v->to);
    if (MF_UNLIKELY(st->over != NULL || st->cas_new != 0)) {
        store_finish_specially(v, st, it);
    }
}

/*
 * Make a block in `to` for an item that is new or replaces the found one, and fill it except
 * for its value. cas 0: draw the next one. Returns 0, with *why set, on failure. Context: in
 * shard, after room_make() and visit_find().
 */
handle_t store_make(struct visit *v, uint32_t flags, uint64_t cas, msec_t deadline,
                    size_t value_len, bool may_wait, enum outcome *why);

/*
 * A store found no room: returns why, and drops the old value if it must no longer be read.
 * Context: in shard.
 */
enum outcome store_failed(struct visit *v, const struct store *st, enum outcome why);

/* A store whose deadline has already passed: remove the found item. Context: in shard. */
enum outcome store_dead_on_arrival(struct visit *v, struct store *st);

/* ---- store_value.c ----------------------------------------------------------------------- */

/* Storing a complete value: set, add, replace, cas. */

/*
 * In a block, or as a large value. Key and value are within the limit. STORED NOT_STORED EXISTS
 * NOT_FOUND NO_MEMORY WAIT. Context: read side, no shard held.
 */
enum outcome store_value(struct engine *e, struct store *st, msec_t now);

/*
 * The same for a span that is known to fit one block. Not inlined, so that it is compiled once.
 */
enum outcome store_value_in_block(struct engine *e, struct store *st, msec_t now);

/* ---- store_large.c ----------------------------------------------------------------------- */

/*
 * Storing large values, in four steps, so that no copy of their bytes is made inside the shard:
 * (1) whole segments are filled (the body); (2) in the shard: blocks for head and pieces are
 * made, loose: their segments are kept from the cursor; (3) outside: pieces and head are
 * filled; (4) in the shard: conditions are tested and the head is linked.
 */

/*
 * Values larger than a block, or bodies. As store_value(). Context: read side, no shard held.
 */
enum outcome store_large(struct engine *e, struct store *st, msec_t now);

/* Steps 2 to 4 with a full body (or its segments and a tail elsewhere). */
struct store_commit {
    struct store *st;
    struct body **body;
    struct span tail;               /* bytes for the pieces when the body does not have them */
    const struct body_parts *parts; /* [borrowed] of the value, if the body is a part of it */
    bool has_ttl;
    const struct item *seen; /* append, prepend: the item that was copied; NULL: any */
};

/*
 * OUT_STORED; OUT_MISS: something changed meanwhile, start over, up to STORE_TRIES times; else
 * why it was not stored. Context: read side, no shard held.
 */
enum outcome store_commit(struct engine *e, struct store_commit *c, msec_t now);
#define STORE_TRIES 3

/* ---- remake.c ---------------------------------------------------------------------------- */

/*
 * Gives an unchanged item a new block, because the old one was stored without a deadline and
 * has no room for one, or because its cas changes, which readers read without a lock.
 */

/* New properties of the found item that cannot be changed in place. */
struct remake {
    msec_t deadline;
    msec_t deadline_before; /* of the found item */
    uint64_t cas;
    uint16_t clears, sets; /* marks */
    bool may_wait;
};

/*
 * Make a new block for the found item, whatever its value is, and swap it in. OUT_OK: the visit
 * has the new item; OUT_WAIT, OUT_NO_MEMORY; OUT_TOO_LARGE: with a deadline it no longer fits a
 * block, so remake_as_large() must do it. Context: in shard.
 */
enum outcome remake_block(struct visit *v, const struct remake *r);

/*
 * The same by storing a copy as a large value. OUT_OK; OUT_EXISTS: something changed, start
 * over; OUT_WAIT, OUT_NO_MEMORY. Context: read side, no shard held.
 */
enum outcome remake_as_large(struct engine *e, const struct visit *v, const struct remake *r);

/* ---- concat.c ---------------------------------------------------------------------------- */

/*
 * append and prepend: in a block or as a copy (concat.c), to a large value (extend.c), of a
 * long addition to a short value (join.c). splice.h has what the last two share.
 */

/* STORED NOT_STORED EXISTS TOO_LARGE NO_MEMORY WAIT. Context: read side, no shard held. */
enum outcome store_concat(struct engine *e, struct store *st, msec_t now);

/* ---- extend.c ---------------------------------------------------------------------------- */

/*
 * append and prepend to large values without copying them: the new item shares the whole
 * segments of the old one. The addition is put in the free part of the segment at that end, and
 * in more segments. A long addition is not copied either: its segments become part of the
 * value. So the work depends on the addition only, at most EXTEND_SEGMENTS segments (splice.h),
 * not on the length of the value.
 */

/*
 * Append or prepend to an existing large item. The outcomes of engine_store(), with TOO_LARGE
 * judged by bytes_max; or OUT_MISS: it cannot be done this way, or the item has gone. A body
 * that was joined is taken; otherwise it is unchanged. Context: read side, no shard held.
 */
enum outcome store_extend(struct engine *e, struct store *st, uint64_t bytes_max, msec_t now);

/* ---- join.c ------------------------------------------------------------------------------ */

/*
 * append and prepend of a long value to a short one: the segments in which the addition was
 * received become segments of the new value, and the old value is copied to segments before or
 * after them.
 */

/*
 * Append or prepend an addition for which store_joins() is true to an item with less than
 * EXTEND_SEGMENTS segments: the item is copied, the addition is not. The outcomes of
 * engine_store(); or OUT_MISS: the item has changed meanwhile. A body that was joined is taken;
 * otherwise it is unchanged. Context: read side, no shard held.
 */
enum outcome store_join(struct engine *e, struct store *st, const struct found *old,
                        msec_t now);

#endif
