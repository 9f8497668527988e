/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files that store items share: deciding whether a store may proceed, making the new
 * block, finishing it, failing.
 */
#ifndef MAYFLY_LIB_STORE_STORE_COMMON_H
#define MAYFLY_LIB_STORE_STORE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/store/store.h"
#include "lib/store/visit.h"

/* Is the value a body, rather than a span? */
static inline bool store_has_body(const struct store *st)
{
    return st->body != NULL && *st->body != NULL;
}

/* The rest of store_judge(): anything but a plain set. Context: in shard. */
enum outcome store_judge_mode(const struct visit *v, const struct store *st);

/* May this store go on, given what was found? OUT_STORED: yes. Context: in shard. */
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
 * keyspace_reserve() for what takes the place of the found item: only a new key needs room in
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
    bool is_copy; /* heat and last access are taken over */
    bool is_move; /* into another shard: nothing changes for anyone */
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

/* A new item takes over these bits of the heat of the item it replaces. Context: in shard. */
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
 * A block in `to` for an item that is new or replaces the found one; filled but for its value.
 * cas: 0: the next one. 0 with *why set. Context: in shard, after room_make() and visit_find().
 */
handle_t store_make(struct visit *v, uint32_t flags, uint64_t cas, msec_t deadline,
                    size_t value_len, bool may_wait, enum outcome *why);

/*
 * A store found no room: returns why, and drops the old value if it must no longer be read.
 * Context: in shard.
 */
enum outcome store_failed(struct visit *v, const struct store *st, enum outcome why);

/* A store whose deadline has already passed: what was there is gone. Context: in shard. */
enum outcome store_dead_on_arrival(struct visit *v, struct store *st);

#endif
