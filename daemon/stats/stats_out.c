/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats_parts.h.
 */
#include "daemon/stats/stats_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/num.h"
#include "proto/reply.h"

/* Longest value that stats_putf() makes: a replica with an address of REPLICA_ADDRESS_BYTES. */
#define VALUE_MAX 512

void stats_prefix(struct stats_out *o, const char *fmt, ...)
{
    MF_FORMAT(o->prefix, sizeof(o->prefix), fmt);
}

static void stats_put_value(struct stats_out *o, const char *name, const char *value,
                            size_t value_len)
{
    size_t prefix_len = strlen(o->prefix);
    size_t name_len = strlen(name);

    debug_must(name_len > 0);
    if (o->is_short || !buf_reserve(o->buf, 5 + prefix_len + name_len + 1 + value_len + 2)) {
        o->is_short = true;
        return;
    }
    char *at = buf_end(o->buf);
    memcpy(at, "STAT ", 5);
    at += 5;
    memcpy(at, o->prefix, prefix_len);
    at += prefix_len;
    memcpy(at, name, name_len);
    at += name_len;
    *at++ = ' ';
    memcpy(at, value, value_len);
    at += value_len;
    *at++ = '\r';
    *at++ = '\n';
    debug_must(at <= buf_end(o->buf) + buf_room(o->buf));
    o->buf->end = (size_t)(at - o->buf->base);
}

void stats_put_u64(struct stats_out *o, const char *name, uint64_t value)
{
    char digits[NUM_DIGITS_MAX];

    stats_put_value(o, name, digits, num_put_u64(digits, value));
}

void stats_put_i64(struct stats_out *o, const char *name, int64_t value)
{
    char digits[NUM_DIGITS_MAX];

    stats_put_value(o, name, digits, num_put_i64(digits, value));
}

void stats_put_text(struct stats_out *o, const char *name, const char *value)
{
    stats_put_value(o, name, value, strlen(value));
}

void stats_putf(struct stats_out *o, const char *name, const char *fmt, ...)
{
    char value[VALUE_MAX];

    MF_FORMAT(value, sizeof(value), fmt);
    stats_put_value(o, name, value, strlen(value));
}

void stats_put_raw(struct stats_out *o, const char *line)
{
    if (o->is_short || !buf_append(o->buf, line, strlen(line))) {
        o->is_short = true;
    }
}

bool stats_out_end(struct stats_out *o, size_t start)
{
    stats_put_raw(o, REPLY_BYTES(END));
    if (!o->is_short) {
        return true;
    }
    must(start <= buf_len(o->buf));
    /* Drop the written text, which makes room for the error. */
    o->buf->end = o->buf->begin + start;
    return buf_append(o->buf, REPLY_BYTES(NO_MEMORY_STATS), REPLY_LEN(NO_MEMORY_STATS));
}
