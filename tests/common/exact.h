/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory blocks of the exact size of an input: the address sanitizer reports any access after
 * their end. The caller frees them.
 */
#ifndef MAYFLY_TESTS_COMMON_EXACT_H
#define MAYFLY_TESTS_COMMON_EXACT_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/span.h"

static inline void *exact_block(size_t len)
{
    void *block = malloc(len + (len == 0));

    must(block != NULL);
    return block;
}

static inline char *exact_copy(const void *data, size_t len)
{
    char *copy = exact_block(len);

    if (len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

/* Where a span is in its input, in which it must lie; 0 when it is empty. */
static inline ptrdiff_t offset_of(struct span s, const char *buf, size_t len)
{
    if (s.len == 0) {
        return 0;
    }
    must(s.ptr >= buf && s.ptr + s.len <= buf + len);
    return s.ptr - buf;
}

#endif
