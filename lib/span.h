/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Borrowed bytes: a pointer and a length. A span never owns what it points at
 * and its bytes need not end in NUL.
 */
#ifndef MAYFLY_LIB_SPAN_H
#define MAYFLY_LIB_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *ptr; /* [borrowed] */
    size_t len;
};

static inline struct span span_of(const void *ptr, size_t len)
{
    return (struct span){(const char *)ptr, len};
}

/* A span over the characters of a NUL-terminated string, without the NUL. */
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

#endif
