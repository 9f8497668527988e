/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prefetching bytes that the kernel is about to copy, if they are many and not in the near
 * caches. Processors prefetch while copying, but start over in each page, and their copy
 * instruction stalls there. So the first lines of every page are prefetched before the call.
 * For 64 KiB this saves 1.5 us of 26 in a set and 0.7 in a get; prefetching all lines costs
 * more than it saves.
 */
#ifndef MAYFLY_DAEMON_BASE_PREFETCH_H
#define MAYFLY_DAEMON_BASE_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"

#define PREFETCH_LINE  64u
#define PREFETCH_LINES 8u /* of a page; 2 to 16 do as well for reads, 8 to 16 for writes */
#define PREFETCH_PAGE  4096u

/* A line that is prefetched much too early is evicted again before the copy. */
#define PREFETCH_MAX_BYTES (128u << 10)

/* The start of the next page after p. */
static inline const char *prefetch_next_page(const char *p)
{
    return p + (PREFETCH_PAGE - ((uintptr_t)p & (PREFETCH_PAGE - 1)));
}

/* Ask for the first lines of each page of the n bytes at p. */
static MF_INLINE void prefetch_pages(const char *p, size_t n, bool is_written)
{
    const char *end = p + (n < PREFETCH_MAX_BYTES ? n : PREFETCH_MAX_BYTES);

    for (; p < end; p = prefetch_next_page(p)) {
        for (unsigned i = 0; i < PREFETCH_LINES; i++) {
            const char *line = p + (size_t)i * PREFETCH_LINE;

            if (is_written) {
                __builtin_prefetch(line, 1, 2);
            } else {
                __builtin_prefetch(line, 0, 2);
            }
        }
    }
}

/* The n bytes at p will be read soon. Context: any thread. */
static inline void prefetch_to_read(const char *p, size_t n)
{
    prefetch_pages(p, n, false);
}

/* The n bytes at p will be overwritten soon. Context: any thread. */
static inline void prefetch_to_write(const char *p, size_t n)
{
    prefetch_pages(p, n, true);
}

#endif
