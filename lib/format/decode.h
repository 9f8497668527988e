/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding blocks to items. The contents of a file are not trusted: memory use is bounded
 * whatever the file claims, and of a damaged file only blocks with a correct checksum are
 * returned.
 *
 * A reader steps from block to block by their headers (snap_reader_next()), in one thread at a
 * time. The content of a block is read and checked separately (snap_block_open()), by any
 * number of threads at once. Until then only the position of the next block is taken from a
 * header. If the header was wrong, opening the block fails.
 */
#ifndef MAYFLY_LIB_FORMAT_DECODE_H
#define MAYFLY_LIB_FORMAT_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/span.h"
#include "lib/format/encode.h"
#include "lib/format/fault.h"
#include "lib/format/format.h"
#include "lib/format/pack.h"

/*
 * Reads up to n bytes at an offset; returns how many, 0 at the end, or a negative errno. Called
 * by several threads at once.
 */
typedef ssize_t (*snap_read_fn)(void *arg, void *out, size_t n, uint64_t offset);

struct snap_reader {
    snap_read_fn read;         /* [const] */
    void *arg;                 /* [const] borrowed */
    struct snap_header header; /* [const] once it was read */
    uint64_t offset;           /* of the next block */
    uint64_t number;           /* of the next block */
    uint64_t items;            /* of the blocks so far, as their headers say */
    bool is_in_value;          /* the last block was a part of a value */
};

/* State of a thread that opens blocks. */
struct snap_opener {
    char *stored, *raw; /* SNAP_RAW_MAX bytes each */
    struct pack *pack;  /* NULL: made when it is needed */
};

/* Read a file's header. False: *fault. Context: any thread. */
bool snap_reader_begin(struct snap_reader *r, snap_read_fn read, void *arg,
                       struct snap_fault *fault);

enum snap_next {
    SNAP_NEXT_BLOCK, /* *b is its header; the reader is positioned after it */
    SNAP_NEXT_END,   /* the file is complete: END and its totals are right */
    SNAP_NEXT_FAULT, /* *fault */
};

/*
 * The next block. An optional block of an unknown kind is returned as well: the caller opens
 * it, which checks it, and then ignores it. Context: one thread at a time.
 */
enum snap_next snap_reader_next(struct snap_reader *r, struct snap_block *b,
                                struct snap_fault *fault);

/*
 * A log has no END. Is this fault, at which reading has stopped, the end of a complete log:
 * does it end where a block would begin? Context: as above.
 */
bool snap_is_end_of_log(const struct snap_reader *r, const struct snap_fault *fault);

/* False: no memory. Context: any thread, as for the next two. */
bool snap_opener_init(struct snap_opener *o);
void snap_opener_fini(struct snap_opener *o);

/*
 * The content of a block, in *content until the opener is used again. Returns false and sets
 * *fault if it cannot be read or is damaged. Context: the opener's thread.
 */
bool snap_block_open(const struct snap_reader *r, const struct snap_block *b,
                     struct snap_opener *o, struct span *content, struct snap_fault *fault);

/* The items of an opened ITEMS block. */
struct snap_cursor {
    struct span rest;
    uint32_t items_left;
    uint8_t marks; /* that they may have */
};

static inline struct snap_cursor snap_cursor_of(const struct snap_block *b, struct span content)
{
    return (struct snap_cursor){content, b->items, b->marks};
}

/*
 * The next item, whose spans point into the block. Returns false at the end, or if what follows
 * is no item: then snap_cursor_is_good() is false. Context: any thread, as for the rest.
 */
bool snap_cursor_next(struct snap_cursor *c, struct snap_item *it);

static inline bool snap_cursor_is_good(const struct snap_cursor *c)
{
    return c->items_left == 0 && c->rest.len == 0;
}

/*
 * The part of a value in an opened VALUE block: its offset in the value (*at), and its bytes.
 * In the first part, with *at 0, *it is the item, whose value is these bytes. False: the block
 * is malformed.
 */
bool snap_part_of(const struct snap_block *b, struct span content, uint32_t *at,
                  struct snap_item *it, struct span *bytes);

/* The instant of an opened FLUSH or DUE block. False: it is malformed. */
bool snap_instant_of(struct span content, int64_t *unix_ms);

/* The prefix of an opened PREFIX block, within it. False: it is malformed. */
bool snap_prefix_of(struct span content, struct span *prefix);

/* The i-th hash of an opened KEYS block, which has b->items. */
uint64_t snap_key_of(struct span content, uint32_t i);

/* Make a fault of a block. */
struct snap_fault snap_fault_at(const struct snap_block *b, enum snap_fault_kind kind);

#endif
