/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releases what an idle shard (idle.h) has apart from segments.
 */
#ifndef MAYFLY_LIB_SHARD_REST_H
#define MAYFLY_LIB_SHARD_REST_H

#include "lib/shard/shard.h"

/*
 * Release what an idle shard keeps for future items. Nothing happens if it has items, or holds
 * segments. A flush allocates some of it again, even in a shard without items. Context: outside
 * a section and a shard.
 */
void shard_rest(struct shard *s);

#endif
