/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleaning when room is not short, so that memory follows the data after a mass death.
 *
 * Dead bytes are useful as long as puts will soon reuse them. So the home worker checks four
 * times a second, and only while there are dead bytes. It keeps the bytes that puts will use in
 * ten seconds at the present rate (at most a quarter of the filled bytes). Of the rest it keeps
 * at most a sixteenth of the filled bytes, plus two segments. Under load that leaves little or
 * no work. Without stores all dead bytes are cleaned. A segment without live blocks is always
 * released, since nothing has to be copied.
 */
#ifndef MAYFLY_LIB_MEMORY_TIDY_H
#define MAYFLY_LIB_MEMORY_TIDY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/chains.h"
#include "lib/memory/state.h"

/* Interval between two checks, in milliseconds. */
#define TIDY_LOOK_MS 250

/* The result of a check. */
enum tidy_next {
    TIDY_DONE,  /* nothing to do; the owner is notified when that changes (wants_tidy) */
    TIDY_LATER, /* much is dead, but may be reused: check again after TIDY_LOOK_MS */
    TIDY_NOW,   /* tidy_slice() has work */
};

/* Decide. The rate of puts is measured once per TIDY_LOOK_MS. Context: in shard. */
enum tidy_next tidy_look(struct memory *m, msec_t now);

/*
 * Turn ripe deaths into holes, and clean, for about `work` units. Evicts nothing. False if
 * nothing is left to do. Context: in shard.
 */
bool tidy_slice(struct memory *m, int64_t work, msec_t now);

/*
 * Is the death ring empty, with resident pages that it does not need? Then blocks_fit_ring()
 * releases them. Context: in shard.
 */
bool tidy_wants_ring(const struct memory *m);

#endif
