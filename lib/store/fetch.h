/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups that may change the item.
 */
#ifndef MAYFLY_LIB_STORE_FETCH_H
#define MAYFLY_LIB_STORE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "lib/store/find.h"

/*
 * A lookup that may change the item: make an absent one, win the right to refresh it, give it a
 * deadline. A plain engine_find() will do when none of this is asked for and the item found is
 * live, and not shape_is_winnable(): one that was unlinked meanwhile has lost its marks.
 */
struct fetch {
    uint64_t hash;
    struct span key;
    bool vivifies;      /* absent: made with an empty value, and won by the caller */
    bool recaches;      /* if its deadline is before recache_before and no client won it: won */
    bool touches;       /* an item that was there gets touch_deadline */
    bool touches_first; /* before its deadline is compared for recaches */
    bool yields;        /* the right to refresh is not granted, as on a passive engine */
    bool may_wait;
    msec_t vivify_deadline;
    msec_t recache_before;
    msec_t touch_deadline;
    uint64_t cas_new; /* of what is made; 0: drawn */
    /* out, with HIT */
    bool is_created;
    bool is_stale;
    /* by this call; a stale item that no client won is won, too */
    bool is_won;
    bool was_won;           /* by another client before; or it would be won, and must not */
    msec_t deadline_before; /* the deadline it came with */
    /* Borrowed until the section ends; not yet marked as used: the caller does that. */
    struct found found;
};

/*
 * HIT; MISS (found.miss says why); NO_MEMORY, WAIT. With a touch_deadline or a vivify_deadline
 * at or before now the item is found this last time. Context: read side, no shard held.
 */
enum outcome engine_fetch(struct engine *e, struct fetch *f, msec_t now);

#endif
