/* SPDX-License-Identifier: BSD-3-Clause */
/* A shard as the owner of its memory: the index and the wheel refer to its blocks. */
#ifndef MAYFLY_LIB_SHARD_OWNER_H
#define MAYFLY_LIB_SHARD_OWNER_H

#include "lib/memory/memory.h"

/* The owner is a struct shard. */
extern const struct memory_owner_ops shard_owner_ops;

#endif
