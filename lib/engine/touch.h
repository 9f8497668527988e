/* SPDX-License-Identifier: BSD-3-Clause */
/* New deadlines for items that otherwise stay as they are. */
#ifndef MAYFLY_LIB_ENGINE_TOUCH_H
#define MAYFLY_LIB_ENGINE_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/engine/find.h"

struct remake;
struct visit;

/*
 * Give an item a new deadline (MSEC_NEVER: none; at or before now: it is gone at once).
 * TOUCHED: found is filled in as by engine_find(). NOT_FOUND, NO_MEMORY, WAIT. Context: read
 * side, no shard held.
 */
enum outcome engine_touch(struct engine *e, uint64_t hash, struct span key, msec_t deadline,
                          msec_t now, bool may_wait, struct found *found);

/*
 * Give the found item a deadline. OUT_TOUCHED: the visit has the item, which was unlinked if
 * the deadline has passed. Otherwise as remake_block(), with *r filled in for it. Context: in
 * shard.
 */
enum outcome touch_found(struct visit *v, msec_t deadline, bool may_wait, struct remake *r);

#endif
