/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a known number of bytes from a link.
 */
#ifndef MAYFLY_TESTS_LIB_LINK_INTO_H
#define MAYFLY_TESTS_LIB_LINK_INTO_H

#include "lib/link/link.h"

/* The next n bytes; n may be 0. After a failure some of them are lost. */
static inline enum link_result link_into(struct link *l, void *out, size_t n)
{
    char *at = out;

    while (n > 0) {
        size_t got;
        enum link_result result = link_some(l, at, n, &got);

        if (result != LINK_OK) {
            return result;
        }
        at += got;
        n -= got;
    }
    return LINK_OK;
}

#endif
