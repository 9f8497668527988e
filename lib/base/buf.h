/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growable byte buffer with a read mark and a write mark. Bytes between the
 * marks are the content. An empty buffer owns no memory until first written.
 */
#ifndef MAYFLY_LIB_BASE_BUF_H
#define MAYFLY_LIB_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/check.h"
#include "lib/base/span.h"

struct buf {
    char *base;   /* owned; NULL while nothing was ever reserved */
    size_t cap;   /* bytes at base */
    size_t begin; /* read mark */
    size_t end;   /* write mark */
};

/* Make an empty buffer that owns nothing. Context: any thread. */
void buf_init(struct buf *b);

/* Give the memory back; the buffer is as after buf_init(). Context: any thread. */
void buf_fini(struct buf *b);

/*
 * Make room for n more bytes behind the write mark; moves content to the front
 * before it grows. False when there is no memory; the content is then unchanged.
 * Context: any thread.
 */
bool buf_reserve(struct buf *b, size_t n);

/* Append bytes; false when there is no memory. Context: any thread. */
bool buf_append(struct buf *b, const void *bytes, size_t n);

/* Append as printf does; false when there is no memory. Context: any thread. */
bool buf_printf(struct buf *b, const char *fmt, ...) MF_PRINTF(2, 3);

/* Take n bytes (at most the content) off the front. Context: any thread. */
void buf_consume(struct buf *b, size_t n);

/* Forget the content, keep the memory. Context: any thread. */
void buf_clear(struct buf *b);

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->begin;
}

static inline char *buf_begin(const struct buf *b)
{
    return b->base + b->begin;
}

static inline char *buf_end(const struct buf *b)
{
    return b->base + b->end;
}

/* Room behind the write mark without growing. */
static inline size_t buf_room(const struct buf *b)
{
    return b->cap - b->end;
}

static inline struct span buf_span(const struct buf *b)
{
    return span_of(buf_begin(b), buf_len(b));
}

#endif
