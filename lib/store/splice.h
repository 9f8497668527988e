/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the ways to append and prepend to large values (extend.c, join.c, concat.c): the
 * bytes of an addition, segments that are not part of a value yet, and copying bytes to
 * segments.
 */
#ifndef MAYFLY_LIB_STORE_SPLICE_H
#define MAYFLY_LIB_STORE_SPLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/memory/chunks.h"

struct body;
struct engine;
struct store;

/*
 * A value with at least this many segments is extended, and an addition with at least this many
 * is joined to it. Shorter ones are copied, because each end and each joint may waste nearly a
 * segment: at most an eighth of the value or of the addition.
 */
#define EXTEND_SEGMENTS 8u

/* ---- the addition ------------------------------------------------------------------------ */

/* Bytes of the addition, which is a span or a full body. Context: any thread. */
size_t store_addition_len(const struct store *st);

/* Is the addition of a store long enough to be joined? Context: any thread. */
bool store_joins(const struct store *st);

/* The bytes of the addition, from front to back. */
struct source {
    const struct arena *arena; /* [borrowed] */
    segment_t at;              /* next whole segment */
    uint32_t segments;
    struct span tail; /* what follows the segments */
};

struct source source_of(const struct store *st);

/* The next part; false: that was all. Context: the thread that has the addition. */
bool source_next(struct source *s, struct span *part);

/* ---- segments ---------------------------------------------------------------------------- */

/* The number of segments that `bytes` bytes fill. */
uint32_t segments_for(const struct arena *a, size_t bytes);

/* Fewer than EXTEND_SEGMENTS segments are copied, with less than one more at each end. */
#define FRESH_MAX (EXTEND_SEGMENTS + 2)

/* Segments that only this thread knows. */
struct fresh {
    struct body *body; /* owns them; NULL if there are none */
    uint32_t count;
    segment_t at[FRESH_MAX];
};

/*
 * Take count segments from the shard of the store. OUT_OK, OUT_WAIT (only if the store may
 * wait), OUT_NO_MEMORY. Call fresh_drop() in every case. Context: read side, no shard held.
 */
enum outcome fresh_take(struct engine *e, const struct store *st, uint32_t count,
                        struct fresh *f);

/*
 * fresh_keep(): the segments belong to an item now. fresh_drop(): release them. Context: the
 * section of fresh_take(), no shard held.
 */
void fresh_keep(struct fresh *f);
void fresh_drop(struct fresh *f);

/* The target of a copy: a position in a segment, and the segments to use after that one. */
struct sink {
    struct arena *arena; /* [borrowed] */
    segment_t segment;
    uint32_t at;           /* byte in the segment */
    const segment_t *then; /* [borrowed] */
};

/* There must be room. Context: the thread that has the segments. */
void sink_put(struct sink *k, struct span part);
void sink_put_all(struct sink *k, struct source s);

/* Join segments to a run, in this order; none where count is 0. Context: as above. */
void growth_add(struct arena *a, struct growth *g, segment_t first, segment_t last,
                uint32_t count);
void growth_add_each(struct arena *a, struct growth *g, const segment_t *at, uint32_t count);

#endif
