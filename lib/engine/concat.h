/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * append and prepend.
 */
#ifndef MAYFLY_LIB_ENGINE_CONCAT_H
#define MAYFLY_LIB_ENGINE_CONCAT_H

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/engine/store.h"

/* STORED NOT_STORED EXISTS TOO_LARGE NO_MEMORY WAIT. Context: read side, no shard held. */
enum outcome store_concat(struct engine *e, struct store *st, msec_t now);

#endif
