/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes responses of the binary protocol: outcomes and values become frames (drawn in
 * bin_parse.h). The caller provides enough room at `out`; no function fails.
 */
#ifndef MAYFLY_PROTO_BIN_COMPOSE_H
#define MAYFLY_PROTO_BIN_COMPOSE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/span.h"
#include "proto/request.h"

#define BIN_RESPONSE     0x81u /* magic: the first byte of a response */
#define BIN_HEADER_BYTES 24u

enum bin_opcode {
#define OPCODE(number, id, ...) BIN_##id = (number),
#include "proto/opcodes.def"
#undef OPCODE
};

/* Fixed replies: a status and its text. */
enum bin_reply {
#define BIN_REPLY(name, status, text) BIN_REPLY_##name,
#include "proto/bin_replies.def"
#undef BIN_REPLY
    BIN_REPLY_COUNT
};

/* Does the response carry the key? Context: any thread. */
static inline bool bin_wants_key(const struct request *req)
{
    return req->opcode == BIN_GETK || req->opcode == BIN_GETKQ || req->opcode == BIN_GATK ||
           req->opcode == BIN_GATKQ;
}

/* Lengths and status of a response; opcode and opaque come from the request. */
struct bin_head {
    uint16_t status;
    uint16_t key_len;
    uint8_t extras_len;
    uint32_t body_len; /* extras, key and value */
    uint64_t cas;
};

/* Write the header of a response, BIN_HEADER_BYTES, at out. Context: any thread. */
static inline void bin_compose_head(char *out, const struct request *req, struct bin_head head)
{
    uint64_t word[3];

    debug_must((size_t)head.key_len + head.extras_len <= head.body_len);
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
 * Write everything that precedes a value of value_len bytes: header, flags, and the key for
 * opcodes that want it. Returns its length. Context: any thread.
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

    must(key_len <= REQUEST_KEY_MAX && value_len <= INT32_MAX);
    bin_compose_head(out, req, head);
    memcpy(out + BIN_HEADER_BYTES, &be_flags, sizeof(be_flags));
    memcpy(out + BIN_VALUE_HEAD_MAX, req->key.ptr, key_len);
    return BIN_VALUE_HEAD_MAX + key_len;
}

/* Most bytes of a fixed reply, or of a number. */
#define BIN_REPLY_MAX 128u

/*
 * Write a fixed reply: its text is the body, and an error has no cas. Returns its length.
 * Context: any thread.
 */
size_t bin_compose_reply(char *out, const struct request *req, enum bin_reply reply,
                         uint64_t cas);

/*
 * Write "not found". The body is the key for opcodes that want it, else a text. Returns the
 * length, at most BIN_REPLY_MAX and the key's length. Context: any thread.
 */
size_t bin_compose_miss(char *out, const struct request *req);

/* Write the response with a number as its body. Returns its length. Context: any thread. */
size_t bin_compose_number(char *out, const struct request *req, uint64_t number, uint64_t cas);

/*
 * Write the frame of one statistic; two empty spans make the frame that ends statistics.
 * Returns the length, BIN_HEADER_BYTES more than name and value. Context: any thread.
 */
size_t bin_compose_stat(char *out, const struct request *req, struct span name,
                        struct span value);

/*
 * The reply to an outcome other than HIT, NUMBER and WAIT. BIN_REPLY_OK is success. Context:
 * any thread.
 */
enum bin_reply bin_reply_of(const struct request *req, enum outcome outcome);

#endif
