/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of mg and ms. It accepts lines of the usual form: words are separated by one
 * space, numbers are plain digits, and the flags are in DIRECT_MG_FLAGS or DIRECT_MS_FLAGS, F
 * and T included. Any other line is parsed by the general code (meta_parse.c), which would make
 * the same request of a line that is accepted here. Only text_parse.c includes this header; it
 * keeps each of the two in a function of its own. Context: any thread.
 */
#ifndef MAYFLY_PROTO_META_INLINE_H
#define MAYFLY_PROTO_META_INLINE_H

#include "lib/base/check.h"
#include "proto/direct.h"
#include "proto/meta_parse.h"
#include "proto/text_parse.h"

/* Flags without a token in a plain get and in a plain set; O may have one. No base64 keys. */
#define DIRECT_MG_FLAGS                                                                        \
    (META_LETTER('c') | META_LETTER('f') | META_LETTER('h') | META_LETTER('k') |               \
     META_LETTER('l') | META_LETTER('q') | META_LETTER('s') | META_LETTER('t') |               \
     META_LETTER('u') | META_LETTER('v') | META_LETTER('O'))
#define DIRECT_MS_FLAGS                                                                        \
    (META_LETTER('c') | META_LETTER('k') | META_LETTER('q') | META_LETTER('s') |               \
     META_LETTER('O'))

/* Most digits of F and T that cannot exceed 32 bits. */
#define DIRECT_FLAG_DIGITS 9

/*
 * Find the end of the token at p: of O (any bytes), T or F (digits). The end is a space or a
 * lower byte. NULL if the token is invalid or too long, or its end has not arrived.
 */
static inline const char *direct_token(const char *p, const char *end, char letter)
{
    size_t max = DIRECT_FLAG_DIGITS;
    const char *begin = p;

    if (letter == 'O') {
        while (p < end && (unsigned char)*p > ' ') {
            p++;
        }
        max = META_OPAQUE_MAX;
    } else {
        while (p < end && words_is_digit(*p)) {
            p++;
        }
    }
    return p < end && (unsigned char)*p <= ' ' && (size_t)(p - begin) <= max ? p : NULL;
}

/* Flags that must have a token here. O may have one. */
#define DIRECT_TOKENS (META_LETTER('F') | META_LETTER('T'))

/*
 * Read flags from p on, each after one space and none twice: those of `plain` without a token,
 * and O, T and F with one. Returns where they end, and sets *letters to the set of them; NULL
 * if the general code must parse the line.
 */
static inline const char *direct_flags(const char *p, const char *end, uint64_t plain,
                                       uint64_t *letters)
{
    uint64_t left = plain;           /* flags without a token that may still come */
    uint64_t tokens = DIRECT_TOKENS; /* flags with a token that may still come */

    /* A space, a letter and what ends it: all three are read. */
    for (const char *last = end - 2; p < last && *p == ' ';) {
        unsigned place = (unsigned char)p[1] - (unsigned)'A';

        p += 2;
        if (place > 'z' - 'A') {
            return NULL;
        }
        if ((unsigned char)*p <= ' ') {
            if ((left >> place & 1) == 0) {
                return NULL;
            }
            left ^= UINT64_C(1) << place;
            continue;
        }
        if (((tokens | (left & META_LETTER('O'))) >> place & 1) == 0) {
            return NULL;
        }
        left &= ~(UINT64_C(1) << place);
        tokens &= ~(UINT64_C(1) << place);
        p = direct_token(p, end, p[-1]);
        if (p == NULL) {
            return NULL;
        }
    }
    *letters = (plain ^ left) | (DIRECT_TOKENS ^ tokens);
    debug_must((*letters & ~(plain | DIRECT_TOKENS)) == 0 && p <= end);
    return p;
}

/* The flags between a gap at `begin` and p, without the first space; empty if begin is p. */
static inline struct span direct_args(const char *begin, const char *p)
{
    debug_must(begin <= p);
    begin += begin < p;
    return span_of(begin, (size_t)(p - begin));
}

/* "mg key[ flags]\r\n"; buf starts with "mg ". False if the general code must parse it. */
static inline bool try_mg(const char *buf, size_t len, struct request *req, size_t *used)
{
    const char *end = buf + len;
    uint64_t letters;
    struct span key;
    const char *gap = direct_key(buf + 3, end, &key);
    const char *p;

    if (gap == NULL || (p = direct_flags(gap, end, DIRECT_MG_FLAGS, &letters)) == NULL ||
        !at_line_end(p, end)) {
        return false;
    }
    begin_text_request(req, CMD_MG, CLASS_META);
    req->key = key;
    req->args = direct_args(gap, p);
    req->letters = letters;
    *used = (size_t)(p + 2 - buf);
    debug_must(*used <= len);
    return true;
}

/*
 * "ms key bytes[ flags]\r\n" and the value; buf starts with "ms ". False if the general code
 * must parse it, for example because the value has not arrived.
 */
static inline bool try_ms(const char *buf, size_t len, const struct text_limits *limits,
                          struct request *req, size_t *used)
{
    const char *end = buf + len;
    uint64_t letters;
    uint64_t bytes;
    struct span key;
    const char *gap = direct_key(buf + 3, end, &key);
    const char *p = gap;

    if (p == NULL || ends_in_number(end) || *p != ' ' ||
        (p = direct_number(p + 1, &bytes)) == NULL || p - gap > DIRECT_DIGITS + 1) {
        return false;
    }
    gap = p;
    p = direct_flags(p, end, DIRECT_MS_FLAGS, &letters);
    if (p == NULL || (size_t)(end - p) < bytes + 4 || !is_line_end(p) ||
        !is_line_end(p + 2 + bytes) || bytes > TEXT_VALUE_LEN_MAX ||
        key.len + bytes > limits->value_max) {
        return false;
    }
    begin_text_request(req, CMD_MS, CLASS_META);
    req->key = key;
    req->args = direct_args(gap, p);
    req->letters = letters;
    req->value = span_of(p + 2, bytes);
    req->value_len = bytes;
    *used = (size_t)(p + 2 + bytes + 2 - buf);
    debug_must(*used <= len && req->key.len + req->value_len <= limits->value_max);
    return true;
}

#endif
