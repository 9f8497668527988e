/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append and prepend without a copy of what is large: the new item shares the whole segments of
 * the old one. The addition goes to the free part of the segment at that end, and to more
 * segments; one that is long itself is not copied either, its segments become part of the
 * value. So the work is that of the addition, of at most EXTEND_SEGMENTS segments, whatever the
 * length of the value.
 */
#ifndef MAYFLY_LIB_ENGINE_EXTEND_H
#define MAYFLY_LIB_ENGINE_EXTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/engine/find.h"
#include "lib/engine/store.h"

/*
 * A value with at least so many segments is extended, and an addition with at least so many is
 * joined to it. Below that the bytes are copied, because each end and each joint may leave
 * nearly a segment unused: an eighth of the value or of the addition at most.
 */
#define EXTEND_SEGMENTS 8u

/*
 * Append or prepend to a large item that is there. The outcomes of engine_store(), with
 * TOO_LARGE judged by bytes_max; or OUT_MISS: it cannot be done this way, or the item has gone.
 * A body that was joined is gone; otherwise it is left as it is. Context: read side, no shard
 * held.
 */
enum outcome store_extend(struct engine *e, struct store *st, uint64_t bytes_max, msec_t now);

/* Bytes of the addition, which is a span or a full body. Context: any thread. */
size_t store_addition_len(const struct store *st);

/* Is the addition of a store so long that it is joined? Context: any thread. */
bool store_joins(const struct store *st);

/*
 * Append or prepend such an addition to an item that is too short to be extended: it is copied,
 * the addition is not. It has less than EXTEND_SEGMENTS. Outcomes as above; OUT_MISS: the item
 * has changed meanwhile. Context: as above.
 */
enum outcome store_join(struct engine *e, struct store *st, const struct found *old,
                        msec_t now);

#endif
