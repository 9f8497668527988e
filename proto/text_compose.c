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
    switch ((enum command_class)req->cls) {
    case CLASS_GET:
        return REPLY_END;
    case CLASS_STORE:
        return REPLY_STORED;
    case CLASS_DELETE:
        return REPLY_DELETED;
    case CLASS_TOUCH:
        return REPLY_TOUCHED;
    default: /* answers of the others on keys are numbers */
        return REPLY_OK;
    }
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
    switch ((enum command_class)req->cls) {
    case CLASS_STORE:
        return REPLY_NO_MEMORY_STORE;
    case CLASS_ARITH:
        return REPLY_NO_MEMORY_INCR;
    default:
        return REPLY_NO_MEMORY;
    }
}

static enum reply reply_of(const struct request *req, enum outcome outcome)
{
    switch (outcome) {
    case OUT_OK:
    case OUT_HIT:
        return success_of(req);
    case OUT_MISS:
        return miss_of(req);
    case OUT_STORED:
        return REPLY_STORED;
    case OUT_NOT_STORED:
        return REPLY_NOT_STORED;
    case OUT_EXISTS:
        return REPLY_EXISTS;
    case OUT_NOT_FOUND:
        return REPLY_NOT_FOUND;
    case OUT_DELETED:
        return REPLY_DELETED;
    case OUT_TOUCHED:
        return REPLY_TOUCHED;
    case OUT_NON_NUMERIC:
        return REPLY_NON_NUMERIC;
    case OUT_TOO_LARGE:
        return too_large_of(req);
    case OUT_NO_MEMORY:
        return no_memory_of(req);
    case OUT_NUMBER: /* composed from the number */
    case OUT_WAIT:   /* not a reply: the request will be tried again */
    case OUT_COUNT:
        break;
    }
    return REPLY_NONE;
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
