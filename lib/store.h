/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files that store items share. Internal to the engine.
 */
#ifndef MAYFLY_LIB_STORE_H
#define MAYFLY_LIB_STORE_H

#include "lib/visit.h"

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
    return (!has_ttl || expires_reserve(s->expires)) && table_has_room(&s->table);
}

/* A new item takes over these bits of the heat of the one it replaces. Context: in shard. */
static inline void store_inherit(const struct visit *v, struct item *it, uint8_t mask)
{
    if (v->is_live) {
        uint8_t heat = atomic_load_explicit(&v->item->heat, memory_order_relaxed) & mask;

        atomic_store_explicit(&it->heat, heat, memory_order_relaxed);
    }
}

/*
 * A store found no room: returns why, and drops the old value where it must not be read any
 * more. Context: in shard.
 */
enum outcome store_failed(struct visit *v, const struct store *st, enum outcome why);

/* A store whose deadline has passed already: what was there is gone. Context: in shard. */
enum outcome store_dead_on_arrival(struct visit *v, struct store *st);

/* Values larger than a block. Context: read side, no shard held. */
enum outcome store_large(struct engine *e, struct store *st, msec_t now);
enum outcome store_concat_large(struct engine *e, struct store *st, msec_t now);

/*
 * ---- body.c
 * --------------------------------------------------------------------------------------
 */

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

/*
 * The segments now belong to an item, or were given back: the body forgets them. Context:
 * worker.
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
