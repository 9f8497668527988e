/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of a log (keylog.h): it encodes changes to blocks, either of keys or of the
 * current states of keys. The blocks are in LOGFILL_BLOCKS buffers, which the writer takes and
 * writes in order.
 *
 * Keys that change often are put once for many changes. In a log of keys, the last few thousand
 * keys that were put are remembered. For a log of states see stream.h.
 *
 * Expired items have no records. Their deadlines are in the files, so one DUE block
 * (lib/format/format.h) says that everything due up to an instant is gone. It is put within
 * LOGFILL_DUE_MS.
 *
 * The deadlines in files are by the wall clock. When the clock is set back, items written
 * before fall due earlier than the files say. Expired items then have a record each, until
 * there is a base that was written since.
 */
#ifndef MAYFLY_LIB_LOG_LOGFILL_H
#define MAYFLY_LIB_LOG_LOGFILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/handoff.h"
#include "lib/format/shipping.h"
#include "lib/log/logfile.h"
#include "lib/ship/stream.h"

/*
 * Number of buffers. One is being filled, and one must be free before a section that may fill
 * it. The others hold the changes of a few milliseconds, while a write runs, and those that the
 * next pass puts at once. All fit into two huge pages, which the kernel pins and maps for
 * direct writes at less cost than small pages.
 */
#define LOGFILL_BLOCKS 15u

/* The writer waits for this many blocks, unless a caller waits for the disk. */
#define LOGFILL_GATHER 6u

/* Largest delay of a DUE block, in milliseconds. */
#define LOGFILL_DUE_MS 250

struct logfill {
    /* [const] */
    struct engine *engine; /* [borrowed] */
    void (*wait)(void *arg);
    void *arg; /* [borrowed] */
    char *rooms;
    /* the reader's */
    struct stream stream;
    struct ship ship;
    struct shipping shipping;
    struct snap_encoder filler;
    uint64_t *lately;    /* keys that were put recently, by hash */
    uint64_t lately_of;  /* the generation that they belong to */
    uint64_t handed;     /* bytes of the blocks that were handed over */
    int64_t unix_ms;     /* when the current pass began */
    uint64_t expired;    /* stream_expired() when it began */
    msec_t due_gone;     /* stream_due_gone() at that time, if a DUE block is to be put */
    int64_t due_put_ms;  /* by the monotonic clock: when the last DUE block was put */
    uint64_t put_before; /* bytes, before the last pass */
    /* Unix time less engine time, by which deadlines were written: the greatest of them */
    int64_t offset_max;  /* in the base and its logs */
    int64_t offset_next; /* of those since the last rotation */
    uint64_t offset_of;  /* the generation that this belongs to */
    uint64_t bases_seen;
    /* for both */
    struct logfile_block blocks[LOGFILL_BLOCKS];
    struct handoff full; /* of the blocks: to the writer */
    /* [atomic] */
    _Atomic uint64_t chain;                   /* seed of the hashes of keys */
    _Atomic uint64_t generation;              /* logs begun */
    _Atomic int64_t base_offset_ms;           /* of the base: see logfill_base() */
    _Atomic uint64_t bases;                   /* that got their name (release) */
    _Atomic uint64_t expired_put;             /* items that expired before the last DUE block */
    _Atomic uint64_t filled MF_LINE_ALIGNED;  /* bytes so far, including those of an unfinished
                                                 block */
    _Atomic uint64_t written MF_LINE_ALIGNED; /* bytes of those blocks that were taken */
};

/*
 * wake is called when a block was handed over or taken (see handoff_init()). wait must wait a
 * short time for a block to be taken. Both are called outside sections. False: no memory. Call
 * logfill_fini() in both cases. Context: any thread; logfill_fini() likewise.
 */
bool logfill_init(struct logfill *f, struct engine *e, void (*wake)(void *arg),
                  void (*wait)(void *arg), void *arg);
void logfill_fini(struct logfill *f);

/* ---- the reader -------------------------------------------------------------------------- */

/* Start or stop recording changes. MF_ENOMEM. See stream_begin(). */
enum mf_err logfill_begin(struct logfill *f);
void logfill_end(struct logfill *f);

/*
 * Read all changes that were made before the call, and put their keys, or states, into blocks.
 * May wait for the writer. Results: see stream_pass(); never STREAM_REFUSED. Context: the
 * thread of logfill_begin(), outside a section; as the next.
 */
enum stream_state logfill_keys(struct logfill *f);
enum stream_state logfill_states(struct logfill *f);

/* Hand over the current block, unless it is empty. */
void logfill_send(struct logfill *f);

/*
 * After a pass that was STREAM_IDLE: if items have expired since the last DUE block, put
 * another. Unless in_haste, not before LOGFILL_DUE_MS are over.
 */
void logfill_put_due(struct logfill *f, bool in_haste);

/* Have items expired since the last DUE block? Context: any thread, until logfill_end(). */
bool logfill_owes_due(const struct logfill *f);

/* Does the current block have any content? */
static inline bool logfill_has_begun(const struct logfill *f)
{
    return f->filler.used != 0;
}

/* ---- the writer -------------------------------------------------------------------------- */

/*
 * logfill_next(): the next block, valid until logfill_took(); NULL: none. logfill_ready(): the
 * number of ready blocks that are adjacent in memory, beginning with it. Context: one thread.
 */
struct logfile_block *logfill_next(struct logfill *f);
unsigned logfill_ready(const struct logfill *f);
void logfill_took(struct logfill *f);

/* A new log begins: keys are hashed with this seed, and are put again. Context: as above. */
void logfill_rotate(struct logfill *f, uint64_t chain);

/*
 * The base of the log was renamed to its name. Its deadlines were written with this offset
 * (lib/snapshot/save.h, lib/snapshot/load.h); LOGFILL_OFFSET_UNKNOWN: it is not known. Context:
 * any thread.
 */
#define LOGFILL_OFFSET_UNKNOWN INT64_MAX
void logfill_base(struct logfill *f, int64_t offset_ms);

/* ---- observers --------------------------------------------------------------------------- */

/*
 * Number of blocks handed over so far, and taken so far. Context: any thread, as for the rest.
 */
static inline uint64_t logfill_put(const struct logfill *f)
{
    return handoff_given(&f->full);
}

static inline uint64_t logfill_taken(const struct logfill *f)
{
    return handoff_finished(&f->full);
}

/* Does the reader wait for a block to be taken, or is about to? Context: any thread. */
static inline bool logfill_is_full(const struct logfill *f)
{
    return logfill_put(f) - logfill_taken(f) >= LOGFILL_BLOCKS - 1;
}

/* Bytes in blocks that the writer has not taken yet. */
uint64_t logfill_waiting(const struct logfill *f);

#endif
