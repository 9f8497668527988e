/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing one value that is given as a whole: set, add, replace, cas.
 */
#ifndef MAYFLY_LIB_STORE_STORE_VALUE_H
#define MAYFLY_LIB_STORE_STORE_VALUE_H

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/store/store.h"

/*
 * In a block, or as a large value. Key and value are within the limit. STORED NOT_STORED EXISTS
 * NOT_FOUND NO_MEMORY WAIT. Context: read side, no shard held.
 */
enum outcome store_value(struct engine *e, struct store *st, msec_t now);

/*
 * The same for a span that is known to fit one block. Not inlined, so that it is compiled once.
 */
enum outcome store_value_in_block(struct engine *e, struct store *st, msec_t now);

#endif
