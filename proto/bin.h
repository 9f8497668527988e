/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binary protocol: frames to requests, outcomes to frames. A frame is a header of 24 bytes,
 * extras, a key and a value, all numbers in network order:
 *
 *     0       1        2         4        5           6        8
 *     | magic | opcode | key len | extras | data type | status | body len 4 | opaque 4 |
 *     | cas 8 |
 *
 * In a request the two bytes of the status name a virtual bucket. They and the data type say
 * nothing to memcached, nor here.
 */
#ifndef MAYFLY_PROTO_BIN_H
#define MAYFLY_PROTO_BIN_H

#include <endian.h>
#include <string.h>

#include "lib/base/err.h"
#include "proto/request.h"
#include "proto/text.h"

#define BIN_REQUEST      0x80u /* magic: the first byte of a request, and of no text command */
#define BIN_RESPONSE     0x81u
#define BIN_HEADER_BYTES 24u
#define BIN_EXTRAS_MAX   20u /* of a request that is served */
#define BIN_KEY_MAX      TEXT_KEY_MAX

/* Longest value of a SASL request; no mechanism that is served needs more. */
#define BIN_SASL_VALUE_MAX (8u * 1024)

enum bin_opcode {
#define OPCODE(number, id, ...) BIN_##id = (number),
#include "proto/opcodes.def"
#undef OPCODE
};

/* Answers that are no value: a status and its text. */
enum bin_reply {
#define BIN_REPLY(name, status, text) BIN_REPLY_##name,
#include "proto/bin_replies.def"
#undef BIN_REPLY
    BIN_REPLY_COUNT
};

struct bin_limits {
    /* Most bytes that key and value may have together. */
    size_t value_max;
};

/*
 * Parse one request at the front of buf. Never reads beyond len; allocates nothing; gives the
 * same result however the input is split. The statuses are those of text_parse():
 *
 * PARSE_OK     *used bytes are one whole request, its value included; req->key has 1 to
 *              BIN_KEY_MAX bytes where its opcode wants a key. The number of an incr is in
 *              req->number, what SASL or a storage command carries in req->value.
 * PARSE_MORE   nothing can be said before *used bytes are there, which is more than len.
 * PARSE_BODY   header, extras and key are *used bytes; req->value_len bytes follow, not all of
 *              which are there.
 * PARSE_REPLY  answer *reply, drop *used bytes, then swallow req->value_len more.
 * PARSE_CLOSE  answer *reply, if that is not BIN_REPLY_OK, and close: what is there is no
 *              request, or its lengths contradict each other.
 *
 * opcode and opaque of req are set for an answer with all of the last three, but for a wrong
 * magic. An answer to what is refused is never silent.
 * Context: any thread.
 */
enum parse_status bin_parse(const char *buf, size_t len, const struct bin_limits *limits,
                            struct request *req, size_t *used, enum bin_reply *reply);

/* Does the answer carry the key? Context: any thread. */
static inline bool bin_wants_key(const struct request *req)
{
    return req->opcode == BIN_GETK || req->opcode == BIN_GETKQ || req->opcode == BIN_GATK ||
           req->opcode == BIN_GATKQ;
}

/* Status and text of an answer. Context: any thread. */
uint16_t bin_reply_status(enum bin_reply reply);
struct span bin_reply_text(enum bin_reply reply);

/* Lengths and status of an answer; opcode and opaque come from the request. */
struct bin_head {
    uint16_t status;
    uint16_t key_len;
    uint8_t extras_len;
    uint32_t body_len; /* extras, key and value */
    uint64_t cas;
};

/* Write the header of an answer, BIN_HEADER_BYTES, at out. Context: any thread. */
static inline void bin_compose_head(char *out, const struct request *req, struct bin_head head)
{
    uint64_t word[3];

    word[0] =
        htobe64((uint64_t)BIN_RESPONSE << 56 | (uint64_t)req->opcode << 48 |
                (uint64_t)head.key_len << 32 | (uint64_t)head.extras_len << 24 | head.status);
    word[1] = htobe64((uint64_t)head.body_len << 32 | req->opaque);
    word[2] = htobe64(head.cas);
    memcpy(out, word, sizeof(word));
}

/* Longest that bin_compose_value() writes, without the key. */
#define BIN_VALUE_HEAD_MAX (BIN_HEADER_BYTES + 4)

/*
 * Write what stands before a value of value_len bytes: header, flags, and the key for opcodes
 * that want it. Returns its length. Context: any thread.
 */
static inline size_t bin_compose_value(char *out, const struct request *req, uint32_t flags,
                                       size_t value_len, uint64_t cas)
{
    size_t key_len = bin_wants_key(req) ? req->key.len : 0;
    uint32_t be_flags = htobe32(flags);
    struct bin_head head = {
        .key_len = (uint16_t)key_len,
        .extras_len = sizeof(be_flags),
        .body_len = (uint32_t)(sizeof(be_flags) + key_len + value_len),
        .cas = cas,
    };

    bin_compose_head(out, req, head);
    memcpy(out + BIN_HEADER_BYTES, &be_flags, sizeof(be_flags));
    memcpy(out + BIN_VALUE_HEAD_MAX, req->key.ptr, key_len);
    return BIN_VALUE_HEAD_MAX + key_len;
}

/* Longest fixed answer, or number. */
#define BIN_REPLY_MAX 128u

/*
 * Write a fixed answer; it has a body, its text, and no cas when it is an error. Returns its
 * length. Context: any thread.
 */
size_t bin_compose_reply(char *out, const struct request *req, enum bin_reply reply,
                         uint64_t cas);

/*
 * Write "not found": its text, or for opcodes that want the key, that. BIN_REPLY_MAX and the
 * key's length at most. Returns its length. Context: any thread.
 */
size_t bin_compose_miss(char *out, const struct request *req);

/* Write the answer with a number in its body. Returns its length. Context: any thread. */
size_t bin_compose_number(char *out, const struct request *req, uint64_t number, uint64_t cas);

/*
 * Write one statistic, BIN_HEADER_BYTES longer than both together; two empty spans make the
 * frame that ends statistics. Returns its length. Context: any thread.
 */
size_t bin_compose_stat(char *out, const struct request *req, struct span name,
                        struct span value);

/*
 * The answer to an outcome other than HIT, NUMBER and WAIT. BIN_REPLY_OK is success. Context:
 * any thread.
 */
enum bin_reply bin_reply_of(const struct request *req, enum outcome outcome);

#endif
