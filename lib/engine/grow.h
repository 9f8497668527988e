/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further shards for an engine that is in use. A further shard is as all others: its segments
 * are as long, for blocks go from one to another as they are; it knows the flush commands so
 * far, and the one that is to come; it has a ring of changes if the others have one, and the
 * guard of a load that is under way. No slot is in it, so no request meets it until a move
 * (migrate.h) has slots go there.
 *
 * A shard is never taken away: a pointer to one, or a number below shard_count, is valid until
 * the engine is stopped. Loops over all shards read shard_count again and again,
 * or read it once and miss one that has nothing yet.
 */
#ifndef MAYFLY_LIB_ENGINE_GROW_H
#define MAYFLY_LIB_ENGINE_GROW_H

#include <stdint.h>

#include "lib/base/err.h"

struct engine;

/*
 * Add a shard; from then on each has the smaller share of the limit. Nothing has changed unless
 * it returns MF_OK. MF_EINVAL: the engine has as many as it may, or the limit does not bear
 * another one (share.h). MF_ENOMEM; MF_ESYS: the file of attach has no place for it. Context:
 * any thread, outside a section and a shard; one caller at a time.
 */
enum mf_err engine_add_shard(struct engine *e);

/*
 * Add shards until there are this many. The others fit their shares once, at the end. If it
 * does not return MF_OK, those that were added before stay. Outcomes and context: as above.
 */
enum mf_err engine_add_shards(struct engine *e, uint32_t shards);

/*
 * Have the first `shards` shards share the limit from now on; the others have no slots.
 * Context: as above.
 */
void engine_share_among(struct engine *e, uint32_t shards);

#endif
