/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A walk over all items: each is shipped (ship.h), while requests run. It takes no lock and
 * costs writers nothing: linked items do not change, and unlinked ones stay readable until the
 * section ends.
 *
 * The result is not a snapshot of one instant, but it is correct for each key. A key that is
 * present all the time is shipped at least once, with a state that it had during the walk. If
 * it is shipped again, the later state is the newer one. A key that was added, changed or
 * removed meanwhile is shipped in one of its states, or not at all. Expired items are not
 * shipped.
 *
 * A flush during the walk invalidates what was shipped before it: see walk_was_flushed().
 *
 *     struct walk w;
 *
 *     (void)walk_begin(&w, engine, &ops, arg, NULL);
 *     while (walk_slice(&w)) {
 *     }
 *     done = w.state == WALK_DONE && !walk_was_flushed(&w);
 *     walk_end(&w);
 *
 * Slots do not move while the walk is in a shard, so it should finish a shard in bounded time.
 * Between two shards it yields to a waiting move (lib/engine/moves.h), and later visits the
 * slots that have moved meanwhile.
 */
#ifndef MAYFLY_LIB_SHIP_WALK_H
#define MAYFLY_LIB_SHIP_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/engine/engine.h"
#include "lib/shard/position.h"
#include "lib/ship/ship.h"

enum walk_state {
    WALK_GOES_ON,
    WALK_PAUSED, /* a move is running */
    WALK_DONE,
    WALK_REFUSED, /* rest() returned false */
};

struct walk {
    struct engine *engine; /* [borrowed] */
    struct ship ship;      /* .left_out: large values that are missing */
    enum walk_state state;
    /* where it is */
    struct position at;
    uint64_t resume;    /* items of the position with a lower hash were shipped */
    uint64_t positions; /* of the index, when the position was last read */
    unsigned pass;      /* enum walk_pass: see walk.c */
    bool has_paused;    /* slots may have moved meanwhile */
    /* as of its beginning */
    uint64_t flushes;
    uint16_t owner[ROUTE_SLOTS]; /* the shard of each slot, or a mark that it has moved since */
    /* [atomic] progress, for other threads */
    _Atomic uint64_t total;   /* number of items when it began */
    _Atomic uint64_t shipped; /* an item that is shipped twice counts twice */
    _Atomic uint64_t expired; /* not shipped because they were due */
};

/*
 * Begin; waits while slots move. Returns false if *stop was set meanwhile: then nothing has
 * begun, and walk_end() must not be called. stop NULL: the wait cannot be cancelled. ops and
 * arg are [borrowed] until walk_end(). Context: registered thread, outside a section and a
 * shard; the same thread for all later calls.
 */
bool walk_begin(struct walk *w, struct engine *e, const struct ship_ops *ops, void *arg,
                const _Atomic bool *stop);

/*
 * Ship the items at the next positions of the index, SHIP_BYTES or less, in one section; then
 * call rest() of the sink. While a move is running, wait for at most 20 ms instead. Returns
 * false at the end: see .state. Context: as walk_begin().
 */
bool walk_slice(struct walk *w);

/*
 * Was everything flushed since the walk began? Then it should be restarted. Context: as
 * walk_begin().
 */
bool walk_was_flushed(const struct walk *w);

/*
 * Has the walk passed the place of this hash in the shard? If not, it will visit items there.
 * Context: read side, on the thread of the walk.
 */
bool walk_passed(const struct walk *w, uint32_t shard, uint64_t hash);

/* End the walk, complete or not: slots may move again. Context: as walk_begin(), once. */
void walk_end(struct walk *w);

#endif
