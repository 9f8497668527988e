/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every fuzz target begins with. libFuzzer calls the target, or replay.c does, with the
 * seeds in tests/fuzz/<target>.in.
 */
#ifndef MAYFLY_TESTS_FUZZ_FUZZ_H
#define MAYFLY_TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/span.h"

/* One run of the target; returns 0, and aborts where something does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(x)                                                                             \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #x);             \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/*
 * A block of exactly so many bytes: under the address sanitizer, the first byte read or written
 * past its end is noticed. The caller frees it.
 */
static inline void *exact_block(size_t len)
{
    void *block = malloc(len + (len == 0));

    require(block != NULL);
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

/* A span that a parser returns is empty or lies in the bytes that the request used. */
static inline void check_span(struct span s, const char *buf, size_t used)
{
    require(s.len == 0 || (s.ptr >= buf && s.ptr + s.len <= buf + used));
}

#endif
