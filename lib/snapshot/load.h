/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading a snapshot file into an engine, by several threads, block by block. The engine is
 * either not in use yet, or serves requests meanwhile ("beside requests"). Expired items are
 * not loaded. A key that is present already keeps its item. While requests are served, a key
 * that was deleted, has expired, or was evicted or flushed since the start is not loaded.
 *
 * Logs of states (lib/log/keychain.h) are loaded after the snapshot, in order, by one thread.
 * Each state replaces the previous one of its key. If a state cannot be stored, the key is
 * removed, so that no older state remains.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_LOAD_H
#define MAYFLY_LIB_SNAPSHOT_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/engine/guarding.h"
#include "lib/format/load_file.h"
#include "lib/snapshot/apply.h"

struct engine;
struct keychain;

enum load_end {
    LOAD_DONE,
    LOAD_BAD,       /* see load.fault; items loaded before the fault stay */
    LOAD_STOPPED,   /* is_to_stop was set */
    LOAD_FLUSHED,   /* beside requests: everything was flushed meanwhile; no item remains */
    LOAD_NO_MEMORY, /* no memory for the work itself */
};

struct load {
    /* set by the caller before load_run() */
    struct engine *engine;  /* [borrowed] */
    struct load_file *file; /* [borrowed] */
    unsigned threads;       /* the caller's is one of them */
    bool marks_stale;       /* all items are loaded as stale: the first client that gets one may
                               renew it */
    bool is_beside;         /* requests run meanwhile: set by load_beside() */
    struct guard guard;     /* if is_beside; .turned: items not loaded, see lib/shard/guard.h */
    const struct keychain *chain; /* [borrowed] its logs; not beside requests; NULL: none */
    int64_t unix_floor_ms;        /* latest time in the logs: the present is at least that */
    /* [atomic] progress, for other threads */
    _Atomic uint64_t bytes; /* of the file, done */
    struct apply_counts counts;
    _Atomic bool is_to_stop;
    /* out */
    struct snap_fault fault;
    int64_t behind_ms; /* lag of the wall clock relative to the latest time in the file and its
                          logs */
    /* of load_run() */
    int64_t to_unix_ms;     /* added to a time of the engine */
    pthread_mutex_t upkeep; /* held while flushing or doing what home workers do otherwise */
    msec_t flush_at;        /* time of the flush that it has scheduled; MSEC_NEVER: none */
    int64_t flush_unix_ms;  /* time of the pending flush read so far; INT64_MAX: none */
};

/*
 * Prepare a load beside requests; call it before the first request. From then on deleted keys
 * are recorded, and new cas values are higher than any in the file. Returns false without
 * memory, or if another such load runs. Otherwise load_run() must follow. Context: any thread,
 * outside a section.
 */
bool load_beside(struct load *l);

/*
 * Load. A pending flush in the file is scheduled, or carried out if it is due. Context: a
 * registered thread, outside a section; unless load_beside() was called, no other thread writes
 * to the engine.
 */
enum load_end load_run(struct load *l);

/*
 * After the load: if the file or a log had a pending flush, schedule it once more, so that a
 * log that was begun since records it too. Otherwise a later load would treat items stored from
 * now on as older than the flush. Returns false if there is no memory for it: that log then
 * lacks the flush. Context: as above.
 */
bool load_flush_again(const struct load *l);

#endif
