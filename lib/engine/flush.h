/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush commands. Each flushes all shards.
 */
#ifndef MAYFLY_LIB_ENGINE_FLUSH_H
#define MAYFLY_LIB_ENGINE_FLUSH_H

#include <stdbool.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"

struct engine;

/*
 * Flush: items stored before `at` disappear at `at` (at once, if that is now or earlier). Takes
 * constant time for each shard; memory is released in the background. Returns OUT_OK. The other
 * outcomes change nothing. OUT_NO_MEMORY: no memory for new indexes. OUT_WAIT (only if
 * may_wait): flushes come faster than their memory is released; retry in 1 ms. Context: outside
 * a shard.
 */
enum outcome engine_flush(struct engine *e, msec_t at, msec_t now, bool may_wait);

/*
 * The same for a flush command that an earlier process received; never OUT_WAIT. A pending
 * flush that a request has scheduled since stays; this one is then dropped if its time has not
 * come. `before` is the instant at which an earlier call of this function scheduled a flush,
 * which this call replaces; MSEC_NEVER: there is none. Context: outside a shard.
 */
enum outcome engine_flush_old(struct engine *e, msec_t at, msec_t before, msec_t now);

/* The time of the pending flush; MSEC_NEVER: there is none. Context: any thread. */
msec_t engine_flush_to_come(const struct engine *e);

#endif
