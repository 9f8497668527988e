/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The logs (keylog.h) of a snapshot: their names, and the set of keys in all of them, so that
 * loading the snapshot can skip those keys.
 *
 * A log that is missing, is damaged or belongs to another chain is a fault. Only the last log
 * may have a torn end (torn.c), which is cut off at its first hole. The last log is always
 * fsynced, so that it is complete when a later log follows it.
 */
#ifndef MAYFLY_LIB_LOG_KEYCHAIN_H
#define MAYFLY_LIB_LOG_KEYCHAIN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/format/decode.h"
#include "lib/format/fault.h"
#include "lib/format/format.h"
#include "lib/format/io.h"
#include "lib/log/keyset.h"

#define KEYCHAIN_NAME_MAX 256

/* The name of a log. False: it is too long. Context: any thread, as for all of these. */
bool keychain_name(char out[KEYCHAIN_NAME_MAX], const char *base, uint64_t number);

/* Is it the name of a log, of any base? Context: as above. */
bool keychain_is_name(const char *name);

/*
 * Find the logs of a base: the highest number (0: there are none) and their count. Returns 0 or
 * an errno.
 */
int keychain_find(const char *dir, const char *base, uint64_t *highest, uint64_t *count);

/*
 * Remove all logs with a number less than `below`, and temporary files of logs that were being
 * created. It is harmless if a crash leaves some of them. Returns 0 or an errno.
 */
int keychain_remove(const struct io_calls *io, const char *dir, const char *base,
                    uint64_t below);

/*
 * Rename all logs of one base to those of another, durably, with the same numbers. Stops at the
 * first failure. Returns 0 or an errno.
 */
int keychain_rename(const struct io_calls *io, const char *dir, const char *base,
                    const char *to);

enum keychain_end {
    KEYCHAIN_DONE,
    KEYCHAIN_MISSING, /* the log `number` and all later ones are missing */
    KEYCHAIN_FOREIGN, /* the log `number` belongs to another snapshot */
    KEYCHAIN_BAD,     /* the log `number` is damaged: fault */
    KEYCHAIN_NO_MEMORY,
};

struct keychain {
    /* set by the caller */
    const struct io_calls *io; /* [borrowed] */
    const char *dir, *base;    /* [borrowed] */
    bool may_cut;              /* the last log may have a torn end */
    /* out */
    struct keyset set;    /* keychain_fini() releases it */
    uint64_t first;       /* number of the first log */
    uint64_t number;      /* of the last log, or of the one at fault; 0: there are none */
    uint64_t logs;        /* number of logs read */
    uint64_t bytes, keys; /* of all logs; a key may count several times */
    uint64_t states;      /* records of states, of items or of absent keys */
    uint64_t last_keys;   /* number of the last log with keys; 0: none */
    bool has_states;      /* there are records of states or flushes */
    int64_t unix_ms;      /* latest time in any block; items due by then were removed; 0:
                             none */
    uint64_t cut_bytes;   /* bytes cut off the end of the last log */
    bool is_sealed;       /* the last log was closed cleanly by its writer */
    struct snap_fault fault;
};

/*
 * Read the logs of a snapshot with this header. Their keys are added to the set. Records of
 * states are only checked; the caller loads them after the snapshot (lib/snapshot/load.h). Keys
 * in the set must not be loaded from the snapshot, nor from logs up to last_keys. Call
 * keychain_fini() whatever this returns.
 */
enum keychain_end keychain_read(struct keychain *c, const struct snap_header *h);

/* The path of a log. False: it is too long. */
bool keychain_path(const struct keychain *c, uint64_t number, char out[PATH_MAX]);
void keychain_fini(struct keychain *c);

/* ---- torn.c ------------------------------------------------------------------------------ */

/*
 * The torn end of a log. Either its writer was killed within a block, or the machine lost
 * power, and the disk has an arbitrary subset of the pages that no fsync had covered. Damage is
 * different: data that an fsync had made durable is missing.
 *
 * The good blocks after the hole tell these apart. Each tells how much was durable before it
 * was written (lib/format/format.h), and it was written after that fsync had returned. A block
 * is valid only in its own file, by a checksum that cannot be computed without reading the
 * file, so a value stored by a client is never taken for a block.
 */

/*
 * A log, which is the last one, was read up to this fault: does its torn end begin there? False
 * if that cannot be decided, because memory is short or the disk fails. Context: any thread.
 */
bool torn_is_end(const struct snap_reader *r, struct snap_opener *o,
                 const struct snap_fault *fault);

#endif
