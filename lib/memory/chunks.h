/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large values: whole segments for most of the bytes, and at most fifteen pieces for the rest,
 * which are in segments with other blocks. The item's block (its head) holds struct large
 * instead of the value. A piece is a block without a key that records its owner and its number.
 * Code that moves one of them updates the other.
 */
#ifndef MAYFLY_LIB_MEMORY_CHUNKS_H
#define MAYFLY_LIB_MEMORY_CHUNKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/memory/state.h"

#define PIECES_MAX 15u

/*
 * Replaces the value in the block of a large item, 4-aligned.
 *
 * The entry of a whole segment defines which part of it belongs to the value: from skip to
 * fill. In a value that was stored at once this is the whole segment, except that the last one
 * may be filled partly. append and prepend may extend a value (chunks_extend()): then the old
 * item and the new one share segments. Readers of the old item still get the old value, because
 * they take its start from its own skip, and its end from its length and number of segments.
 * They do not read skip in the entry of its first segment, nor fill and next in that of its
 * last one. The entries between these two do not change.
 */
struct large {
    segment_t first, last; /* [const] whole segments, joined by next; 0 when there are none */
    uint32_t segments;     /* [const] */
    uint32_t pieces;       /* [const] 0 in a value that was extended */
    uint32_t skip;         /* [const] bytes of the first segment before the value */
    segment_t anchor;      /* [const] describes the run and has the pins; 0 if first is 0 */
    _Atomic handle_t
        piece[PIECES_MAX]; /* [rcu] patched when a piece moves; only `pieces` of them exist */
};

#define LARGE_BYTES(pieces) (24u + 4u * (pieces))

static inline struct large *item_large(const struct item *it)
{
    uintptr_t p = (uintptr_t)item_value(it);

    return (struct large *)((p + 3) & ~(uintptr_t)3);
}

/* How a value is divided: whole segments, then pieces. */
struct cut {
    uint32_t segments;
    uint32_t pieces;
    uint32_t tail; /* bytes in pieces */
};
void chunks_cut(const struct memory *m, size_t len, struct cut *out);

/* A large item was linked: count it, and make its segments visible. Context: in shard. */
void chunks_adopt(struct memory *m, handle_t head);

/* Whole segments that are added at one end of a value, linked by next; count 0: none. */
struct growth {
    segment_t first, last;
    uint32_t count;
};

/*
 * Set the struct large of the item in block `to`: the segments of the live item `from`, with
 * more before the first (by[RUN_FRONT]) and after the last (by[RUN_BACK]). Context: in shard,
 * before `to` is linked.
 */
void chunks_extend(struct memory *m, handle_t from, handle_t to,
                   const struct growth by[RUN_ENDS]);

/*
 * Second step: kill the pieces of `from`, whose content is now in segments of `to`. Context: in
 * shard, after `to` was linked in place of `from`.
 */
void chunks_extended(struct memory *m, handle_t from);

/*
 * Prefetch the pieces of a live large item, which are about to be killed. Always inlined: GCC
 * drops calls of a function that does nothing but prefetch. Context: in shard.
 */
static MF_INLINE void chunks_prefetch(const struct memory *m, const struct large *l)
{
    for (uint32_t i = 0; i < l->pieces; i++) {
        handle_t h = atomic_load_explicit(&l->piece[i], memory_order_relaxed);

        __builtin_prefetch(memory_item(m, h), 1);
    }
}

/*
 * Kill the pieces and retire the segments of a large item that was unlinked. Its own block is
 * not changed. Context: in shard.
 */
void chunks_kill(struct memory *m, handle_t head, enum death_reason reason);

/*
 * The head or a piece was copied to another block: update the other side. If the head has moved
 * to another chain, its segments now count for that chain. Context: in shard.
 */
void chunks_head_moved(struct memory *m, handle_t from, handle_t to);
void chunks_piece_moved(struct memory *m, handle_t to);

#endif
