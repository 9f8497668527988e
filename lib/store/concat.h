/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append and prepend: in a block or as a copy (concat.c), to a large value (extend.c), of a
 * long addition to a short value (join.c). splice.h has what the last two share.
 */
#ifndef MAYFLY_LIB_STORE_CONCAT_H
#define MAYFLY_LIB_STORE_CONCAT_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/store/find.h"
#include "lib/store/store.h"

/* STORED NOT_STORED EXISTS TOO_LARGE NO_MEMORY WAIT. Context: read side, no shard held. */
enum outcome store_concat(struct engine *e, struct store *st, msec_t now);

/* ---- extend.c ---------------------------------------------------------------------------- */

/*
 * append and prepend to large values without copying them: the new item shares the whole
 * segments of the old one. The addition is put in the free part of the segment at that end, and
 * in more segments. A long addition is not copied either: its segments become part of the
 * value. So the work depends on the addition only, at most EXTEND_SEGMENTS segments (splice.h),
 * not on the length of the value.
 */

/*
 * Append or prepend to a large item that is there. The outcomes of engine_store(), with
 * TOO_LARGE judged by bytes_max; or OUT_MISS: it cannot be done this way, or the item has gone.
 * A body that was joined is gone; otherwise it is left as it is. Context: read side, no shard
 * held.
 */
enum outcome store_extend(struct engine *e, struct store *st, uint64_t bytes_max, msec_t now);

/* ---- join.c ------------------------------------------------------------------------------ */

/*
 * append and prepend of a long value to a short one: the segments in which the addition was
 * received become segments of the new value, and the old value is copied to segments before or
 * after them.
 */

/*
 * Append or prepend an addition that store_joins() to an item with less than EXTEND_SEGMENTS:
 * the item is copied, the addition is not. The outcomes of engine_store(); or OUT_MISS: the
 * item has changed meanwhile. A body that was joined is gone; otherwise it is left as it is.
 * Context: read side, no shard held.
 */
enum outcome store_join(struct engine *e, struct store *st, const struct found *old,
                        msec_t now);

#endif
