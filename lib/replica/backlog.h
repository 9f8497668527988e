/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/replica: replication without its sockets, which are in daemon/replica.
 *
 *     replid       128 random bits that name a history of changes
 *     frame        blocks of the replication stream
 *     backlog      the last bytes of the stream, in a ring
 *     shipper      the thread that turns changes into blocks; readers is its table of readers
 *
 * This folder is above lib/snapshot, at the top of lib: it may include all of it.
 *
 * The backlog is a ring of bytes of the replication stream (frame.h), with one writer and any
 * number of readers. Offsets count the bytes of the stream; they never wrap. All replicas read
 * the same bytes, and a replica keeps them in a backlog of its own, so that siblings and
 * chained replicas can continue from each other.
 *
 * A history has an id. After a promotion it has a new one, and the previous one is valid up to
 * the offset where it ended. A reader cannot continue from an offset before a gap or a
 * takeover.
 *
 * Writing never waits for readers. A reader copies bytes out and then checks whether the writer
 * has overwritten them meanwhile; shipper.h makes the writer wait for slow readers.
 */
#ifndef MAYFLY_LIB_REPLICA_BACKLOG_H
#define MAYFLY_LIB_REPLICA_BACKLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/mem.h"
#include "lib/replica/frame.h"
#include "lib/replica/replid.h"

struct backlog;

/* Default size of the ring, in bytes: 1/32 of the limit, within these bounds. */
#define BACKLOG_BYTES_MIN ((uint64_t)8 << 20)
#define BACKLOG_BYTES_MAX ((uint64_t)64 << 20)
uint64_t backlog_default_bytes(uint64_t limit_bytes);

/* The identity and position of a history. It outlives the process. */
struct backlog_name {
    struct replid id;
    struct replid previous; /* none: replid_is_none() */
    uint64_t previous_end;  /* offsets up to it may be continued under the previous id */
    uint64_t epoch;         /* number of promotions */
    uint64_t offset;        /* the end of the stream */
};

/*
 * Make a backlog without a ring, with a new id, epoch 1, at offset 0. The ring will be counted
 * in the budget. NULL: no memory. Context: any thread.
 */
struct backlog *backlog_create(struct budget *budget);

/* Release; takes the address and nulls it; accepts NULL. Context: no other thread uses it. */
void backlog_destroy(struct backlog **b);

/*
 * Allocate a ring of this size, rounded up to whole pages, replacing any other; the content of
 * the old one is lost. Without a ring bytes are counted but not stored, so a reader can
 * continue only at the very end. Returns false without memory: nothing has changed. Context:
 * any thread, while there are no readers and no writer; as the next.
 */
bool backlog_reserve(struct backlog *b, uint64_t bytes);
void backlog_release(struct backlog *b);

/* Size of the ring in bytes; 0: there is none. Context: any thread. */
uint64_t backlog_bytes(const struct backlog *b);

/* ---- names ------------------------------------------------------------------------------- */

/* Context: any thread. */
void backlog_get_name(struct backlog *b, struct backlog_name *name);

/*
 * Continue this history at name->offset, with an empty ring: at a warm restart, and when a
 * replica begins to follow. If it has no id, as during a full sync, no reader can continue
 * here. Context: the writer, after all readers have been detached.
 */
void backlog_take_over(struct backlog *b, const struct backlog_name *name);

/*
 * Changes are missing here: no reader can continue from an offset up to now, including the end.
 * The stream continues one byte later. Context: the writer, as for the rest.
 */
void backlog_gap(struct backlog *b);

/*
 * Change the id of the history to `next` and increment the epoch (a promotion): append an ID
 * block, the last block under the old id. Readers and replicas learn of the change by that
 * block.
 */
void backlog_promote(struct backlog *b, const struct replid *next, int64_t unix_ms);

/* ---- writing ----------------------------------------------------------------------------- */

/*
 * Append a block: `block` has room for its header, then b->stored bytes; the header is written
 * there (frame_seal()).
 */
void backlog_append(struct backlog *b, const struct snap_block *head, char *block);

/*
 * Append a block as another backlog had it, at the same offset of the same id: a replica does
 * that with each block that it has applied. An ID block renames this history too. False: it is
 * not that block, or damaged; nothing has changed.
 */
bool backlog_append_copy(struct backlog *b, const char *block, size_t n);

/* ---- reading ----------------------------------------------------------------------------- */

enum backlog_answer {
    BACKLOG_CONTINUES,
    BACKLOG_OTHER_ID,  /* another history */
    BACKLOG_TOO_OLD,   /* the offset is no longer in the ring, or is before a gap */
    BACKLOG_TOO_NEW,   /* the offset is after the end of the stream, or of the previous id */
    BACKLOG_NO_BLOCK,  /* no block of that id begins there */
    BACKLOG_NO_MEMORY, /* for the check */
    BACKLOG_BUSY,      /* of shipper_attach(): SHIPPER_READERS_MAX are attached */
};

/* [const] The answer in words, for logs and statistics. */
const char *backlog_answer_text(enum backlog_answer answer);

/*
 * May a replica that has everything up to this offset of a history continue there? The offset
 * must be the beginning of a block, whose sum is checked, or the end. Context: any thread.
 */
enum backlog_answer backlog_may_continue(struct backlog *b, const struct replid *id,
                                         uint64_t offset);

/*
 * Copy out up to n bytes from an offset. Returns the number of bytes, 0 at the end; -1 if the
 * offset is outside the ring. Context: any thread.
 */
ptrdiff_t backlog_copy(const struct backlog *b, uint64_t offset, void *out, size_t n);

/* The end of the stream. Context: any thread. */
uint64_t backlog_end(const struct backlog *b);

/* The first offset that is still in the ring; the end if it is empty. Context: any thread. */
uint64_t backlog_start(const struct backlog *b);

#endif
