/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full check of a shard by a walk: every block of every segment is counted again and compared
 * with the segment table, the hole lists, the bins, the index, the wheel and the counters.
 */
#ifndef MAYFLY_TESTS_COMMON_VERIFY_H
#define MAYFLY_TESTS_COMMON_VERIFY_H

#include <stdbool.h>
#include <stddef.h>

struct shard;
struct wheel;

/*
 * False when something differs: a description is written to why. Holds the lock throughout.
 * Context: any thread, outside a shard.
 */
bool shard_verify(struct shard *s, char *why, size_t why_size);

/* False when the structures of a wheel do not agree with each other. Context: in shard. */
bool wheel_verify(const struct wheel *w);

#endif
