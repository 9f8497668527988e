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
 * Flush: everything stored before `at` is gone at `at` (now or earlier: at once). Takes
 * constant time for each shard; memory is released in the background. Returns OUT_OK. Or
 * nothing was done: OUT_NO_MEMORY, there is no memory for new indexes; OUT_WAIT (only if
 * may_wait), flushes come faster than their memory is released: retry in 1 ms. Context: outside
 * a shard.
 */
enum outcome engine_flush(struct engine *e, msec_t at, msec_t now, bool may_wait);

/*
 * The same for a flush command that was given to an earlier process, without waiting. If a
 * request has scheduled a flush since, that one stays, and replaces this one if this one is in
 * the future too. before: where this function has put a flush that is replaced; MSEC_NEVER:
 * nowhere. Context: outside a shard.
 */
enum outcome engine_flush_old(struct engine *e, msec_t at, msec_t before, msec_t now);

/* The instant of the pending flush; MSEC_NEVER: there is none. Context: any thread. */
msec_t engine_flush_to_come(const struct engine *e);

#endif
