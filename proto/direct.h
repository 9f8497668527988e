/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the direct way through text_parse.c is made of: the parts that recognise a key, a number
 * or a line's end where it stands, and those that begin a request. Private to the parsers of
 * text. No state, any thread.
 */
#ifndef MAYFLY_PROTO_DIRECT_H
#define MAYFLY_PROTO_DIRECT_H

#include <string.h>

#include "proto/text.h"
#include "proto/words.h"

/* ---- a request begins -------------------------------------------------------------------- */

/* No bytes. Compilers make one store of 16 bytes of this, and two of an assignment. */
static inline void clear_span(struct span *span)
{
    memset(span, 0, sizeof(*span));
}

/*
 * Clear what only other commands than set have. Field by field: for a run of them compilers
 * emit a string instruction, which takes longer to start than the rest of a get takes to parse.
 */
static inline void clear_uncommon(struct request *req)
{
    clear_span(&req->more);
    clear_span(&req->args);
    req->cas = 0;
    req->wants_cas = false;
}

/* An empty request but for its key; the hash is the executor's. */
static inline void begin_request(struct request *req, enum command command,
                                 enum command_class cls)
{
    clear_span(&req->value);
    req->value_len = 0;
    req->exptime = 0;
    req->flags = 0;
    req->command = (uint8_t)command;
    req->cls = (uint8_t)cls;
    req->noreply = false;
    req->invalidate = false;
    clear_uncommon(req);
}

/* ---- what a line consists of ------------------------------------------------------------- */

/* Shortest input the direct way looks at: words_find_gap() wants eight readable bytes. */
#define DIRECT_MIN 8

/* A key of a good length that one space or a line end follows; NULL when it is not that. */
static inline const char *direct_key(const char *p, const char *end, struct span *key)
{
    const char *gap = words_find_gap(p, end);
    size_t len = (size_t)(gap - p);

    /* One comparison for both ends: 0 - 1 wraps around. */
    if (len - 1 >= TEXT_KEY_MAX || gap == end) {
        return NULL;
    }
    *key = span_of(p, len);
    return gap;
}

/* The most digits of a number that cannot overflow, neither unsigned nor signed. */
#define DIRECT_DIGITS 18

/*
 * True when the input ends where direct_number() could run off it, that is in a space or a
 * digit. Looking once at the last byte saves it a comparison per digit; one range instead of
 * two hits a few bytes more, which go the general way for nothing.
 */
static inline bool ends_in_number(const char *end)
{
    return (unsigned char)(end[-1] - ' ') <= '9' - ' ';
}

/*
 * Digits, any number of them: whoever calls makes sure that there were no more than
 * DIRECT_DIGITS. NULL when there is none. Between a space and the end of the input, which is
 * not in a number, so there is a byte at p and one behind the last digit.
 */
static inline const char *direct_number(const char *p, uint64_t *out)
{
    unsigned digit = (unsigned char)*p - (unsigned)'0';
    uint64_t n = digit;

    if (digit >= 10) {
        return NULL;
    }
    while ((digit = (unsigned char)*++p - (unsigned)'0') < 10) {
        n = n * 10 + digit;
    }
    *out = n;
    return p;
}

/* Two bytes at p, which must be there. */
static inline bool is_line_end(const char *p)
{
    return memcmp(p, "\r\n", 2) == 0;
}

static inline bool at_line_end(const char *p, const char *end)
{
    return end - p >= 2 && is_line_end(p);
}

#endif
