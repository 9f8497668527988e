/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text protocol, the way out: outcomes and values to bytes. The caller reserves the room;
 * nothing here fails. The replies of meta commands are in meta_compose.h.
 */
#ifndef MAYFLY_PROTO_TEXT_COMPOSE_H
#define MAYFLY_PROTO_TEXT_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/num.h"
#include "lib/base/span.h"
#include "proto/reply.h"
#include "proto/request.h"

/* Longest line that text_compose_value() makes, without key: "VALUE  flags bytes cas\r\n". */
#define TEXT_VALUE_LINE_MAX (6 + 1 + 10 + 1 + 20 + 1 + 20 + 2)

/*
 * Write "VALUE key flags bytes[ cas]\r\n" at out; returns its length. Inlined into gets,
 * which know that flags and length of most items are small. Context: any thread.
 */
static MF_INLINE size_t text_compose_value(char *out, const char *key, size_t key_len,
                                           uint32_t flags, size_t value_len, bool with_cas,
                                           uint64_t cas)
{
    char *p = out;

    must(key_len <= REQUEST_KEY_MAX);
    memcpy(p, "VALUE ", 6);
    p += 6;
    span_copy_short(p, key, key_len);
    p += key_len;
    *p++ = ' ';
    p = num_put_short(p, flags);
    *p++ = ' ';
    p = num_put_short(p, value_len);
    if (with_cas) {
        *p++ = ' ';
        p += num_put_u64(p, cas);
    }
    memcpy(p, "\r\n", 2);
    debug_must((size_t)(p + 2 - out) <= TEXT_VALUE_LINE_MAX + key_len);
    return (size_t)(p + 2 - out);
}

/* Longest fixed reply or number, line end included. */
#define TEXT_REPLY_MAX 256

/*
 * Write the reply to a request with this outcome; nothing for noreply. number: of OUT_NUMBER;
 * one of CLASS_TTL may be negative. Returns its length. Context: any thread.
 */
size_t text_compose(char *out, const struct request *req, enum outcome outcome,
                    uint64_t number);

/*
 * Write the reply to `version`; returns its length, TEXT_REPLY_MAX at most. Context: any
 * thread.
 */
size_t text_compose_version(char *out, struct span version);

/*
 * Write an error of the client with its reason, at most TEXT_REASON_MAX bytes of it; control
 * bytes become question marks. Returns its length, TEXT_REPLY_MAX at most. Context: any thread.
 */
#define TEXT_REASON_MAX (TEXT_REPLY_MAX - 16)
size_t text_compose_refusal(char *out, struct span reason);

/* The same for an error of the server. */
size_t text_compose_failure(char *out, struct span reason);

/*
 * text_compose() for OUT_STORED, without a call: nearly all stores end like this. With noreply
 * it is written too, into room that is there anyway, and then not counted. Context: any thread.
 */
static inline size_t text_compose_stored(char *out, const struct request *req)
{
    debug_must(req->cls == CLASS_STORE);
    memcpy(out, REPLY_BYTES(STORED), REPLY_LEN(STORED));
    return req->noreply ? 0 : REPLY_LEN(STORED);
}

/* The same for OUT_TOUCHED. Context: any thread. */
static inline size_t text_compose_touched(char *out, const struct request *req)
{
    debug_must(req->cls == CLASS_TOUCH);
    memcpy(out, REPLY_BYTES(TOUCHED), REPLY_LEN(TOUCHED));
    return req->noreply ? 0 : REPLY_LEN(TOUCHED);
}

/*
 * text_compose() for OUT_NUMBER, when the caller has the n digits of the number already. All
 * places of `digits` are copied, which takes two moves and no loop, and only n are counted.
 * Context: any thread.
 */
static inline size_t text_compose_digits(char *out, const struct request *req,
                                         const char digits[NUM_DIGITS_MAX], size_t n)
{
    must(n >= 1 && n <= NUM_DIGITS_MAX);
    memcpy(out, digits, NUM_DIGITS_MAX);
    memcpy(out + n, "\r\n", 2);
    return req->noreply ? 0 : n + 2;
}

#endif
