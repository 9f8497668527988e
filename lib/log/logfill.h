/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reading half of a log (keylog.h): it encodes changes to blocks, either of keys or of the
 * current states of keys. The blocks are in LOGFILL_BLOCKS buffers, which the writing half
 * takes and writes in order.
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
 * One is filled, one must be free before a section that may fill it, and the others are on
 * their way: what is changed while a write takes a few milliseconds, and what one pass then
 * puts at once. Together they take two huge pages, of which the system pins and maps less for a
 * write past its memory than of small ones.
 */
#define LOGFILL_BLOCKS 15u

/* The writer waits for this many blocks, unless it is asked to hurry. */
#define LOGFILL_GATHER 6u

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
 * wake is called when there is a block to be taken, or one was taken (see handoff_init()), wait
 * to wait a little for the latter, both outside sections. False: no memory; logfill_fini() is
 * due all the same. Context: any thread; logfill_fini() likewise.
 */
bool logfill_init(struct logfill *f, struct engine *e, void (*wake)(void *arg),
                  void (*wait)(void *arg), void *arg);
void logfill_fini(struct logfill *f);

/* ---- the reader -------------------------------------------------------------------------- */

/* Have changes recorded. MF_ENOMEM. See stream_begin(). */
enum mf_err logfill_begin(struct logfill *f);
void logfill_end(struct logfill *f);

/*
 * Read all changes that were made before the call, and put their keys, or states. May wait for
 * the writer. Results: see stream_pass(); never STREAM_REFUSED. Context: the thread of
 * logfill_begin(), outside a section; as the next.
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

/* Have items expired since? Context: any thread, until logfill_end(). */
bool logfill_owes_due(const struct logfill *f);

/* Is anything in it? */
static inline bool logfill_has_begun(const struct logfill *f)
{
    return f->filler.used != 0;
}

/* ---- the writer -------------------------------------------------------------------------- */

/*
 * The next block; NULL: none. It stays until logfill_took(). logfill_ready(): the number of
 * blocks that follow each other in memory from it on. Context: one thread.
 */
struct logfile_block *logfill_next(struct logfill *f);
unsigned logfill_ready(const struct logfill *f);
void logfill_took(struct logfill *f);

/* A log begins: keys are hashed with this seed, and put again. Context: the same. */
void logfill_rotate(struct logfill *f, uint64_t chain);

/*
 * The base of the log has got its name. Its deadlines were written with this offset
 * (lib/snapshot/save.h, lib/snapshot/load.h); LOGFILL_OFFSET_UNKNOWN: it is not known. Context:
 * any thread.
 */
#define LOGFILL_OFFSET_UNKNOWN INT64_MAX
void logfill_base(struct logfill *f, int64_t offset_ms);

/* ---- observers --------------------------------------------------------------------------- */

/* Blocks that were put. Context: any thread, as for the rest. */
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

/* Bytes that were read from the rings and not taken by the writer. */
uint64_t logfill_waiting(const struct logfill *f);

#endif
