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
 * Flush all items with this prefix (1 to ITEM_KEY_MAX bytes). The time of the call does not
 * depend on their number; the home workers unlink them later. Returns OUT_OK; or, with nothing
 * changed, OUT_NO_MEMORY, or OUT_WAIT if flush_prefix_max prefixes are being flushed already:
 * retry in 1 ms. Context: registered thread, outside a section and a shard.
 */
enum outcome engine_flush_prefix(struct engine *e, struct span prefix);

/* Number of prefixes being flushed. Context: any thread. */
uint32_t engine_prefixes(const struct engine *e);

/*
 * The number of the newest flush of a prefix, for callers that check whether there was another.
 * Context: any thread.
 */
uint64_t engine_prefix_newest(const struct engine *e);

/*
 * End the flushes whose walks are complete. None is ended while a load adds older items beside
 * requests, because these may have the prefix too. True: retry later. Context: reclaimer.
 */
bool engine_prefix_settle(struct engine *e);

/*
 * Unlink all flushed items at once. Apart from the caller, only the reclaimer may use the
 * engine meanwhile. Context: main, which is not registered as a reader.
 */
void engine_prefix_finish(struct engine *e);

#endif
