/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading older items into an engine that is in use. A key that was deleted, has expired, or
 * was evicted or flushed since the load began is not loaded (lib/shard/guard.h).
 *
 *     guarding_begin()
 *     guard_set_loader(true)    in each thread that loads
 *     engine_store() as STORE_ADD, with the cas drawn
 *     guarding_end()
 */
#ifndef MAYFLY_LIB_ENGINE_GUARDING_H
#define MAYFLY_LIB_ENGINE_GUARDING_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/shard/guard.h"

struct engine;

enum guarding {
    GUARDING_ON,
    GUARDING_BUSY, /* another load is under way */
    GUARDING_WAIT, /* with may_wait: the guard of an earlier load still exists; retry */
    GUARDING_NO_MEMORY,
};

/*
 * Install the guard in all shards, sized for about `items` items. When this returns
 * GUARDING_ON, every delete is recorded from then on. Otherwise there is nothing to release.
 * Context: registered thread, outside a shard.
 */
enum guarding guarding_begin(struct engine *e, struct guard *g, uint64_t items, bool may_wait);

/* Remove the guard; the reclaimer releases its memory. Context: as above. */
void guarding_end(struct engine *e, struct guard *g);

#endif
