/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The base: the file under the snapshot's name, which the next start loads, and its log. This
 * record tells the kind of content of both. snapshots_flush.c describes when the kind changes.
 *
 * Each flush, and each gap of the log, begins an epoch. A file belongs to the epoch in which
 * its save began. It must not be loaded in a later epoch.
 */
#ifndef MAYFLY_DAEMON_WORKER_BASE_FILE_H
#define MAYFLY_DAEMON_WORKER_BASE_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum base_kind {
    BASE_NONE,
    BASE_GOOD, /* there may be a file, and it may be loaded */
    BASE_VOID, /* there may be a file that must not be loaded and could not be removed yet */
    BASE_KEPT, /* there is one that was not loaded to its end; no save may replace it */
};

struct base_file {
    pthread_mutex_t naming; /* held while a file gets the name, or is removed */
    _Atomic uint32_t kind;  /* enum base_kind; written under naming */
    uint64_t epoch;         /* under naming: of the file, or an earlier one */
    _Atomic uint64_t now;   /* the current epoch */
    /* Written by the snapshots' thread. */
    _Atomic uint64_t bytes;   /* of the file */
    _Atomic int64_t log_mark; /* bytes of all logs when its save began */
    /*
     * enum append_mode: what the log has of each change since the save of the base began;
     * APPEND_OFF: the log began later. Meaningless while no log is open.
     */
    _Atomic uint32_t logged;
};

static inline enum base_kind base_file_kind(const struct base_file *b)
{
    return (enum base_kind)atomic_load(&b->kind);
}

#endif
