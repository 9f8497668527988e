/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands under the name of the snapshot's file, and may be loaded at the next start. A
 * save puts a new file there; a flush, or a gap of the log, has it removed, and makes what is
 * being written void. Each such event begins an epoch; a file has that in which its save began.
 * If the log has flushes as well, the file stays.
 *
 * A file that cannot be removed is void: a crash would bring back what it has. The removal is
 * tried again each second; meanwhile no log is begun, and with appendfsync=always changes are
 * refused.
 *
 * A flush may only be answered when the disk has forgotten the file, or has it in the log. A
 * thread does that, so no worker waits; not the thread of the saves, which may be in a long
 * one.
 */
#ifndef MAYFLY_DAEMON_WORKER_SNAPSHOT_FILE_H
#define MAYFLY_DAEMON_WORKER_SNAPSHOT_FILE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/worker/append.h"
#include "daemon/worker/base_file.h"
#include "lib/base/thread.h"

/* Who waits for a save, or a flush: on the heap, of the asker's; a thread posts it back. */
struct snapshots_ask {
    struct message answer; /* [const] its fn releases it */
    struct mailbox *to;    /* [borrowed] */
    struct snapshots_ask *next;
    bool is_done; /* out */
};

/* Post them all back. Context: whoever has them. */
void snapshots_answer(struct snapshots_ask *asks, bool is_done);

struct snapshot_file {
    const char *dir, *name; /* [const] [borrowed] */
    const char *path;       /* [const] [borrowed] for messages */
    struct append *append;  /* [const] [borrowed] the log that belongs to it */
    struct base_file base;

    struct thread thread;
    pthread_mutex_t mutex; /* a leaf; the rest is under it */
    pthread_cond_t changed;
    bool wants_removal, is_removing;
    bool must_go;                  /* the log has not all of these flushes */
    bool is_abandoned;             /* nobody can be answered later any more */
    bool is_ending;                /* the thread ends when there is nothing to do */
    struct snapshots_ask *asks;    /* answered after the removal that begins next */
    struct snapshots_ask *current; /* after the one under way */
};

/* There may be a file. Context: main. */
void snapshot_file_init(struct snapshot_file *f, const char *dir, const char *name,
                        const char *path, struct append *append);

/* Make the thread. False: the system does not. Context: main. */
bool snapshot_file_start(struct snapshot_file *f);

/*
 * The server stops. Who waits is told that the file is still there, if the disk takes long.
 * Context: main, while the workers run.
 */
void snapshot_file_abandon(struct snapshot_file *f);

/* Remove what is to be removed, and end the thread. Context: main, after workers and saves. */
void snapshot_file_stop(struct snapshot_file *f);

/* Nobody uses it any more. Context: main, after the log. */
void snapshot_file_fini(struct snapshot_file *f);

/* ---- saves ------------------------------------------------------------------------------- */

/* The epoch it is; is what was begun in this one void? Context: any thread. */
static inline uint64_t snapshot_file_epoch(struct snapshot_file *f)
{
    return atomic_load(&f->base.now);
}

static inline bool snapshot_file_is_void(struct snapshot_file *f, uint64_t epoch)
{
    return snapshot_file_epoch(f) != epoch;
}

/*
 * A file that was begun in this epoch is about to get the name. False: it must not; otherwise
 * snapshot_file_named() follows: does it have the name, durably? Context: the thread of saves.
 */
bool snapshot_file_name(struct snapshot_file *f, uint64_t epoch);
void snapshot_file_named(struct snapshot_file *f, uint64_t epoch, bool is_named);

/* A file that is there was not loaded to its end: no save may replace it. Context: so. */
void snapshot_file_keep(struct snapshot_file *f);

/* ---- removals ---------------------------------------------------------------------------- */

/*
 * What there is must not be loaded any more, nor what is being written: remove it. Takes the
 * disk's time. Returns an errno. Context: any thread, outside a section.
 */
int snapshot_file_remove(struct snapshot_file *f);

/*
 * Before a log is begun: the same if there is a void file, or one whose log has a gap.
 * Otherwise nothing is done. Context: the thread of saves.
 */
int snapshot_file_clear(struct snapshot_file *f);

enum snapshots_removal {
    SNAPSHOTS_REMOVED, /* or the log has it */
    SNAPSHOTS_LATER,   /* ask is posted back when it is */
    SNAPSHOTS_KEPT,    /* it could not be removed; that was logged */
};

/*
 * The same because of a flush, by the thread. ask remains the caller's unless it is done
 * later. Context: any thread.
 */
enum snapshots_removal snapshot_file_flush(struct snapshot_file *f, struct snapshots_ask *ask);

#endif
