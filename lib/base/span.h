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

/* What follows the first n bytes. */
static inline struct span span_after(struct span s, size_t n)
{
    debug_must(n <= s.len);
    return n > 0 ? (struct span){s.ptr + n, s.len - n} : s;
}

/*
 * Remove the bytes up to the first `end`, and that byte, from the front; return them without
 * it. Without `end` in *rest, remove and return everything.
 */
static inline struct span span_cut(struct span *rest, char end)
{
    const struct span all = *rest;
    const char *at = all.len > 0 ? (const char *)memchr(all.ptr, end, all.len) : NULL;

    if (at == NULL) {
        *rest = span_after(all, all.len);
        return all;
    }
    *rest = (struct span){at + 1, (size_t)(all.ptr + all.len - (at + 1))};
    return (struct span){all.ptr, (size_t)(at - all.ptr)};
}

/* Split at the first `mark`, which is in neither part. False: no mark; *before is all of s. */
static inline bool span_split(struct span s, char mark, struct span *before, struct span *after)
{
    *after = s;
    *before = span_cut(after, mark);
    return before->len < s.len;
}

/*
 * Remove spaces and the word after them from the front; return the word, empty if there is
 * none.
 */
static inline struct span span_word(struct span *rest)
{
    while (rest->len > 0 && rest->ptr[0] == ' ') {
        *rest = span_after(*rest, 1);
    }
    struct span after = *rest;
    struct span word = span_cut(&after, ' ');
    *rest = span_after(*rest, word.len);
    return word;
}

/* The number of words in rest. Stores the first `max` of them in word. */
static inline unsigned span_words(struct span rest, struct span *word, unsigned max)
{
    struct span next;
    unsigned count = 0;

    for (; (next = span_word(&rest)).len > 0; count++) {
        if (count < max) {
            word[count] = next;
        }
    }
    return count;
}

/*
 * Copy a few bytes, such as a key or a number, for which a call of memcpy() would cost more
 * than the copy itself. Copies 16, 8 or 4 bytes at a time; the last step ends at the end of the
 * source and may overlap the one before it. Source and target must not overlap. Context: any
 * thread.
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
