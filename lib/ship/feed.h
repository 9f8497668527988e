/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeding a sink: a thread that ships all items by a walk, and from its start on all changes by
 * a stream. When it has caught up, the sink has the same items as the engine.
 *
 * The engine has one thread for feeds, created at its start, so only one feed runs at a time.
 * The sink's callbacks run on this thread (ship.h). It sleeps while nothing changes.
 */
#ifndef MAYFLY_LIB_SHIP_FEED_H
#define MAYFLY_LIB_SHIP_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/ship/ship.h"

struct engine;
struct feed;

struct feed_config {
    const struct ship_ops *ops; /* [borrowed] with all callbacks */
    void *arg;                  /* [borrowed] */
    /*
     * complete() is called repeatedly until it returns false, also while changes continue. The
     * first call comes when the walk is complete and the changes made before its end are
     * shipped. Changes made before one call are shipped before the next.
     */
    bool completes_often;
    bool knows_expiry;     /* the sink expires items by deadline: they need no records */
    uint32_t overruns_max; /* number of overruns that ends the feed; 0: no limit */
};

/* Progress. The counts are those of struct walk and of struct stream. */
struct feed_info {
    bool is_walking;
    bool is_complete;                /* the walk and the changes made meanwhile are shipped */
    bool is_over;                    /* the sink has ended the feed */
    uint64_t keys_shipped, keys_all; /* by the walk */
    uint64_t records, records_shipped;
    uint64_t lag_bytes; /* bytes of unshipped records: see stream_lag() */
    uint64_t begun;     /* walks begun: 1, and one for each overrun, or flush as one begins */
    uint64_t overruns;  /* of the rings: changes came faster than they were shipped */
    uint64_t left_out;
};

/*
 * Begin to feed. MF_ENOMEM; MF_EBUSY: another feed has not ended. Context: registered thread,
 * outside a section.
 */
enum mf_err feed_start(struct feed **f, struct engine *e, const struct feed_config *cfg);

/*
 * End it, after the callback that runs, and release it; takes the address and nulls it.
 * Accepts NULL. Context: any thread, outside a section and a shard; before engine_stop().
 */
void feed_stop(struct feed **f);

/* Context: any thread. */
void feed_info(const struct feed *f, struct feed_info *info);

#endif
