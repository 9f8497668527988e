/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append and prepend of a long value to a short one: the segments in which the addition was
 * received become segments of the new value, and the old value is copied to segments before or
 * after them.
 */
#ifndef MAYFLY_LIB_ENGINE_JOIN_H
#define MAYFLY_LIB_ENGINE_JOIN_H

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/engine/find.h"
#include "lib/engine/store.h"

/*
 * Append or prepend an addition that store_joins() to an item with less than EXTEND_SEGMENTS:
 * the item is copied, the addition is not. The outcomes of engine_store(); or OUT_MISS: the
 * item has changed meanwhile. A body that was joined is gone; otherwise it is left as it is.
 * Context: read side, no shard held.
 */
enum outcome store_join(struct engine *e, struct store *st, const struct found *old,
                        msec_t now);

#endif
