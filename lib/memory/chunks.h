/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large values: whole segments for the bulk, at most fifteen pieces in the log for the rest.
 * The item's block (its head) holds struct large instead of the value; a piece is a block
 * without a key that knows its owner and its number. Whatever moves one patches the other.
 */
#ifndef MAYFLY_LIB_MEMORY_CHUNKS_H
#define MAYFLY_LIB_MEMORY_CHUNKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/memory/memory.h"

#define PIECES_MAX 15u

/* Stands in a large item instead of its value, 4-aligned. */
struct large {
    segment_t first, last; /* [const] whole segments, joined by next; 0 when there are none */
    uint32_t segments;     /* [const] */
    uint32_t pieces;       /* [const] */
    _Atomic handle_t
        piece[PIECES_MAX]; /* [rcu] patched when a piece moves; only `pieces` of them exist */
};

#define LARGE_BYTES(pieces) (16u + 4u * (pieces))

static inline struct large *item_large(const struct item *it)
{
    uintptr_t p = (uintptr_t)item_value(it);

    return (struct large *)((p + 3) & ~(uintptr_t)3);
}

/* How a value is cut: whole segments, then pieces. */
struct cut {
    uint32_t segments;
    uint32_t pieces;
    uint32_t tail; /* bytes in pieces */
};
void chunks_cut(const struct memory *m, size_t len, struct cut *out);

/* A large item was linked: it is counted, and its segments are visible. Context: in shard. */
void chunks_adopt(struct memory *m, handle_t head);

/*
 * Kill the pieces and retire the segments of a large item that was unlinked; its own block is
 * left alone. Context: in shard.
 */
void chunks_kill(struct memory *m, handle_t head, enum death_reason reason);

/* The head or a piece was copied to another block: patch the other side. Context: in shard. */
void chunks_head_moved(struct memory *m, handle_t to);
void chunks_piece_moved(struct memory *m, handle_t to);

#endif
