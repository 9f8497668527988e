/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of the replication stream: see frame.h.
 */
#include "lib/replica/frame.h"

#include "lib/base/hash.h"
#include "lib/base/load.h"

/* Where fields are in a block's header: format.h. */
#define AT_STORED 12
#define AT_NUMBER 32
#define AT_SUM    40

uint64_t frame_seed(const struct replid *id, uint64_t offset)
{
    return hash_key(offset, id->bytes, REPLID_BYTES);
}

size_t frame_seal(char *block, const struct snap_block *b, const struct replid *id,
                  uint64_t offset)
{
    struct snap_block sealed = *b;

    sealed.number = offset;
    snap_block_put(block, &sealed, frame_seed(id, offset), block + SNAP_BLOCK_BYTES);
    return SNAP_BLOCK_BYTES + b->stored;
}

size_t frame_length(const char header[SNAP_BLOCK_BYTES], uint64_t offset)
{
    uint32_t stored = load_le32(header + AT_STORED);

    return load_le32(header) == SNAP_BLOCK_MAGIC && stored <= SNAP_RAW_MAX &&
                   load_le64(header + AT_NUMBER) == offset
               ? SNAP_BLOCK_BYTES + stored
               : 0;
}

bool frame_is_good(const char *block, size_t n, const struct replid *id, uint64_t offset)
{
    size_t length = n >= SNAP_BLOCK_BYTES ? frame_length(block, offset) : 0;

    return length != 0 && length <= n &&
           load_le64(block + AT_SUM) ==
               hash_key(hash_key(frame_seed(id, offset), block, SNAP_SUMMED_BLOCK),
                        block + SNAP_BLOCK_BYTES, length - SNAP_BLOCK_BYTES);
}

size_t frame_put_id(char block[FRAME_ID_LENGTH], const struct replid *next, uint64_t epoch,
                    int64_t unix_ms, const struct replid *id, uint64_t offset)
{
    const struct snap_block b = {
        .kind = FRAME_ID,
        .flags = SNAP_OPTIONAL, /* lib/snapshot does not know the kind */
        .raw = FRAME_ID_BYTES,
        .stored = FRAME_ID_BYTES,
        .unix_ms = unix_ms,
    };

    memcpy(block + SNAP_BLOCK_BYTES, next->bytes, REPLID_BYTES);
    store_le64(block + SNAP_BLOCK_BYTES + REPLID_BYTES, epoch);
    return frame_seal(block, &b, id, offset);
}

bool frame_id_of(struct span content, struct replid *next, uint64_t *epoch)
{
    if (content.len != FRAME_ID_BYTES) {
        return false;
    }
    memcpy(next->bytes, content.ptr, REPLID_BYTES);
    *epoch = load_le64(content.ptr + REPLID_BYTES);
    return !replid_is_none(next);
}

void frame_reader_begin(struct snap_reader *r, snap_read_fn read, void *arg, uint64_t offset)
{
    *r = (struct snap_reader){
        .read = read,
        .arg = arg,
        .header = {.version = SNAP_VERSION, .least = SNAP_VERSION, .flags = SNAP_IS_LOG},
        .offset = offset,
    };
}

enum snap_next frame_reader_next(struct snap_reader *r, const struct replid *id,
                                 struct snap_block *b, struct snap_fault *fault)
{
    r->header.sum = frame_seed(id, r->offset);
    r->number = r->offset;
    return snap_reader_next(r, b, fault);
}
