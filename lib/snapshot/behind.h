/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous file writer: a thread writes the filled buffer to the file while the owner fills
 * the next one. A save then takes the longer of the two times (walk or disk), not their sum.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_BEHIND_H
#define MAYFLY_LIB_SNAPSHOT_BEHIND_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/format/newfile.h"

struct behind;

/*
 * Size of each of the two buffers. It is large enough to give the disk several requests at a
 * time.
 */
#define BEHIND_BYTES ((size_t)384 << 10)

/* Create the thread, with the caller's priority. NULL: no memory. Context: any thread. */
struct behind *behind_create(void);

/*
 * End the thread, release the writer and null the pointer; accepts NULL. Context: the owner,
 * not between behind_begin() and behind_end().
 */
void behind_destroy(struct behind **b);

/*
 * Hand the file to the thread; the owner must not use it until behind_end(). Context: the
 * owner, outside a section, as for the next two.
 */
void behind_begin(struct behind *b, struct newfile *f);

/* Append. False: a write has failed. */
bool behind_write(struct behind *b, const void *bytes, size_t n);

/*
 * Wait until all is written. Returns false on failure, with f->error. The caller owns the file
 * again.
 */
bool behind_end(struct behind *b);

#endif
