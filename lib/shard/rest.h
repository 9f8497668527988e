/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an idle shard (idle.h) has for items that may come.
 */
#ifndef MAYFLY_LIB_SHARD_REST_H
#define MAYFLY_LIB_SHARD_REST_H

#include "lib/shard/shard.h"

/*
 * Give back what an idle shard has for items; nothing happens if it has any, or holds segments.
 * A flush makes some of it again, even in a shard without items. Context: outside a section and
 * a shard.
 */
void shard_rest(struct shard *s);

#endif
