/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives an unchanged item a new block, because the old one was stored without a deadline and
 * has no room for one, or because its cas changes, which readers read without a lock.
 */
#ifndef MAYFLY_LIB_STORE_REMAKE_H
#define MAYFLY_LIB_STORE_REMAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"

struct engine;
struct visit;

/* What the found item should have that cannot be changed in place. */
struct remake {
    msec_t deadline;
    msec_t deadline_before; /* of the found item */
    uint64_t cas;
    uint16_t clears, sets; /* marks */
    bool may_wait;
};

/*
 * Make a new block for the found item, whatever its value is, and swap it in. OUT_OK: the visit
 * has the new item; OUT_WAIT, OUT_NO_MEMORY; OUT_TOO_LARGE: with a deadline it no longer fits a
 * block, so remake_as_large() must do it. Context: in shard.
 */
enum outcome remake_block(struct visit *v, const struct remake *r);

/*
 * The same by storing a copy as a large value. OUT_OK; OUT_EXISTS: something changed, start
 * over; OUT_WAIT, OUT_NO_MEMORY. Context: read side, no shard held.
 */
enum outcome remake_as_large(struct engine *e, const struct visit *v, const struct remake *r);

#endif
