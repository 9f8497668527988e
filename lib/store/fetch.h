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
 * A lookup that may change the item: create an absent one, win the right to refresh it, set its
 * deadline. If none of this is requested, engine_find() suffices, provided that the item found
 * is live and not shape_is_winnable(): an item that was unlinked meanwhile has lost its marks.
 */
struct fetch {
    uint64_t hash;
    struct span key;
    bool vivifies;      /* create an absent item, with an empty value and won by the caller */
    bool recaches;      /* win an unwon item whose deadline is before recache_before */
    bool touches;       /* set touch_deadline on an existing item */
    bool touches_first; /* do that before its deadline is compared for recaches */
    bool yields;        /* never grant the right to refresh, as on a passive engine */
    bool may_wait;
    msec_t vivify_deadline;
    msec_t recache_before;
    msec_t touch_deadline;
    uint64_t cas_new; /* of a created item; 0: drawn */
    /* out, with HIT */
    bool is_created;
    bool is_stale;
    /* by this call; a stale item that no client won is won, too */
    bool is_won;
    bool was_won;           /* another client won it earlier; or `yields` prevented a win */
    msec_t deadline_before; /* its deadline before this call */
    /* Borrowed until the section ends; not yet marked as used: the caller does that. */
    struct found found;
};

/*
 * HIT; MISS (found.miss says why); NO_MEMORY, WAIT. If touch_deadline or vivify_deadline is at
 * or before now, this call still finds the item, and later ones do not. Context: read side, no
 * shard held.
 */
enum outcome engine_fetch(struct engine *e, struct fetch *f, msec_t now);

#endif
