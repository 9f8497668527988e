/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the binary protocol: frames become requests. A frame is a header of 24 bytes, extras,
 * a key and a value, all numbers in network order:
 *
 *     0       1        2         4        5           6        8
 *     | magic | opcode | key len | extras | data type | status | body len 4 | opaque 4 |
 *     | cas 8 |
 *
 * In a request the two bytes of the status name a virtual bucket. Neither memcached nor this
 * server reads them, or the data type.
 */
#ifndef MAYFLY_PROTO_BIN_PARSE_H
#define MAYFLY_PROTO_BIN_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/bin_compose.h"
#include "proto/request.h"

#define BIN_REQUEST    0x80u /* magic: the first byte of a request, and of no text command */
#define BIN_EXTRAS_MAX 20u   /* of a request that is served */

/* Longest value of a SASL request; no mechanism that is served needs more. */
#define BIN_SASL_VALUE_MAX (8u * 1024)

struct bin_limits {
    /* Most bytes of key and value together. */
    size_t value_max;
};

/*
 * Parse one request at the front of buf. Never reads beyond len; gives the same result however
 * the input is split.
 *
 * PARSE_OK     *used bytes are one whole request, its value included; req->key has 1 to
 *              REQUEST_KEY_MAX bytes if its opcode needs a key. The number of an incr is in
 *              req->number, the value of a storage or SASL request in req->value.
 * PARSE_MORE   nothing can be decided until *used bytes are there, which is more than len.
 * PARSE_BODY   header, extras and key are *used bytes; req->value_len bytes follow, not all of
 *              which are there.
 * PARSE_REPLY  answer *reply, drop *used bytes, then swallow req->value_len more.
 * PARSE_CLOSE  answer *reply, if that is not BIN_REPLY_OK, and close: the input is not a
 *              request, or its lengths contradict each other.
 *
 * With the last three the opcode and opaque of req are set for the reply, except after a wrong
 * magic. A refused request is always answered, even a quiet one. Context: any thread.
 */
enum parse_status bin_parse(const char *buf, size_t len, const struct bin_limits *limits,
                            struct request *req, size_t *used, enum bin_reply *reply);

#endif
