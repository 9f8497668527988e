/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots in memory, for tests: what an encoder writes, and what a scan reads.
 */
#ifndef MAYFLY_TESTS_LIB_FORMAT_FILES_H
#define MAYFLY_TESTS_LIB_FORMAT_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "lib/base/buf.h"

/* snap_write_fn: appends to a struct buf. */
static inline bool file_append(void *arg, const void *bytes, size_t n)
{
    struct buf *file = arg;

    return buf_append(file, bytes, n);
}

/* snap_read_fn: reads from a struct span. */
static inline ssize_t file_read(void *arg, void *out, size_t n, uint64_t offset)
{
    const struct span *file = arg;

    if (offset >= file->len) {
        return 0;
    }
    if (n > file->len - offset) {
        n = file->len - offset;
    }
    memcpy(out, file->ptr + offset, n);
    return (ssize_t)n;
}

#endif
