/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/log: logs of changes since a snapshot.
 *
 *     keylog       the log and its threads; keylog_write.c has the writer and the syncer
 *     logfill      the reader: encodes changes to blocks
 *     logfile      one file being written
 *     keyset       set of the logged keys, for loading
 *     keychain     all logs of a snapshot, read into a keyset
 *     torn         the end of the last log after a crash or a loss of power
 *
 * The folder is above lib/format and below lib/snapshot, which reads the logs when it loads.
 *
 * A log of changes since a snapshot. It has one of two contents:
 *
 *     keys      keys whose items in the snapshot are out of date. Loading skips these keys, so
 *               no item comes back that was overwritten, deleted, evicted, has expired, or has
 *               got another deadline since. A key is a 64-bit hash. If two keys have the same
 *               hash, both are skipped: that costs a miss.
 *     states    for each changed key its state when the log was written (an item as in a
 *               snapshot, or absent), and flushes. Loading the snapshot and then its logs in
 *               order restores everything.
 *
 * Files. The snapshot is the base. Its header has the number of its first log, which was begun
 * before the snapshot was. Logs are named after the base, BASE.log.N. Each is complete or
 * breaks off at its end, and each is durable before anything depends on it. Renaming a new base
 * to its name replaces the old base and its list of logs at once. Logs before the first one are
 * removed afterwards.
 *
 *     keylog_rotate()    begin a new log; every later change is in it
 *     ... a snapshot is saved and renamed ...
 *     keychain_remove()  remove the logs that only the old base needed
 *
 * Threads. The reader copies the rings of changes to a buffer. The writer writes the buffer to
 * the file and makes it durable. A third thread does the fsync of each second. Changes do not
 * wait for these threads, unless the caller asks for that (keylog_ask()). If the buffer and
 * then a ring overflow, or the file cannot be written, keys are missing from the log (a gap).
 * on_gap() must then ensure that the base is never loaded. Until the base is gone
 * (keylog_forget()) the log is void: no log can be begun, and with KEYLOG_SYNC_ALWAYS no ticket
 * is done.
 */
#ifndef MAYFLY_LIB_LOG_KEYLOG_H
#define MAYFLY_LIB_LOG_KEYLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/format/io.h"

struct engine;
struct keylog;

enum keylog_mode {
    KEYLOG_KEYS,
    KEYLOG_FULL, /* states */
};

enum keylog_sync {
    KEYLOG_SYNC_NO,       /* left to the system */
    KEYLOG_SYNC_EVERYSEC, /* once a second, if there is anything */
    KEYLOG_SYNC_ALWAYS,   /* for callers of keylog_ask() */
};

#define KEYLOG_GAP_FLUSH (-1)

struct keylog_config {
    struct engine *engine;     /* [borrowed] */
    const struct io_calls *io; /* [borrowed] */
    const char *dir, *base;    /* [borrowed] */
    int64_t base_offset_ms;    /* see keylog_base(); 0: there is no base */
    /*
     * Keys are missing from the log. error: an errno, 0 if changes came too fast, or
     * KEYLOG_GAP_FLUSH if a flush was in progress when the log was started. Nothing is logged
     * until the next keylog_rotate(). Call keylog_forget() once the base is removed. Context: a
     * thread of the log; it may wait.
     */
    void (*on_gap)(void *arg, int error);
    /* A write or an fsync took this many ms. Context: as above. */
    void (*on_slow)(void *arg, uint64_t ms);
    /*
     * A log of states has fallen behind the changes (true), or has caught up. While it is
     * behind, each thread that changes anything must call keylog_ask() and wait. Context: as
     * above.
     */
    void (*on_behind)(void *arg, bool is_behind);
    /* More tickets are done: see keylog_is_done(). Context: as above. */
    void (*on_done)(void *arg);
    void *arg; /* [borrowed] */
};

/* A write or an fsync that takes longer, in milliseconds, counts as slow. */
#define KEYLOG_SLOW_MS 2000

/*
 * Start the threads; nothing is logged until keylog_rotate(). MF_ENOMEM; MF_ESYS. Context: any
 * thread.
 */
enum mf_err keylog_start(struct keylog **l, const struct keylog_config *cfg,
                         enum keylog_sync sync);

/*
 * Write the rest, make it durable, end the threads and null the pointer; accepts NULL.
 * Context: any thread, outside a section and a shard; before engine_stop(). Changes made
 * meanwhile by other threads may be lost.
 */
void keylog_stop(struct keylog **l);

/* Context: any thread, as for the rest. */
void keylog_set_sync(struct keylog *l, enum keylog_sync sync);

/*
 * Begin a log. When this returns, all later changes are in it; earlier ones are in it or in the
 * log that was open. epoch: see keylog_forget(). Returns 0 or an errno. On an error the log
 * that was open continues; EBUSY: the log is void. Waits for the disk. Context: one thread at a
 * time, outside a section and a shard.
 */
int keylog_rotate(struct keylog *l, enum keylog_mode mode, uint64_t chain, uint64_t number,
                  uint64_t epoch);

/*
 * All bases of epochs before this one are removed, so they need no log. If the log was begun
 * for one of them, it is closed, even if it was void.
 */
void keylog_forget(struct keylog *l, uint64_t epoch);

/*
 * The base of the last rotation was renamed to its name. offset_ms is the number that was added
 * to the deadlines in it to convert them to Unix time (save.to_unix_ms).
 * LOGFILL_OFFSET_UNKNOWN: it is not known, so each expired item gets a record until the next
 * base.
 */
void keylog_base(struct keylog *l, int64_t offset_ms);

/*
 * A base that must not be loaded could not be removed. Unless its log is open, the log becomes
 * void, as after a gap.
 */
void keylog_void(struct keylog *l);
bool keylog_is_void(struct keylog *l);

/* Is a log open, and without a gap so far? */
bool keylog_is_on(struct keylog *l);

/* ---- waiting until a change is in the log ------------------------------------------------ */

/*
 * Returns a ticket for all changes that the caller has made so far; 0: no wait is needed. The
 * ticket is done when these changes are synced (KEYLOG_SYNC_ALWAYS) or in the file (other
 * policies), or when no base that needs them exists.
 */
uint64_t keylog_ask(struct keylog *l);
bool keylog_is_done(const struct keylog *l, uint64_t ticket);

/*
 * Wait until all changes made before the call are on the disk, whatever the policy. False:
 * there was a gap, or no log is open. Context: outside a section and a shard.
 */
bool keylog_make_durable(struct keylog *l);

/* ---- figures ----------------------------------------------------------------------------- */

struct keylog_info {
    bool is_on;
    bool was_good;          /* the last write or fsync has succeeded */
    uint64_t number;        /* of the log */
    uint64_t bytes;         /* of this log */
    uint64_t keys;          /* keys or states written since the start */
    uint64_t all_bytes;     /* of all logs since the start */
    uint64_t waiting_bytes; /* of changes not yet in the file */
    uint64_t unsynced;      /* bytes that are not durable */
    uint64_t gaps;
    uint64_t slow;   /* number of slow writes and fsyncs */
    uint64_t behind; /* times that the log has fallen behind: see on_behind */
};

void keylog_look(struct keylog *l, struct keylog_info *info);

#endif
