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
#include "tests/common/exact.h"

/* One run of the target; returns 0, and aborts where something does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(x)                                                                             \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #x);             \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/* A span that a parser returns is empty or lies in the bytes that the request used. */
static inline void check_span(struct span s, const char *buf, size_t used)
{
    require(s.len == 0 || (s.ptr >= buf && s.ptr + s.len <= buf + used));
}

#endif
