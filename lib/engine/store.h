/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files that store items share. Internal to the engine.
 */
#ifndef MAYFLY_LIB_ENGINE_STORE_H
#define MAYFLY_LIB_ENGINE_STORE_H

#include "lib/engine/visit.h"

/* The rest of store_judge(): anything but a plain set. Context: in shard. */
enum outcome store_judge_mode(const struct visit *v, const struct store *st);

/* May this store go on, by what was found? OUT_STORED: yes. Context: in shard. */
static inline enum outcome store_judge(const struct visit *v, const struct store *st)
{
    return MF_LIKELY(st->mode == STORE_SET) ? OUT_STORED : store_judge_mode(v, st);
}

/* Does an item with such a value fit one block? Context: any thread. */
static inline bool store_fits_block(const struct shard *s, size_t key_len, size_t value_len,
                                    bool has_ttl)
{
    return value_len <= (size_t)s->block_max_units * ITEM_UNIT &&
           keyspace_units(key_len, value_len, has_ttl) <= s->block_max_units;
}

/* Make sure that linking cannot fail. False: not now. Context: in shard. */
static inline bool store_reserve(struct shard *s, bool has_ttl)
{
    return (!has_ttl || wheel_reserve(s->wheel)) && table_has_room(&s->table);
}

/*
 * The same for what takes the place of the found item: only a new key needs room in the index.
 */
static inline bool store_reserve_over(const struct visit *v, bool has_ttl)
{
    return (!has_ttl || wheel_reserve(v->to->wheel)) &&
           (MF_LIKELY(v->slot != NULL && v->owner == v->to) || table_has_room(&v->to->table));
}

/*
 * A store that the engine makes itself (as STORE_CAS) over an item that it has looked at from
 * outside: goes on only if that very block still stands there with that deadline, else EXISTS.
 * A cas does not tell so much, since clients may choose it. A body is kept with EXISTS, too.
 */
struct store_over {
    const struct item *item; /* [borrowed] until the section ends */
    msec_t deadline;
    uint16_t clears, sets; /* marks: what it has, less these, and these */
    bool is_copy;          /* heat and last access are taken over */
};

/* The rest of store_finish(). Context: in shard. */
void store_finish_specially(const struct visit *v, const struct store *st, struct item *it);

/* A new item takes over these bits of the heat of the one it replaces. Context: in shard. */
static inline void store_inherit(const struct visit *v, struct item *it, uint8_t mask)
{
    if (v->is_live) {
        uint8_t heat = atomic_load_explicit(&v->item->heat, memory_order_relaxed) & mask;

        atomic_store_explicit(&it->heat, heat, memory_order_relaxed);
    }
}

/* The last of filling a block that is about to be linked. Context: in shard. */
static inline void store_finish(const struct visit *v, struct store *st, struct item *it,
                                uint8_t inherit)
{
    store_inherit(v, it, inherit);
    if (MF_UNLIKELY(st->over != NULL || st->cas_new != 0)) {
        store_finish_specially(v, st, it);
    }
    st->cas = it->cas;
    st->value_len = it->value_len;
}

/*
 * A block in `to` for an item that is new or replaces the found one; filled but for its value.
 * 0 with *why set. Context: in shard, after room_make() and visit_find().
 */
handle_t store_make(struct visit *v, uint32_t flags, msec_t deadline, size_t value_len,
                    bool may_wait, enum outcome *why);

/*
 * A store found no room: returns why, and drops the old value where it must not be read any
 * more. Context: in shard.
 */
enum outcome store_failed(struct visit *v, const struct store *st, enum outcome why);

/* A store whose deadline has passed already: what was there is gone. Context: in shard. */
enum outcome store_dead_on_arrival(struct visit *v, struct store *st);

/* The value of an append or prepend becomes an item if there is none, else NOT_STORED. */
enum outcome store_absent(struct engine *e, struct store *st, msec_t now);

/* Values larger than a block. Context: read side, no shard held. */
enum outcome store_large(struct engine *e, struct store *st, msec_t now);
enum outcome store_concat_large(struct engine *e, struct store *st, msec_t now);

/* ---- remake.c, touch.c ------------------------------------------------------------------- */

/* What the found item is to have that cannot be changed where it stands. */
struct remake {
    msec_t deadline;
    uint64_t cas;
    uint16_t clears, sets; /* marks */
    bool may_wait;
};

/*
 * Make the block of the found item anew, whatever its value is, and swap it in. OUT_OK, and the
 * visit has the new item; OUT_WAIT, OUT_NO_MEMORY; OUT_TOO_LARGE: with a deadline it fits no
 * block any more, remake_as_large() must do it. Context: in shard.
 */
enum outcome remake_block(struct visit *v, const struct remake *r);

/*
 * The same by storing a copy as a large value. OUT_OK; OUT_EXISTS: something changed, begin
 * again; OUT_WAIT, OUT_NO_MEMORY. Context: read side, no shard held.
 */
enum outcome remake_as_large(struct engine *e, const struct visit *v, const struct remake *r);

/*
 * Give the found item a deadline. OUT_TOUCHED: the visit has the item, which was unlinked if
 * the deadline has passed; else as remake_block(), for which *r was filled in. Context: in
 * shard.
 */
enum outcome touch_found(struct visit *v, msec_t deadline, bool may_wait, struct remake *r);

/* ---- body.c ------------------------------------------------------------------------------ */

/* What a full body consists of. */
struct body_parts {
    struct shard *shard; /* whose segments these are */
    segment_t first, last;
    uint32_t segments;
    const char *tail; /* [borrowed] bytes for pieces, or NULL */
    size_t tail_len;
    size_t len;
};
void body_parts(const struct body *b, struct body_parts *out);

/* Head and pieces of one value under construction: loose blocks, kept from the cursor. */
struct loose {
    struct shard *shard;
    struct body_parts parts;
    uint64_t epoch;
    uint32_t pieces;
    handle_t head;
    uint32_t head_units;
    handle_t piece[PIECES_MAX];
};

/*
 * Make the blocks for a value without whole segments, parts.tail_len bytes. False: not now, or
 * the store will not store anything. Context: read side, outside a shard.
 */
bool loose_begin(struct engine *e, const struct store *st, struct loose *l, msec_t now);

/* Give them up again. Context: the same section, outside a shard. */
void loose_abort(struct loose *l);

/* The bytes of a piece. */
struct span loose_piece(const struct loose *l, uint32_t i);

/* Copy to the body what came into its blocks. False: no memory. Context: their section. */
bool body_keep_bytes(struct body *b);

/* The blocks that the body was read into, to be linked; NULL when it was not. */
struct loose *body_loose(struct body *b);

/*
 * Segments and blocks now belong to an item, or were given back: the body forgets them.
 * Context: worker.
 */
void body_disown(struct body *b);

/*
 * Fill from a span as far as whole segments go; the rest may be passed as tail. OUT_OK,
 * OUT_WAIT, OUT_NO_MEMORY.
 */
enum outcome body_fill_segments(struct body *b, struct span value, bool may_wait);
/* Append to a body what fits, from a span. */
enum outcome body_append(struct body *b, struct span part, bool may_wait);

/* Make the body's segments those of another shard, by copying. */
enum outcome body_rehome(struct body *b, struct shard *to, bool may_wait);

#endif
