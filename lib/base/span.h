/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Borrowed bytes: a pointer and a length. A span never owns its bytes, and they need not end
 * with NUL.
 */
#ifndef MAYFLY_LIB_BASE_SPAN_H
#define MAYFLY_LIB_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "lib/base/check.h"

struct span {
    const char *ptr; /* [borrowed] */
    size_t len;
};

/* The n bytes at ptr. Context: any thread, as all of these. */
static inline struct span span_of(const void *ptr, size_t len)
{
    return (struct span){(const char *)ptr, len};
}

/* The characters of a NUL-terminated string, without the NUL. */
static inline struct span span_str(const char *s)
{
    return (struct span){s, strlen(s)};
}

static inline bool span_eq(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool span_is(struct span a, const char *s)
{
    return span_eq(a, span_str(s));
}

/*
 * Copy a few bytes, such as a key or a number. For so few, a call of memcpy() costs more than
 * the copy itself. Goes in steps of 16, 8 or 4 bytes; the last step ends where the bytes end
 * and may overlap the one before it. Source and target must not overlap. Context: any thread.
 */
static inline void span_copy_short(char *out, const char *p, size_t n)
{
    debug_must(n == 0 || out + n <= p || p + n <= out);
    if (n >= 16) {
        for (size_t at = 0; at < n - 16; at += 16) {
            memcpy(out + at, p + at, 16);
        }
        memcpy(out + n - 16, p + n - 16, 16);
    } else if (n >= 8) {
        memcpy(out, p, 8);
        memcpy(out + n - 8, p + n - 8, 8);
    } else if (n >= 4) {
        memcpy(out, p, 4);
        memcpy(out + n - 4, p + n - 4, 4);
    } else {
        for (size_t at = 0; at < n; at++) {
            out[at] = p[at];
        }
    }
}

#endif
