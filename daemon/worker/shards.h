/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of shards while the server serves (shards, a live option, and threads as long as
 * that is 0). The engine adds shards and moves items to them (lib/reshard/reshard.h); here each
 * added shard gets its home worker, and the number of shards is computed from the options.
 */
#ifndef MAYFLY_DAEMON_WORKER_SHARDS_H
#define MAYFLY_DAEMON_WORKER_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

struct crew;
struct settings;

/* The number that a start with these settings makes. Context: any thread. */
uint32_t shards_at_start(const struct settings *set);

/*
 * The number that these values of shards and threads ask for under a limit: if shards is 0, one
 * that the engine can work with. Context: any thread.
 */
uint32_t shards_wanted(const struct crew *crew, uint32_t shards, uint32_t threads,
                       uint64_t limit_bytes);

/*
 * Can the engine work with this number under a limit? False: `why` (OPTION_TEXT_BYTES) has the
 * reason. Context: any thread.
 */
bool shards_may_be(const struct crew *crew, uint32_t shards, uint64_t limit_bytes, char *why);

/*
 * Move all items to the first `count` shards: when this returns they exist, have homes, and the
 * move has begun. False: nothing has changed, except that there may be more shards without
 * items; `why` (OPTION_TEXT_BYTES) has the reason. Context: main, while the crew serves.
 */
bool shards_set(struct crew *crew, uint32_t count, char *why);

/*
 * After a start with the items of an earlier process: move them to as many shards as the
 * settings ask for, if there are others, and finish a move that it has left half done. Context:
 * main, the crew has started.
 */
void shards_begin(struct crew *crew);

#endif
