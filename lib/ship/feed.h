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
     * complete() is called again and again until it wants no more, also while changes come.
     * What was changed before one call has been shipped by the next; the first one comes when
     * the walk is over, and what was changed before that is shipped.
     */
    bool completes_often;
    bool knows_expiry;     /* expired items have no records: the sink goes by deadlines */
    uint32_t overruns_max; /* this number of overruns ends it; 0: no limit */
};

/* How far it is. The counts are those of struct walk and of struct stream. */
struct feed_info {
    bool is_walking;
    bool is_complete;                /* the walk is over, and what changed meanwhile shipped */
    bool is_over;                    /* the sink wants no more */
    uint64_t keys_shipped, keys_all; /* by the walk */
    uint64_t records, records_shipped;
    uint64_t lag_bytes; /* bytes of unshipped records: see stream_lag() */
    uint64_t begun;     /* walks: 1, and one for each overrun and each flush while one begins */
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
