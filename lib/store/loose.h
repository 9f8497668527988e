/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loose blocks: head and pieces of one large value under construction. They are filled outside
 * the shard, and the cursor leaves them alone until they are linked or given up. A flush frees
 * them (the epoch then differs), but their bytes are not reused before the end of the read-side
 * section in which they were made.
 */
#ifndef MAYFLY_LIB_STORE_LOOSE_H
#define MAYFLY_LIB_STORE_LOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "lib/memory/chunks.h"
#include "lib/store/store.h"
#include "lib/store/visit.h"

/* The parts of a full body. */
struct body_parts {
    struct shard *shard; /* owner of the segments */
    segment_t first, last;
    uint32_t segments;
    const char *tail; /* [borrowed] bytes for pieces, or NULL */
    size_t tail_len;
    size_t len;
};

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
 * Make the blocks for a value whose whole segments exist already, with parts.tail_len bytes in
 * pieces. False: not possible now, or the store will store nothing. Context: read side, outside
 * a shard.
 */
bool loose_begin(struct engine *e, const struct store *st, struct loose *l, msec_t now);

/* Give the blocks up. Context: the same section, outside a shard. */
void loose_abort(struct loose *l);

/* The bytes of a piece. */
struct span loose_piece(const struct loose *l, uint32_t i);

/* ---- the steps of store_large.c ---------------------------------------------------------- */

/*
 * Make the blocks for parts.tail_len bytes and the head. OUT_STORED; OUT_MISS: the item would
 * be dead on arrival, nothing was made; else why the store cannot go on. Context: in shard.
 */
enum outcome loose_make(struct visit *v, const struct store *st, bool has_ttl, struct loose *l);

/*
 * Fill the pieces, from parts.tail unless their bytes are there already. Context: outside the
 * shard, in the section of loose_make().
 */
void loose_fill(const struct loose *l);

/* The head becomes the item. Context: in shard. */
void loose_link(struct visit *v, struct store *st, msec_t deadline, bool has_ttl,
                uint32_t flags, struct loose *l);

/*
 * Give the blocks up. No reader has seen them, but every hole needs its grace period.
 * Context: in shard.
 */
void loose_drop(struct loose *l);

#endif
