/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Full sync, on the primary: all items are sent to one replica, as a log of states
 * (lib/format/format.h, SNAP_IS_LOG, without an END), while requests run. Only one block is
 * buffered.
 *
 * A feed (lib/ship/feed.h) ships all items by a walk, and meanwhile all changes. When both
 * are done, a mark M is placed in the backlog, and a reader is attached there at once. Changes
 * made before M are still shipped by the feed, which then ends. So the backlog need not hold
 * the changes made during the walk. The last states shipped may be newer than the stream just
 * after M. A second mark S is placed after the last of them: at S the stream has caught up.
 *
 * If changes come faster than they can be shipped, they overrun the rings. Then the walk
 * restarts, and a FLUSH block tells the replica to drop what it has. After
 * FULLSYNC_OVERRUNS_MAX overruns the sync is LOST, so that it always ends. A flush restarts the
 * walk too, but does not count as an overrun.
 */
#ifndef MAYFLY_LIB_REPLICA_FULLSYNC_H
#define MAYFLY_LIB_REPLICA_FULLSYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/format/encode.h"
#include "lib/replica/shipper.h"

struct applier;
struct engine;

#define FULLSYNC_OVERRUNS_MAX 3u

/* Memory of a sync, counted in the budget: one block. */
#define FULLSYNC_BYTES ((int64_t)SNAP_ROOM_BYTES)

enum fullsync_end {
    FULLSYNC_DONE,
    FULLSYNC_STOPPED,     /* is_to_stop was set */
    FULLSYNC_CLIENT_GONE, /* write() has failed */
    FULLSYNC_BUSY,        /* another feed has not ended, or SHIPPER_READERS_MAX are attached */
    FULLSYNC_NO_MEMORY,
    FULLSYNC_LOST, /* changes came faster than they could be shipped, or are not recorded */
};

struct fullsync {
    /* set by the caller; the rest is zero */
    struct engine *engine;   /* [borrowed] */
    struct shipper *shipper; /* [borrowed] must be recording, unless there is an applier */
    /*
     * [borrowed] of a replica, whose shipper records nothing: marks are at the offset it has
     * applied; NULL: this is a primary.
     */
    const struct applier *applier;
    /*
     * Receives bytes in order; may block until the client has read them. Returns false if the
     * client has disconnected, or to stop a sync whose client reads nothing. Called on the
     * engine's thread for feeds, outside sections.
     */
    snap_write_fn write;
    void *write_arg;           /* [borrowed] */
    int64_t to_unix_ms;        /* as in struct shipper_role */
    _Atomic bool is_to_stop;   /* may be set at any time, by any thread */
    _Atomic uint64_t rate_max; /* bytes a second; 0: no limit. May change meanwhile. */
    /* [atomic] progress */
    _Atomic uint64_t items, items_total; /* walked, and about how many there are */
    _Atomic uint64_t bytes;              /* written */
    _Atomic uint64_t walks; /* begun: 1, and one for each overrun and some flushes */
    /* out, with FULLSYNC_DONE */
    uint64_t offset;     /* M: the replica continues from there */
    uint64_t serve_from; /* S: the replica serves requests once it has applied up to there */
    uint64_t left_out;   /* large values that were not sent: too much memory is pinned */
    struct shipper_reader *reader; /* at M; the caller owns it from then on */
};

/*
 * Send everything; may take minutes. The bytes begin with a snapshot's header. Another replica
 * that is slow holds up the marks, but not for long: see shipper_hurry(). Context: a registered
 * thread, outside a section.
 */
enum fullsync_end fullsync_run(struct fullsync *s);

#endif
