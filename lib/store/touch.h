/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting new deadlines of items. */
#ifndef MAYFLY_LIB_STORE_TOUCH_H
#define MAYFLY_LIB_STORE_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/store/find.h"

struct remake;
struct visit;

/*
 * Set a new deadline of an item (MSEC_NEVER: none; at or before now: it expires at once).
 * TOUCHED: found is filled in as by engine_find(). NOT_FOUND, NO_MEMORY, WAIT. Context: read
 * side, no shard held.
 */
enum outcome engine_touch(struct engine *e, uint64_t hash, struct span key, msec_t deadline,
                          msec_t now, bool may_wait, struct found *found);

/* A deadline that an item gets only under some conditions. */
struct deadline_change {
    msec_t deadline; /* as in engine_touch() */
    bool if_endless;
    bool if_volatile;
    bool if_later; /* than the present one; no deadline counts as the latest */
    bool if_earlier;
    bool may_wait;
};

/*
 * engine_touch() if all conditions hold. NOT_STORED if one does not: the item exists and is not
 * changed. Context: read side, no shard held.
 */
enum outcome engine_touch_if(struct engine *e, uint64_t hash, struct span key,
                             const struct deadline_change *change, msec_t now,
                             struct found *found);

/*
 * Give the found item a deadline. OUT_TOUCHED: the visit has the item, which was unlinked if
 * the deadline has passed. Otherwise as remake_block(), with *r filled in for it. Context: in
 * shard.
 */
enum outcome touch_found(struct visit *v, msec_t deadline, bool may_wait, struct remake *r);

#endif
