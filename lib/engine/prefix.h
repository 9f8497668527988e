/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushing a prefix in all shards: see lib/shard/prefix.h.
 */
#ifndef MAYFLY_LIB_ENGINE_PREFIX_H
#define MAYFLY_LIB_ENGINE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/span.h"

struct engine;

/*
 * Flush what is stored and has this prefix (1 to ITEM_KEY_MAX bytes), in a time that does not
 * depend on how much that is; the home workers unlink it. OUT_OK; or nothing was done:
 * OUT_NO_MEMORY; OUT_WAIT, as many prefixes are being flushed as the option flush_prefix_max
 * says: ask again in 1 ms. Context: registered thread, outside a section and a shard.
 */
enum outcome engine_flush_prefix(struct engine *e, struct span prefix);

/* Number of prefixes being flushed. Context: any thread. */
uint32_t engine_prefixes(const struct engine *e);

/* Flushes of prefixes so far, for who wants to know whether there was another. */
uint64_t engine_prefix_newest(const struct engine *e);

/*
 * End the flushes whose walks are over, unless older items are being loaded beside requests:
 * these may yet have such a prefix. True: try again later. Context: reclaimer.
 */
bool engine_prefix_settle(struct engine *e);

/*
 * Unlink all that was flushed, at once: only the reclaimer uses the engine beside the caller.
 * Context: main, which is not registered as a reader.
 */
void engine_prefix_finish(struct engine *e);

#endif
