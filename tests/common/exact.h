/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Input in blocks of its exact size: under the address sanitizer, the first byte that is read
 * or written past its end is noticed. The caller frees them.
 */
#ifndef MAYFLY_TESTS_COMMON_EXACT_H
#define MAYFLY_TESTS_COMMON_EXACT_H

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"

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

#endif
