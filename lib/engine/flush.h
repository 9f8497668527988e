/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush commands: each flushes all shards.
 */
#ifndef MAYFLY_LIB_ENGINE_FLUSH_H
#define MAYFLY_LIB_ENGINE_FLUSH_H

#include <stdbool.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"

struct engine;

/*
 * Flush: everything stored before `at` is gone at `at` (now or earlier: at once). Takes
 * constant time for each shard; memory is given back in the background. OUT_OK; or nothing was
 * done: OUT_NO_MEMORY, there is no memory for new indexes; OUT_WAIT (only if it may), flushes
 * come faster than their memory is given back: ask again in 1 ms. Context: outside a shard.
 */
enum outcome engine_flush(struct engine *e, msec_t at, msec_t now, bool may_wait);

/*
 * The same for a flush that was asked for in an earlier life of the data, without waiting. One
 * that is still to come, as a request has asked since, stays: it takes the place of this one if
 * this is to come as well. before: where this function has put a flush that is replaced;
 * MSEC_NEVER: nowhere yet. Context: outside a shard.
 */
enum outcome engine_flush_old(struct engine *e, msec_t at, msec_t before, msec_t now);

/* The instant of the flush that is to come; MSEC_NEVER: there is none. Context: any thread. */
msec_t engine_flush_to_come(const struct engine *e);

#endif
