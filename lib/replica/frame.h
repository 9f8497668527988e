/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of the replication stream. They have the format of lib/format/format.h, with two
 * differences. A block's number is its offset in the stream. The seed of its checksum is
 * computed from the replication id and that offset, not from a file header:
 *
 *     seed = XXH3-64 of the 16 bytes of the id, seeded with the offset
 *
 * So a block is valid at one offset of one history only, and a reader may begin at any block.
 *
 * The stream has ITEMS, VALUE and FLUSH blocks as in a log (SNAP_GONE marks an absent key), and
 *
 *     ID       the history has another id from the end of this block on, as after a
 *              promotion: id:128, epoch:64. A value in parts that is under way is cut.
 */
#ifndef MAYFLY_LIB_REPLICA_FRAME_H
#define MAYFLY_LIB_REPLICA_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/format/decode.h"
#include "lib/replica/replid.h"

/* Kinds from here on are of streams only: no file has them. */
#define FRAME_ID 64

#define FRAME_ID_BYTES (REPLID_BYTES + 8u)

/*
 * The seed of a block's sum, instead of a file header's. Context: any thread, as for the rest.
 */
uint64_t frame_seed(const struct replid *id, uint64_t offset);

/*
 * Write the header of the block that is at this offset: `block` has room for it, followed by
 * b->stored bytes. b->number, sum and offset are not read. Returns the block's length.
 */
size_t frame_seal(char *block, const struct snap_block *b, const struct replid *id,
                  uint64_t offset);

/*
 * Length of the block that begins with this header; 0 if it is no header of a block at this
 * offset. Its sum is not checked.
 */
size_t frame_length(const char header[SNAP_BLOCK_BYTES], uint64_t offset);

/* The kind of the block with this header. */
static inline uint8_t frame_kind(const char header[SNAP_BLOCK_BYTES])
{
    return (uint8_t)header[4];
}

/* Are these n bytes the complete and undamaged block of this id and offset? */
bool frame_is_good(const char *block, size_t n, const struct replid *id, uint64_t offset);

/* Make an ID block. Returns its length, which is FRAME_ID_LENGTH. */
#define FRAME_ID_LENGTH (SNAP_BLOCK_BYTES + FRAME_ID_BYTES)
size_t frame_put_id(char block[FRAME_ID_LENGTH], const struct replid *next, uint64_t epoch,
                    int64_t unix_ms, const struct replid *id, uint64_t offset);

/* The content of an opened ID block. Returns false if it is malformed. */
bool frame_id_of(struct span content, struct replid *next, uint64_t *epoch);

/* ---- reading with lib/format/decode.h ---------------------------------------------------- */

/*
 * Prepare to read blocks from this offset on; `read` gets offsets of the stream. Then use
 * frame_reader_next() instead of snap_reader_next(), and snap_block_open() as usual. Set
 * r->is_in_value to continue within a value.
 */
void frame_reader_begin(struct snap_reader *r, snap_read_fn read, void *arg, uint64_t offset);

/* The next block, which must be of this id. SNAP_NEXT_BLOCK or SNAP_NEXT_FAULT. */
enum snap_next frame_reader_next(struct snap_reader *r, const struct replid *id,
                                 struct snap_block *b, struct snap_fault *fault);

#endif
