/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growable byte buffer with a read mark and a write mark. The bytes between the marks are the
 * content. A buffer that is all zero is empty, and owns no memory until it is first written.
 */
#ifndef MAYFLY_LIB_BASE_BUF_H
#define MAYFLY_LIB_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/check.h"
#include "lib/base/span.h"

struct buf {
    char *base;   /* owned; NULL before the first reserve */
    size_t cap;   /* bytes at base */
    size_t begin; /* read mark */
    size_t end;   /* write mark */
};

/* Release the memory; the buffer is then all zero. Context: any thread. */
void buf_fini(struct buf *b);

/*
 * Make room for n more bytes after the write mark: move the content to the front if that is
 * enough, else grow. False when there is no memory; the content is then unchanged.
 * Context: any thread.
 */
bool buf_reserve(struct buf *b, size_t n);

/*
 * The same for content that is expected to have at most `most` bytes in all: the buffer grows
 * beyond that only if n needs it. Context: any thread.
 */
bool buf_reserve_within(struct buf *b, size_t n, size_t most);

/* Append bytes; false when there is no memory. Context: any thread. */
bool buf_append(struct buf *b, const void *bytes, size_t n);

/* Append formatted text; false when there is no memory. Context: any thread. */
bool buf_printf(struct buf *b, const char *fmt, ...) MF_PRINTF(2, 3);

/* Remove n bytes, at most the content, from the front. Context: any thread. */
void buf_consume(struct buf *b, size_t n);

/* Forget the content, keep the memory. Context: any thread. */
void buf_clear(struct buf *b);

static inline size_t buf_len(const struct buf *b)
{
    debug_must(b->begin <= b->end);
    return b->end - b->begin;
}

static inline char *buf_begin(const struct buf *b)
{
    return MF_AT(b->base, b->begin);
}

static inline char *buf_end(const struct buf *b)
{
    return MF_AT(b->base, b->end);
}

/* Bytes that fit after the write mark without growing. */
static inline size_t buf_room(const struct buf *b)
{
    must(b->end <= b->cap);
    return b->cap - b->end;
}

static inline struct span buf_span(const struct buf *b)
{
    return span_of(buf_begin(b), buf_len(b));
}

#endif
