/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for the fast path of text_parse.c: they recognise a key, a number or a line end in
 * the input buffer, and begin a request. Only text_parse.c and meta_inline.h include this
 * header. Context: any thread.
 */
#ifndef MAYFLY_PROTO_DIRECT_H
#define MAYFLY_PROTO_DIRECT_H

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/span.h"
#include "proto/request.h"
#include "proto/words.h"

/* ---- a request begins -------------------------------------------------------------------- */

/* Empty a span. Compilers make one store of 16 bytes of this, and two of an assignment. */
static inline void clear_span(struct span *span)
{
    memset(span, 0, sizeof(*span));
}

/*
 * Clear the fields that set does not use. One by one: for a run of fields compilers emit a
 * string instruction, which takes longer to start than the rest of a get takes to parse.
 */
static inline void clear_uncommon(struct request *req)
{
    clear_span(&req->more);
    clear_span(&req->args);
    req->cas = 0;
    req->wants_cas = false;
}

/* Empty all fields but the key, and the hash, which the executor sets. */
static inline void begin_text_request(struct request *req, enum command command,
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

/* Shortest input of the fast path: words_find_gap() needs eight readable bytes. */
#define DIRECT_MIN 8

/*
 * A key of a valid length, from p on. Returns its end, which is a space or a lower byte; NULL
 * when there is no such key.
 */
static inline const char *direct_key(const char *p, const char *end, struct span *key)
{
    const char *gap = words_find_gap(p, end);
    size_t len = (size_t)(gap - p);

    /* One comparison for both ends: 0 - 1 wraps around. */
    if (len - 1 >= REQUEST_KEY_MAX || gap == end) {
        return NULL;
    }
    *key = span_of(p, len);
    return gap;
}

/* Most digits of a number that cannot overflow, signed or unsigned. */
#define DIRECT_DIGITS 18

/*
 * True when direct_number() could run off the end of the input, because it ends in a space or a
 * digit. Checking the last byte once saves a comparison per digit. The range also has the bytes
 * between the two; input that ends in one of them takes the general path without need.
 */
static inline bool ends_in_number(const char *end)
{
    return (unsigned char)(end[-1] - ' ') <= '9' - ' ';
}

/*
 * Read digits to *out. The caller checks afterwards that there were at most DIRECT_DIGITS.
 * Returns the end of the digits; NULL when there is none. The byte before p is a space and
 * ends_in_number() is false, so there is a byte at p and one after the last digit.
 */
static inline const char *direct_number(const char *p, uint64_t *out)
{
    debug_must(p[-1] == ' ');

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

/* Is there a line end at p? Two bytes must be readable. */
static inline bool is_line_end(const char *p)
{
    return memcmp(p, "\r\n", 2) == 0;
}

/* Is there a line end at p? The input may end earlier. */
static inline bool at_line_end(const char *p, const char *end)
{
    return end - p >= 2 && is_line_end(p);
}

#endif
