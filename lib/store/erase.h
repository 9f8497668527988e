/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deleting an item, and the alternatives: marking it as stale, or replacing it by an empty
 * item.
 */
#ifndef MAYFLY_LIB_STORE_ERASE_H
#define MAYFLY_LIB_STORE_ERASE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"

struct engine;

/*
 * DELETED NOT_FOUND; cas_expected 0: any, else EXISTS when it differs. Context: read
 * side, no shard held.
 */
enum outcome engine_delete(struct engine *e, uint64_t hash, struct span key,
                           uint64_t cas_expected, msec_t now);

/* Arguments of engine_erase(), which may also keep the item in another form. */
struct erase {
    uint64_t hash;
    struct span key;
    bool compares_cas; /* EXISTS when the item's cas is not cas_expected */
    bool marks_stale;  /* keep the item, marked stale and not won, with a new cas */
    /*
     * A new item with an empty value takes its place; it has these flags, no deadline unless
     * `touches`, and the cas of the old one unless marks_stale or cas_new.
     */
    bool drops_value;
    bool touches; /* with marks_stale or drops_value: sets `deadline`; in the past: deleted */
    bool may_wait;
    uint32_t flags; /* with drops_value */
    uint64_t cas_expected;
    uint64_t cas_new; /* of the item that stays; 0: drawn, or kept as described above */
    msec_t deadline;
};

/* DELETED NOT_FOUND EXISTS NO_MEMORY WAIT. Context: read side, no shard held. */
enum outcome engine_erase(struct engine *e, const struct erase *d, msec_t now);

#endif
