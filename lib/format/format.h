/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/format: items in blocks, as files and the replication stream have them.
 *
 *     format       the file format: header, blocks, items, with accessors for their fields
 *     fault        description of what is wrong with a file
 *     pack         compression of a block (zstd, if available)
 *     encode       encode items to blocks
 *     decode       decode blocks to items; the file is not trusted
 *     load_file    open a file and read its header
 *     scan         read a whole file, in one thread or several
 *     shipping     encode what lib/ship ships to blocks
 *     io, newfile  atomic replacement of a file
 *
 * The folder is above lib/ship, which knows no files. lib/log and lib/snapshot write and read
 * the files.
 *
 * A file is a header of 64 bytes followed by blocks, the last of which is END. All numbers are
 * little endian, and nothing is aligned:
 *
 *     header   0 magic "MAYFLYS1"   8 version:16   10 least reader:16   12 flags:32
 *              16 unix ms of the beginning:64   24 chain:64   32 number of a log:64
 *              40 items, about:64   48 bytes of them, about:64   56 sum:64
 *     block    0 magic:32   4 kind:8   5 flags:8   6 zero:16   8 raw bytes:32
 *              12 stored bytes:32   16 items:32   20 shard:32, or in a log unsynced:32
 *              24 unix ms:64   32 number:64   40 sum:64, then the stored bytes
 *
 * The header's sum is XXH3-64 of the 56 bytes before it. A block's sum is that of its stored
 * bytes, with the sum of its first 40 bytes as the seed, which has the header's sum as its
 * seed: so a block is valid only in its own file, and its number only at its own place.
 *
 *     ITEMS    `items` items, each whole
 *     VALUE    a part of an item that fits no block: offset in the value:32, zero:32, then, at
 *              offset 0, the item without its value; then bytes. `items` is 1 at offset 0, else
 *              0. The parts of a value follow each other. A part with offset UINT32_MAX has no
 *              bytes: the value is incomplete, and readers discard the item.
 *     FLUSH    what is stored is flushed at this instant: unix ms:64; in a log 0 means: here
 *     PREFIX   in a log: what is stored and has this prefix was flushed here: the prefix
 *     END      items:64   blocks before it:64   its own offset:64
 *     KEYS     in a log: `items` hashes:64 of keys that have changed; seed: the chain
 *     META and PING are for replicas; a file has none of them, nor of kinds from 64 on
 *     PAD      zeros, so that the next block begins at a page boundary; optional, in a log
 *     DUE      in a log: all items with a deadline up to this instant are gone: unix ms:64.
 *              Optional: the block's time says as much to a reader that does not know it.
 *
 * A snapshot and its logs have the same chain number. Logs are numbered. The number in a
 * snapshot's header is that of its first log, which was begun before the snapshot: see
 * lib/log/keylog.h. A log has no END. Its items are successive states of keys. An item with the
 * mark GONE and no value says that the key was absent. Each block of a log tells how many bytes
 * before it were not yet covered by an fsync when it was written. Bytes before those must be
 * present, or the disk has lost data that it had acknowledged: see lib/log/torn.c. A log that
 * was closed cleanly ends with a block of no items, and everything before that block is
 * durable. (Logs of older programs say so in every block.)
 *
 *     item     0 key length:8   1 marks:8   2 heat:8   3 zero:8   4 flags:32   8 cas:64
 *              16 value length:32   20 seconds since the last access:32   24 deadline:64,
 *              unix ms, or INT64_MAX; then key, then value
 */
#ifndef MAYFLY_LIB_FORMAT_FORMAT_H
#define MAYFLY_LIB_FORMAT_FORMAT_H

#include <stdint.h>

#define SNAP_MAGIC       "MAYFLYS1"
#define SNAP_BLOCK_MAGIC 0x4b42664du /* "MfBK" */

/*
 * The version that this code writes, and the oldest that it reads. A file has the least version
 * of a reader that it needs.
 */
#define SNAP_VERSION       1
#define SNAP_VERSION_FIRST 1

#define SNAP_HEADER_BYTES  64u
#define SNAP_SUMMED_HEADER 56u
#define SNAP_BLOCK_BYTES   48u
#define SNAP_SUMMED_BLOCK  40u
#define SNAP_ITEM_BYTES    32u
#define SNAP_PART_BYTES    8u
#define SNAP_END_BYTES     24u
#define SNAP_KEY_BYTES     8u
#define SNAP_DUE_BYTES     8u

/*
 * As the offset of a part: the rest of the value is missing, and readers discard the item.
 */
#define SNAP_PART_CUT UINT32_MAX

/* Largest content of a block in bytes, before packing. Packed content is never larger. */
#define SNAP_RAW_MAX (256u * 1024)

#define SNAP_DEADLINE_NEVER INT64_MAX

#define SNAP_UNSYNCED_MAX UINT32_MAX

enum snap_kind {
    SNAP_ITEMS = 1,
    SNAP_VALUE = 2,
    SNAP_KEYS = 3,
    SNAP_META = 4,
    SNAP_FLUSH = 5,
    SNAP_PING = 6,
    SNAP_END = 7,
    SNAP_PAD = 8,
    SNAP_DUE = 9,
    SNAP_PREFIX = 10,
};

#define SNAP_KIND_MAX SNAP_PREFIX

/* Flags of a file. */
#define SNAP_HAS_LOG 0x01u /* a snapshot: the log of its number must be there */
#define SNAP_IS_LOG  0x02u

/* Flags of a block. */
#define SNAP_OPTIONAL 0x01u /* a reader that does not know the kind skips it */
#define SNAP_PACKED   0x02u /* by zstd */
#define SNAP_FLAGS    (SNAP_OPTIONAL | SNAP_PACKED)

/* Marks of an item. */
#define SNAP_STALE 0x01u
#define SNAP_WON   0x02u
#define SNAP_MARKS (SNAP_STALE | SNAP_WON)
#define SNAP_GONE  0x04u /* only in a log */

struct snap_header {
    uint16_t version;
    uint16_t least;  /* the oldest reader that understands it */
    uint32_t flags;  /* SNAP_HAS_LOG, SNAP_IS_LOG */
    int64_t unix_ms; /* when the file was begun */
    uint64_t chain;
    uint64_t log;          /* 0: of a snapshot that knows of no logs */
    uint64_t items, bytes; /* about: to make room, not to be relied on */
    uint64_t sum;
};

struct snap_block {
    uint8_t kind; /* enum snap_kind, or one that is not known */
    uint8_t flags;
    uint32_t raw, stored; /* bytes; stored follow the header */
    uint32_t items;
    union {
        uint32_t shard;
        uint32_t unsynced; /* in a log: bytes; SNAP_UNSYNCED_MAX: that many or more */
    };
    int64_t unix_ms; /* when its items were read */
    uint64_t number; /* from 0 */
    uint64_t sum;
    uint64_t seed;   /* of the sum of the stored bytes */
    uint64_t offset; /* its offset in the file */
    uint8_t marks;   /* that its items may have: all, in a log */
};

#endif
