/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deleting.
 */
#ifndef MAYFLY_LIB_ENGINE_DELETE_H
#define MAYFLY_LIB_ENGINE_DELETE_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"

struct engine;

/*
 * DELETED NOT_FOUND; cas_expected 0: any, else EXISTS when it differs. Context: read
 * side, no shard held.
 */
enum outcome engine_delete(struct engine *e, uint64_t hash, struct span key,
                           uint64_t cas_expected, msec_t now);

#endif
