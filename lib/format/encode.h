/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding items to blocks. An encoder fills one block at a time in its own buffer. Its owner
 * decides when the block is written, because that may block: never inside a read section.
 * Usage:
 *
 *     snap_encoder_begin()           write the file's header
 *     snap_put_item()                until it returns false (no room), or a slice ends
 *     snap_encoder_send()            write the block, outside any section
 *     snap_value_begin/part/end()    an item that fits no block; writes blocks as they fill
 *     snap_put_flush()
 *     snap_put_key()                 a key that has changed
 *     snap_put_due()                 the time up to which items have expired
 *     snap_encoder_end()             write END
 *
 * Two threads may share the work: one fills blocks (snap_filler_begin()), the other writes them
 * (snap_encoder_begin(), snap_put_block()).
 */
#ifndef MAYFLY_LIB_FORMAT_ENCODE_H
#define MAYFLY_LIB_FORMAT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/load.h"
#include "lib/base/span.h"
#include "lib/format/format.h"
#include "lib/format/pack.h"
#include "lib/memory/item.h"

_Static_assert(ITEM_KEY_MAX <= UINT8_MAX, "a key's length is one byte");

/* An item as a file has it. */
struct snap_item {
    uint8_t marks; /* SNAP_STALE, SNAP_WON; SNAP_GONE */
    uint8_t heat;
    uint32_t client_flags;
    uint64_t cas;
    uint32_t idle_s;  /* since the last access, when the block was made */
    int64_t deadline; /* unix ms, or SNAP_DEADLINE_NEVER */
    struct span key;  /* 1 to 250 bytes */
    struct span value;
    uint32_t value_len; /* value.len, unless the value comes in parts */
};

/* Write n bytes after those of earlier calls. False: failed, and all later calls fail too. */
typedef bool (*snap_write_fn)(void *arg, const void *bytes, size_t n);

/*
 * Take over a filled block; *b has its kind and lengths, but not its sum and number. Returns
 * the memory for the next block. is_more: the next block continues the same value.
 */
typedef char *(*snap_take_fn)(void *arg, const struct snap_block *b, bool is_more);

/* Bytes of a block in memory. */
#define SNAP_ROOM_BYTES (SNAP_BLOCK_BYTES + SNAP_RAW_MAX)

struct snap_encoder {
    snap_write_fn write;
    snap_take_fn take; /* NULL: blocks are written */
    void *arg;         /* [borrowed] */
    char *block;       /* header, then the bytes as they are: the one under construction */
    char *packed;      /* the same, packed; NULL: nothing is packed */
    struct pack *pack;
    uint32_t used;  /* bytes of the block without its header */
    uint32_t items; /* in it */
    bool has_keys;  /* they are keys */
    uint32_t shard;
    uint64_t sum;    /* the file header's */
    uint64_t number; /* of the next block */
    uint64_t offset; /* its offset in the file */
    uint64_t all_items;
    uint32_t value_left; /* of a value in parts: bytes still to come */
    uint32_t value_at;   /* bytes of it put so far */
    bool is_log;         /* the file may have older states of the same keys */
    bool is_broken;      /* a write failed */
};

/*
 * Begin a file: fill in h->version, least and sum, and write the header. is_packed: compress
 * blocks, which needs pack_is_there(). False: no memory, or the write failed; the encoder then
 * holds nothing. Context: any thread, outside a section, as for all functions that write.
 */
bool snap_encoder_begin(struct snap_encoder *e, snap_write_fn write, void *arg,
                        struct snap_header *h, bool is_packed);

/*
 * Fill blocks that another thread writes: each is passed to `take`; `block` is the memory of
 * the first one. The encoder then owns nothing to be released. Context: any thread.
 */
void snap_filler_begin(struct snap_encoder *e, snap_take_fn take, void *arg, char *block);

/*
 * Write a block that another thread has filled; its sum and number are added here. Returns
 * false if a write failed.
 */
bool snap_put_block(struct snap_encoder *e, const struct snap_block *b, char *block);

/*
 * The same in two steps, so that one write takes several blocks that follow each other in
 * memory. The first step adds sum and number, and `more` bytes of an empty block: at least
 * SNAP_BLOCK_BYTES, for which there is room after the block. It returns the length of both.
 * Blocks must be written in the order in which they were sealed.
 */
size_t snap_seal_padded(struct snap_encoder *e, const struct snap_block *b, char *block,
                        uint32_t more);
bool snap_put_sealed(struct snap_encoder *e, const char *blocks, size_t n);

/* Release it, at any time. Context: any thread. */
void snap_encoder_fini(struct snap_encoder *e);

/*
 * The head of an item, without key and value, in three parts: a caller that computes the fields
 * of one part after those of another needs few registers.
 */
static inline void snap_put_marks(char *p, size_t key_len, uint8_t marks, uint8_t heat,
                                  uint32_t client_flags)
{
    p[0] = (char)key_len;
    p[1] = (char)marks;
    p[2] = (char)heat;
    p[3] = 0;
    store_le32(p + 4, client_flags);
}

static inline void snap_put_cas_len(char *p, uint64_t cas, uint32_t value_len)
{
    store_le64(p + 8, cas);
    store_le32(p + 16, value_len);
}

static inline void snap_put_times(char *p, uint32_t idle_s, int64_t deadline)
{
    store_le32(p + 20, idle_s);
    store_le64(p + 24, (uint64_t)deadline);
}

static inline void snap_put_head(char *p, const struct snap_item *it)
{
    snap_put_marks(p, it->key.len, it->marks, it->heat, it->client_flags);
    snap_put_cas_len(p, it->cas, it->value_len);
    snap_put_times(p, it->idle_s, it->deadline);
}

/*
 * The address of the next item in the block, with room for head, key and value; NULL: the block
 * has not enough room. Then call snap_item_is_put() with the number of bytes of key and value
 * that were written. Context: any thread, as for the next two.
 */
static inline char *snap_item_room(const struct snap_encoder *e, size_t key_len,
                                   size_t value_len)
{
    must(key_len != 0 && key_len <= ITEM_KEY_MAX && !e->has_keys);
    return value_len <= SNAP_RAW_MAX &&
                   SNAP_ITEM_BYTES + key_len + value_len <= SNAP_RAW_MAX - e->used
               ? e->block + SNAP_BLOCK_BYTES + e->used
               : NULL;
}

static inline void snap_item_is_put(struct snap_encoder *e, size_t bytes)
{
    e->used += SNAP_ITEM_BYTES + (uint32_t)bytes;
    e->items++;
}

/*
 * Add an item to the block, with room for its whole value; if it->value is only its beginning,
 * the rest follows by snap_put_more(). False: not enough room is left.
 */
static inline bool snap_put_item(struct snap_encoder *e, const struct snap_item *it)
{
    char *p = snap_item_room(e, it->key.len, it->value_len);

    must(it->value_len >= it->value.len);
    if (p == NULL) {
        return false;
    }
    snap_put_head(p, it);
    memcpy(p + SNAP_ITEM_BYTES, it->key.ptr, it->key.len);
    if (it->value.len != 0) {
        memcpy(p + SNAP_ITEM_BYTES + it->key.len, it->value.ptr, it->value.len);
    }
    snap_item_is_put(e, it->key.len + it->value.len);
    return true;
}

void snap_put_more(struct snap_encoder *e, struct span part);

/* Write the current block, unless it is empty. False: a write failed. */
bool snap_encoder_send(struct snap_encoder *e, int64_t unix_ms);

/*
 * An item whose value comes in parts, which together have it->value_len bytes. Earlier items
 * are sent first. Returns false if a write failed.
 */
bool snap_value_begin(struct snap_encoder *e, const struct snap_item *it, int64_t unix_ms);
bool snap_value_part(struct snap_encoder *e, struct span part, int64_t unix_ms);
bool snap_value_end(struct snap_encoder *e, int64_t unix_ms);

/* End the value that was begun, incomplete: readers discard its item. False: a write failed. */
bool snap_value_cut(struct snap_encoder *e, int64_t unix_ms);

/* Record that all items are flushed at this time. Written at once. False: a write failed. */
bool snap_put_flush(struct snap_encoder *e, int64_t at_unix_ms, int64_t unix_ms);

/* Record that all items with this prefix (1 to ITEM_KEY_MAX bytes) are flushed. As above. */
bool snap_put_prefix(struct snap_encoder *e, struct span prefix, int64_t unix_ms);

/* Record that all items with a deadline up to this time are gone. As above. */
bool snap_put_due(struct snap_encoder *e, int64_t due_unix_ms, int64_t unix_ms);

/* Record that the key with this hash has changed. Writes the current block if it is full. */
bool snap_put_key(struct snap_encoder *e, uint64_t hash, int64_t unix_ms);

/* Write the END, after all items. False: a write failed, now or earlier. */
bool snap_encoder_end(struct snap_encoder *e, int64_t unix_ms);

/* A file's header. Context: any thread. */
void snap_header_put(char out[SNAP_HEADER_BYTES], struct snap_header *h);

/*
 * The header of a block with these stored bytes; b->sum, seed and offset are not read. sum:
 * the file header's. Context: any thread.
 */
void snap_block_put(char out[SNAP_BLOCK_BYTES], const struct snap_block *b, uint64_t sum,
                    const char *stored);

#endif
