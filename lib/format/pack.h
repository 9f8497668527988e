/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compression of a block by zstd, at its fastest ordinary level. pack_none.c replaces pack.c
 * where the library is missing.
 */
#ifndef MAYFLY_LIB_FORMAT_PACK_H
#define MAYFLY_LIB_FORMAT_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/span.h"

struct pack; /* working memory: some hundred KiB */

/* Was this program built with zstd? Context: any thread. */
bool pack_is_there(void);

/* Memory to pack or unpack with; NULL without memory or without zstd. Context: any thread. */
struct pack *pack_create(void);
void pack_destroy(struct pack **p);

/*
 * Pack. Returns the number of bytes written; 0 if it would exceed max, as with random bytes.
 * Context: the owner's thread.
 */
size_t pack_bytes(struct pack *p, struct span raw, char *out, size_t max);

/* Unpack to exactly len bytes. False: damaged, or another length. Context: owner's thread. */
bool pack_undo(struct pack *p, struct span packed, char *out, size_t len);

#endif
