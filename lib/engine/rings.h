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
 * One stream more: every shard has a ring when this returns. False: there is no memory, and it
 * does not count. Context: outside a shard.
 */
bool rings_use(struct engine *e);

/* One less; the last one takes the rings away. Context: as above. */
void rings_leave(struct engine *e);

/* One stream more, or one less, wants a record of each expiry. Context: as above, between. */
void rings_record_expiries(struct engine *e, bool records);

/*
 * Give a ring to a new shard, if others have one. Returns false without memory. Context: under
 * streams_lock; the shard is not in use yet.
 */
bool rings_give(struct engine *e, struct shard *s);

#endif
