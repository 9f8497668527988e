/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing the items of a snapshot, of its logs or of a primary in an engine. Items are stored
 * in batches so that their cache misses overlap. Large values are stored part by part as their
 * bytes arrive. If there is no room, the caller's thread waits for the reclaimer. Each item
 * keeps its cas, flags, marks, heat and deadline. Expired items are skipped, unless they come
 * from a primary.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_APPLY_H
#define MAYFLY_LIB_SNAPSHOT_APPLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/format/encode.h"
#include "lib/format/scan.h"
#include "lib/memory/item.h"

struct body;
struct engine;
struct keyset;

/* Items that are stored in one section. */
#define APPLY_BATCH 32

enum apply_mode {
    APPLY_ITEMS,  /* an item that is present already stays */
    APPLY_STATES, /* each replaces the key's item; if it cannot be stored, the key is removed */
    /*
     * The same from a primary. Due items are stored too, because the primary decides when they
     * expire. is_stopped() only ends waits for room, so that no block is left half applied.
     */
    APPLY_FOLLOWS,
};

/* For statistics; several struct apply may share it. [atomic] */
struct apply_counts {
    _Atomic uint64_t items;   /* stored, with APPLY_ITEMS */
    _Atomic uint64_t states;  /* stored or removed, with the other modes */
    _Atomic uint64_t expired; /* not stored, because they are due */
    _Atomic uint64_t refused; /* not stored, because they are too large or there is no room */
    _Atomic uint64_t changed; /* not stored, because their keys are in `dropped` */
};

struct apply {
    /* set by the caller; the rest is zero */
    struct engine *engine;       /* [borrowed] */
    struct apply_counts *counts; /* [borrowed] */
    enum apply_mode mode;
    bool marks_stale; /* all are stored as stale: the first client that gets one may renew it */
    /* APPLY_STATES: a key that is present keeps its heat and last access, as on a replica. */
    bool keeps_use;
    int64_t to_unix_ms;           /* added to a time of the engine */
    const struct keyset *dropped; /* [borrowed] keys that are not stored; NULL: none */
    bool (*is_stopped)(void *arg);
    /* Called regularly to do the upkeep of shards; NULL: workers do it. */
    void (*keep_up)(void *arg, msec_t now);
    void *arg; /* [borrowed] of both */
    /* out */
    uint64_t cas_max; /* of stored items; without values that only clients can have chosen */
    /* its own */
    msec_t now;
    /* a batch: spans lie in the block that is open */
    unsigned n;
    uint64_t hash[APPLY_BATCH];
    struct snap_item item[APPLY_BATCH];
    /* a value in parts */
    struct body *body;
    struct snap_item large;
    char key[ITEM_KEY_MAX];
    bool is_passed_over; /* its parts are skipped */
};

/*
 * A sink for the items and values of a scan. The caller sets flush and block, and calls
 * apply_rest() at the end of each block. Context: as scan_run().
 */
struct scan_sink apply_sink(struct apply *a);

/* Store the batch. Context: a registered thread, outside a section; as the next. */
void apply_rest(struct apply *a);

/*
 * Apply a flush_all found at this place of the input. Returns false if there was no room for
 * its bookkeeping for too long.
 */
bool apply_flush(struct apply *a);

/*
 * With APPLY_FOLLOWS: apply a FLUSH block. It says that a flush took place here (0), or that
 * everything stored before an instant will be flushed then, replacing an earlier such instant.
 * False: as above.
 */
bool apply_flush_at(struct apply *a, int64_t at_unix_ms);

/*
 * Flush all items with this prefix that were stored so far. Waits while too many prefixes are
 * being flushed. False: no memory, or stopped.
 */
bool apply_flush_prefix(struct apply *a, struct span prefix);

#endif
