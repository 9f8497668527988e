/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading values: walks, copies and pins. Readers hold a read-side section and no lock.
 */
#ifndef MAYFLY_LIB_SHARD_VALUE_H
#define MAYFLY_LIB_SHARD_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "lib/memory/item.h"

struct shard;

/* A walk over the bytes of a value, part by part. */
struct value_walk {
    const struct shard *shard;
    const struct item *item; /* [borrowed] until the section ends */
    size_t left;             /* bytes not yet returned */
    uint32_t segment;        /* next whole segment */
    uint32_t skip;           /* bytes at its front that are not part of the value */
    uint32_t segments_left;  /* whole segments not yet returned */
    uint32_t segments;       /* in all */
    uint32_t anchor;         /* of the value's segments: has the pins */
    uint32_t tail;           /* of left: the bytes in pieces */
    uint32_t piece;          /* next piece */
};

/* Begin a walk. Context: read side. */
void value_walk_begin(struct value_walk *w, const struct shard *shard, const struct item *item);

/*
 * The next part; false at the end. Context: read side, or pinned while parts are whole
 * segments.
 */
bool value_walk_next(struct value_walk *w, struct span *part);

/*
 * Do the remaining bytes begin with whole segments? Then a pin keeps those beyond the section;
 * the bytes after them (value_walk_tail()) must be copied within it. Context: read side.
 */
bool value_walk_has_segments(const struct value_walk *w);
static inline size_t value_walk_tail(const struct value_walk *w)
{
    return w->tail;
}

/* Copy the last bytes of the value (those in pieces) to out. Context: read side. */
void value_walk_copy_tail(const struct value_walk *w, char *out);

/*
 * Keep the whole segments of this value beyond the section. Each pin must be released once.
 * Context: read side; value_unpin(): any registered thread.
 */
struct value_pin {
    struct shard *shard;
    uint32_t anchor;
    int64_t bytes; /* of the segments that the value had */
};
struct value_pin value_pin(const struct value_walk *w);
void value_unpin(struct value_pin *pin);

/*
 * May the value be pinned? All pinned values together, dead or alive, may take 3/8 of the limit
 * (plus one value for each thread that asks at the same time), or there may be one of any
 * length. For a value that is pinned already, only bytes added since then count. Context: read
 * side.
 */
bool value_may_pin(const struct value_walk *w);

/* Was the pinned value unlinked? Then the pin keeps dead memory. Context: any thread. */
bool value_pin_is_dead(const struct value_pin *pin);

/*
 * Bytes by which the dead memory kept by all pins of the shard's group exceeds 1/8 of the
 * limit; 0: it does not. Context: any thread.
 */
uint64_t value_pinned_excess(const struct shard *s);

/* Copy a whole value. Context: read side. */
void value_copy(const struct shard *shard, const struct item *item, char *out);

#endif
