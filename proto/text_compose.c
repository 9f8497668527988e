/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classic text protocol, the way out. Any thread.
 */
#include "proto/text_compose.h"

#include <string.h>

#include "lib/base/check.h"

/* The reply to success: the verb of the command in its past tense. */
static enum reply success_of(const struct request *req)
{
    static const enum reply replies[] = {
        [CLASS_GET] = REPLY_END,        [CLASS_STORE] = REPLY_STORED,
        [CLASS_DELETE] = REPLY_DELETED, [CLASS_ARITH] = REPLY_OK, /* composed from the number */
        [CLASS_TOUCH] = REPLY_TOUCHED,
    };

    return req->cls <= CLASS_TOUCH ? replies[req->cls] : REPLY_OK;
}

/*
 * The reply when the key is absent: stores that need it there have a reply of their own, except
 * cas.
 */
static enum reply miss_of(const struct request *req)
{
    if (req->cls == CLASS_GET) {
        return REPLY_END;
    }
    return req->cls == CLASS_STORE && req->command != CMD_CAS ? REPLY_NOT_STORED
                                                              : REPLY_NOT_FOUND;
}

/*
 * append and prepend announce a length that fits; when the sum does not fit, memcached says
 * "not stored".
 */
static enum reply too_large_of(const struct request *req)
{
    bool extends = req->command == CMD_APPEND || req->command == CMD_PREPEND;

    return extends ? REPLY_NOT_STORED : REPLY_TOO_LARGE;
}

static enum reply no_memory_of(const struct request *req)
{
    return req->cls == CLASS_STORE   ? REPLY_NO_MEMORY_STORE
           : req->cls == CLASS_ARITH ? REPLY_NO_MEMORY_INCR
                                     : REPLY_NO_MEMORY;
}

static enum reply reply_of(const struct request *req, enum outcome outcome)
{
    /* Of outcomes that have one reply, whatever the command. OUT_WAIT: it is tried again. */
    static const enum reply replies[OUT_COUNT] = {
        [OUT_STORED] = REPLY_STORED,           [OUT_NOT_STORED] = REPLY_NOT_STORED,
        [OUT_EXISTS] = REPLY_EXISTS,           [OUT_NOT_FOUND] = REPLY_NOT_FOUND,
        [OUT_DELETED] = REPLY_DELETED,         [OUT_TOUCHED] = REPLY_TOUCHED,
        [OUT_NON_NUMERIC] = REPLY_NON_NUMERIC,
    };

    switch (outcome) {
    case OUT_OK:
    case OUT_HIT:
        return success_of(req);
    case OUT_MISS:
        return miss_of(req);
    case OUT_TOO_LARGE:
        return too_large_of(req);
    case OUT_NO_MEMORY:
        return no_memory_of(req);
    default:
        return replies[outcome];
    }
}

size_t text_compose(char *out, const struct request *req, enum outcome outcome, uint64_t number)
{
    if (req->noreply) {
        return 0;
    }
    if (outcome == OUT_NUMBER) {
        char *end = req->cls == CLASS_TTL ? out + num_put_i64(out, (int64_t)number)
                                          : num_put_short(out, number);
        memcpy(end, "\r\n", 2);
        return (size_t)(end + 2 - out);
    }
    struct span text = reply_text(reply_of(req, outcome));
    must(text.len <= TEXT_REPLY_MAX);
    memcpy(out, text.ptr, text.len);
    return text.len;
}

size_t text_compose_version(char *out, struct span version)
{
    char *p = out;

    must(version.len <= TEXT_REPLY_MAX - 10);
    memcpy(p, "VERSION ", 8);
    p += 8;
    memcpy(p, version.ptr, version.len);
    p += version.len;
    memcpy(p, "\r\n", 2);
    return (size_t)(p + 2 - out);
}

static size_t compose_reason(char *out, struct span first, struct span reason)
{
    size_t len = reason.len < TEXT_REASON_MAX ? reason.len : TEXT_REASON_MAX;
    char *p = out + first.len;

    memcpy(out, first.ptr, first.len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)reason.ptr[i];

        *p++ = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    memcpy(p, "\r\n", 2);
    return (size_t)(p + 2 - out);
}

size_t text_compose_refusal(char *out, struct span reason)
{
    return compose_reason(out, span_of(REPLY_BYTES(CONFIG_REFUSED), REPLY_LEN(CONFIG_REFUSED)),
                          reason);
}

size_t text_compose_failure(char *out, struct span reason)
{
    return compose_reason(out, span_of(REPLY_BYTES(CONFIG_FAILED), REPLY_LEN(CONFIG_FAILED)),
                          reason);
}
