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
 * Flush all items with this prefix (1 to ITEM_KEY_MAX bytes), in a time that does not depend on
 * their number; the home workers unlink them. Returns OUT_OK. Or nothing was done:
 * OUT_NO_MEMORY; OUT_WAIT if the number of prefixes being flushed is at its maximum (option
 * flush_prefix_max): retry in 1 ms. Context: registered thread, outside a section and a shard.
 */
enum outcome engine_flush_prefix(struct engine *e, struct span prefix);

/* Number of prefixes being flushed. Context: any thread. */
uint32_t engine_prefixes(const struct engine *e);

/* The number of flushes of prefixes, for callers that check whether there was another. */
uint64_t engine_prefix_newest(const struct engine *e);

/*
 * End the flushes whose walks are over. While older items are being loaded beside requests none
 * is ended: those items may have the prefix too. True: retry later. Context: reclaimer.
 */
bool engine_prefix_settle(struct engine *e);

/*
 * Unlink all flushed items at once: only the reclaimer uses the engine beside the caller.
 * Context: main, which is not registered as a reader.
 */
void engine_prefix_finish(struct engine *e);

#endif
