/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication ids: 128 random bits that name one history of changes. Shown as 32 hex digits.
 */
#ifndef MAYFLY_LIB_REPLICA_REPLID_H
#define MAYFLY_LIB_REPLICA_REPLID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/span.h"

#define REPLID_BYTES 16u
#define REPLID_CHARS (2 * REPLID_BYTES)

/* All zero: no id. */
struct replid {
    uint8_t bytes[REPLID_BYTES];
};

/* Draw a new id from the system's random source. Context: any thread, as for the rest. */
struct replid replid_draw(void);

static inline bool replid_equal(const struct replid *a, const struct replid *b)
{
    return memcmp(a->bytes, b->bytes, REPLID_BYTES) == 0;
}

static inline bool replid_is_none(const struct replid *id)
{
    return replid_equal(id, &(struct replid){{0}});
}

/* Write 32 lower-case hex digits and a zero byte. */
void replid_format(const struct replid *id, char out[REPLID_CHARS + 1]);

/* Read 32 hex digits of either case. False: the text is anything else; *id is unchanged. */
bool replid_parse(struct span text, struct replid *id);

#endif
