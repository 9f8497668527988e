/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings of changes of an engine's shards (lib/shard/changes.h). They exist while any stream
 * reads them. streams_lock guards their existence and the numbers of readers.
 */
#ifndef MAYFLY_LIB_ENGINE_RINGS_H
#define MAYFLY_LIB_ENGINE_RINGS_H

#include <stdbool.h>

struct engine;
struct shard;

/*
 * Count one more stream; every shard has a ring when this returns. False: there is no memory,
 * and the stream is not counted. Context: outside a shard.
 */
bool rings_use(struct engine *e);

/* Count one stream less; the last one removes the rings. Context: as above. */
void rings_leave(struct engine *e);

/*
 * One more stream (true), or one less, needs a record of each expiry. Context: outside a shard,
 * between rings_use() and rings_leave().
 */
void rings_record_expiries(struct engine *e, bool records);

/*
 * Give a ring to a new shard, if others have one. Returns false without memory. Context: under
 * streams_lock; the shard is not in use yet.
 */
bool rings_give(struct engine *e, struct shard *s);

#endif
