/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applying the stream, on the replica: changes from the primary are stored in the engine and
 * appended to the replica's own backlog, so that other replicas can follow this one.
 *
 *     applier_begin_full()     a full sync begins: drop everything
 *     applier_run_full()       read and apply it (fullsync.h)
 *     applier_end_full()       it was complete: continue from its mark
 *     applier_take()           the stream, in pieces of any size
 *     applier_cut()            the link was cut: continue from applier_offset()
 *     applier_leave()          stop following the primary
 *
 * Each item keeps its cas, flags, marks and deadline. If a new state does not fit, the key's
 * old item is removed. Items past their deadline by this host's clock are stored like others:
 * reads mask them, and the primary may still give them a later deadline. A delayed flush is
 * also carried out by this host's clock, in case the primary has failed by then. The stream
 * contains that flush too, at its position.
 */
#ifndef MAYFLY_LIB_REPLICA_APPLIER_H
#define MAYFLY_LIB_REPLICA_APPLIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/format/fault.h"
#include "lib/replica/backlog.h"
#include "lib/snapshot/apply.h"

struct applier;
struct engine;

/* Memory of an applier, counted in the budget: the received block, and buffers to open it. */
#define APPLIER_BYTES ((int64_t)SNAP_ROOM_BYTES + 2 * (int64_t)SNAP_RAW_MAX)

struct applier_config {
    struct engine *engine;   /* [borrowed] */
    struct backlog *backlog; /* [borrowed] the replica's own; the applier is its writer */
    /*
     * Should the work end soon? Checked between blocks. If it becomes true in the middle of a
     * block, the rest of the block is applied without waiting for memory. Context: the thread
     * that applies.
     */
    bool (*is_stopped)(void *arg);
    /* The history has this name from now on (a server upstream was promoted); may be NULL. */
    void (*renamed)(void *arg, const struct backlog_name *name);
    /*
     * A flush of the stream was applied, or is scheduled; not called in a full sync. It may
     * wait. May be NULL.
     */
    void (*flushed)(void *arg);
    void *arg; /* [borrowed] of all */
};

enum applier_result {
    APPLIER_OK,
    APPLIER_BAD,       /* the bytes are damaged, or are no such stream */
    APPLIER_CUT,       /* a full sync ended too early, or reading it has failed */
    APPLIER_STOPPED,   /* is_stopped() returned true; no block was left half applied */
    APPLIER_NO_MEMORY, /* no memory for a flush, even after waiting */
};

/* For logs: the result in words. */
const char *applier_result_text(enum applier_result result);

/*
 * Make an applier that continues at the end of the backlog. NULL: no memory. Context: a
 * registered thread. All other functions are called by one thread at a time, outside sections,
 * unless they say otherwise.
 */
struct applier *applier_create(const struct applier_config *cfg);

/*
 * Takes the address and nulls it; accepts NULL. The value in parts that is being received is
 * dropped, and its key keeps what it had: see applier_get_name(). Context: any thread.
 */
void applier_destroy(struct applier **a);

/* ---- a full sync ------------------------------------------------------------------------- */

/*
 * A full sync begins: flush everything. Until applier_end_full() the backlog's history has no
 * id, so no partial sync can continue from an incomplete full sync; its epoch stays. The caller
 * has dropped the readers of the backlog (shipper_drop_all()). APPLIER_OK, APPLIER_NO_MEMORY.
 */
enum applier_result applier_begin_full(struct applier *a);

/*
 * Read and apply what fullsync_run() writes. `read` is called with strictly consecutive offsets
 * from 0 on, and returns 0 once at the end. APPLIER_OK: it ended where a block would begin.
 * BAD, CUT: *fault has details. Stored items stay until the next applier_begin_full(). They may
 * be older than those of other replicas, so they are neither served nor promoted.
 */
enum applier_result applier_run_full(struct applier *a, snap_read_fn read, void *arg,
                                     struct snap_fault *fault);

/* The full sync was complete. name: the primary's, with the offset M of the mark. */
void applier_end_full(struct applier *a, const struct backlog_name *name);

/* ---- the stream -------------------------------------------------------------------------- */

/*
 * Take the next n bytes of the stream. Each complete block is checked, applied, and then
 * appended to the backlog; the rest is kept for the next call. After APPLIER_BAD and
 * APPLIER_STOPPED the rest is dropped, as by applier_cut(). A damaged block has changed
 * nothing.
 */
enum applier_result applier_take(struct applier *a, const char *bytes, size_t n);

/* The offset up to which the stream is applied. Context: any thread. */
uint64_t applier_offset(const struct applier *a);

/*
 * The last applied offset that is not within a value in parts. A replica to which this one has
 * sent all items (fullsync.h) can continue from there. Context: any thread.
 */
uint64_t applier_mark(const struct applier *a);

/*
 * The link was cut: drop the part of a block that was received. A value in parts whose first
 * blocks were applied stays unfinished, to be continued by a partial sync.
 */
void applier_cut(struct applier *a);

/*
 * The name and offset from which to continue if this process ends now: those of the backlog, or
 * the beginning of the value in parts that is being received.
 */
void applier_get_name(struct applier *a, struct backlog_name *name);

/*
 * Stop following the primary, as before a promotion. The value in parts that is being received
 * is dropped, and its key removed. Replicas of this one do the same at the ID block.
 */
void applier_leave(struct applier *a);

/* ---- outside the stream ------------------------------------------------------------------ */

/*
 * Set the number to add to a time of the engine's clock to get a time of the stream. 0 at
 * first. A change takes effect with the next block. Context: any thread.
 */
void applier_set_scale(struct applier *a, int64_t to_unix_ms);

/* Counts of applied changes since applier_create(). Context: any thread. */
void applier_counts(const struct applier *a, struct apply_counts *counts);

/*
 * The highest cas that was stored: values that the engine draws after a promotion come after
 * it. Context: any thread.
 */
uint64_t applier_cas_max(const struct applier *a);

#endif
