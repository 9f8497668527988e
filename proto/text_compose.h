/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes replies of the text protocol: outcomes and values become bytes. The caller provides
 * enough room at `out`; no function fails. Replies of meta commands: meta_compose.h.
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

/* Most bytes that text_compose_value() writes, without the key. */
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

/* Most bytes of a fixed reply or a number, line end included. */
#define TEXT_REPLY_MAX 256

/*
 * Write the reply to a request with this outcome; nothing for noreply. number: the number of
 * OUT_NUMBER; for CLASS_TTL it is an int64_t, and may be negative. Returns the length. Context:
 * any thread.
 */
size_t text_compose(char *out, const struct request *req, enum outcome outcome,
                    uint64_t number);

/*
 * Write the reply to `version`; returns its length, TEXT_REPLY_MAX at most. Context: any
 * thread.
 */
size_t text_compose_version(char *out, struct span version);

/*
 * Write CLIENT_ERROR with a reason, of which at most TEXT_REASON_MAX bytes are written. Control
 * bytes become question marks. Returns the length, at most TEXT_REPLY_MAX. Context: any thread.
 */
#define TEXT_REASON_MAX (TEXT_REPLY_MAX - 16)
size_t text_compose_refusal(char *out, struct span reason);

/* The same with SERVER_ERROR. Context: any thread. */
size_t text_compose_failure(char *out, struct span reason);

/*
 * text_compose() for OUT_STORED, without a call: nearly all stores end like this. The reply is
 * also written for noreply, which saves a branch, but then the returned length is 0. Context:
 * any thread.
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
 * text_compose() for OUT_NUMBER, when the caller has the n digits of the number already. The
 * whole array is copied, with two moves and no loop; the returned length counts only n digits.
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
