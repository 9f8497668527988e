/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks by which the memory of a shard asks the shard about its blocks, which the index and
 * the wheel refer to.
 */
#ifndef MAYFLY_LIB_SHARD_OWNER_H
#define MAYFLY_LIB_SHARD_OWNER_H

#include "lib/memory/memory.h"

/* The owner is a struct shard. */
extern const struct memory_owner_ops shard_owner_ops;

#endif
