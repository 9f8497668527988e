/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing large values, in four steps, so that no copy of their bytes is made inside the shard:
 * (1) whole segments are filled (the body); (2) in the shard: blocks for head and pieces are
 * made, loose: their segments are kept from the cursor; (3) outside: pieces and head are
 * filled; (4) in the shard: conditions are tested and the head is linked.
 */
#ifndef MAYFLY_LIB_STORE_STORE_LARGE_H
#define MAYFLY_LIB_STORE_STORE_LARGE_H

#include <stdbool.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/memory/item.h"
#include "lib/store/store.h"

/*
 * Values larger than a block, or bodies. As store_value(). Context: read side, no shard held.
 */
enum outcome store_large(struct engine *e, struct store *st, msec_t now);

/* Steps 2 to 4 with a full body (or its segments and a tail elsewhere). */
struct store_commit {
    struct store *st;
    struct body **body;
    struct span tail;               /* bytes for the pieces when the body does not have them */
    const struct body_parts *parts; /* [borrowed] of the value, if the body is a part of it */
    bool has_ttl;
    const struct item *seen; /* append, prepend: the item that was copied; NULL: any */
};

/*
 * OUT_STORED; OUT_MISS: something changed meanwhile, start over, up to STORE_TRIES times; else
 * why it was not stored. Context: read side, no shard held.
 */
enum outcome store_commit(struct engine *e, struct store_commit *c, msec_t now);
#define STORE_TRIES 3

#endif
