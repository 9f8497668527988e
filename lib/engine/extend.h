/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append and prepend to large values without copying them: the new item shares the whole
 * segments of the old one. The addition is put in the free part of the segment at that end, and
 * in more segments. A long addition is not copied either: its segments become part of the
 * value. So the work depends on the addition only, at most EXTEND_SEGMENTS segments (splice.h),
 * not on the length of the value.
 */
#ifndef MAYFLY_LIB_ENGINE_EXTEND_H
#define MAYFLY_LIB_ENGINE_EXTEND_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/engine/store.h"

/*
 * Append or prepend to a large item that is there. The outcomes of engine_store(), with
 * TOO_LARGE judged by bytes_max; or OUT_MISS: it cannot be done this way, or the item has gone.
 * A body that was joined is gone; otherwise it is left as it is. Context: read side, no shard
 * held.
 */
enum outcome store_extend(struct engine *e, struct store *st, uint64_t bytes_max, msec_t now);

#endif
