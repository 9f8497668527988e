/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growable byte buffer. Its memory doubles, so each byte is copied a constant number of times
 * when bytes are appended one by one. It shrinks only in buf_fini().
 */
#include "lib/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

/* The first allocation: most replies to administrative commands fit into it. */
#define BUF_MIN_BYTES 128u

void buf_fini(struct buf *b)
{
    mem_free(b->base);
    *b = (struct buf){0};
}

/* Move the content to the front, so that all free room is after the write mark. */
static void buf_compact(struct buf *b)
{
    size_t len = buf_len(b);

    if (len > 0) {
        memmove(b->base, b->base + b->begin, len);
    }
    b->begin = 0;
    b->end = len;
}

bool buf_reserve(struct buf *b, size_t n)
{
    return buf_reserve_within(b, n, SIZE_MAX);
}

bool buf_reserve_within(struct buf *b, size_t n, size_t most)
{
    size_t len = buf_len(b);

    if (buf_room(b) >= n) {
        return true;
    }
    if (b->cap - len >= n) {
        buf_compact(b);
        return true;
    }
    if (n > SIZE_MAX / 2 || len > SIZE_MAX / 2 - n) {
        return false;
    }

    size_t cap = b->cap < BUF_MIN_BYTES ? BUF_MIN_BYTES : b->cap * 2;
    if (cap > most) {
        cap = most;
    }
    if (cap < len + n) {
        cap = len + n;
    }
    /* New memory, because mem_realloc() would also copy what was already read. */
    char *base = mem_alloc(cap);
    if (base == NULL) {
        return false;
    }
    if (len > 0) {
        memcpy(base, b->base + b->begin, len);
    }
    mem_free(b->base);
    *b = (struct buf){.base = base, .cap = cap, .begin = 0, .end = len};
    return true;
}

bool buf_append(struct buf *b, const void *bytes, size_t n)
{
    if (n == 0) {
        return true;
    }
    if (!buf_reserve(b, n)) {
        return false;
    }
    memcpy(buf_end(b), bytes, n);
    b->end += n;
    return true;
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int need = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    must(need >= 0); /* it is negative only for a broken format string */

    /* The final NUL also needs room, but does not become content. */
    if (!buf_reserve(b, (size_t)need + 1)) {
        return false;
    }
    MF_FORMAT(buf_end(b), (size_t)need + 1, fmt);
    b->end += (size_t)need;
    return true;
}

void buf_consume(struct buf *b, size_t n)
{
    must(n <= buf_len(b));
    b->begin += n;
    if (b->begin == b->end) {
        buf_clear(b);
    }
}

void buf_clear(struct buf *b)
{
    b->begin = 0;
    b->end = 0;
}
