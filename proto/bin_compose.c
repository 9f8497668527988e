/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binary protocol, the way out. Any thread.
 */
#include "proto/bin_compose.h"

#include <endian.h>
#include <string.h>

struct reply_row {
    uint16_t status;
    struct span text;
};

static const struct reply_row replies[BIN_REPLY_COUNT] = {
#define BIN_REPLY(name, status, text) [BIN_REPLY_##name] = {status, {text, sizeof(text) - 1}},
#include "proto/bin_replies.def"
#undef BIN_REPLY
};

#define BIN_REPLY(name, status, text)                                                          \
    _Static_assert(BIN_HEADER_BYTES + sizeof(text) - 1 <= BIN_REPLY_MAX,                       \
                   "BIN_REPLY_MAX holds every reply");
#include "proto/bin_replies.def"
#undef BIN_REPLY

size_t bin_compose_reply(char *out, const struct request *req, enum bin_reply reply,
                         uint64_t cas)
{
    must(reply < BIN_REPLY_COUNT);

    const struct reply_row *row = &replies[reply];
    struct bin_head head = {
        .status = row->status,
        .body_len = (uint32_t)row->text.len,
        .cas = row->status == 0 ? cas : 0,
    };

    bin_compose_head(out, req, head);
    memcpy(out + BIN_HEADER_BYTES, row->text.ptr, row->text.len);
    return BIN_HEADER_BYTES + row->text.len;
}

size_t bin_compose_miss(char *out, const struct request *req)
{
    struct bin_head head = {
        .status = replies[BIN_REPLY_NOT_FOUND].status,
        .key_len = (uint16_t)req->key.len,
        .body_len = (uint32_t)req->key.len,
    };

    if (!bin_wants_key(req)) {
        return bin_compose_reply(out, req, BIN_REPLY_NOT_FOUND, 0);
    }
    must(req->key.len <= REQUEST_KEY_MAX);
    bin_compose_head(out, req, head);
    memcpy(out + BIN_HEADER_BYTES, req->key.ptr, req->key.len);
    return BIN_HEADER_BYTES + req->key.len;
}

size_t bin_compose_number(char *out, const struct request *req, uint64_t number, uint64_t cas)
{
    uint64_t be_number = htobe64(number);
    struct bin_head head = {.body_len = sizeof(be_number), .cas = cas};

    bin_compose_head(out, req, head);
    memcpy(out + BIN_HEADER_BYTES, &be_number, sizeof(be_number));
    return BIN_HEADER_BYTES + sizeof(be_number);
}

size_t bin_compose_stat(char *out, const struct request *req, struct span name,
                        struct span value)
{
    struct bin_head head = {
        .key_len = (uint16_t)name.len,
        .body_len = (uint32_t)(name.len + value.len),
    };

    must(name.len <= UINT16_MAX && value.len <= INT32_MAX);
    bin_compose_head(out, req, head);
    if (name.len > 0) {
        memcpy(out + BIN_HEADER_BYTES, name.ptr, name.len);
    }
    if (value.len > 0) {
        memcpy(out + BIN_HEADER_BYTES + name.len, value.ptr, value.len);
    }
    return BIN_HEADER_BYTES + name.len + value.len;
}

/* add and replace fail with the status that says what they found. */
static enum bin_reply not_stored_of(const struct request *req)
{
    if (req->command == CMD_ADD) {
        return BIN_REPLY_EXISTS;
    }
    return req->command == CMD_REPLACE ? BIN_REPLY_NOT_FOUND : BIN_REPLY_NOT_STORED;
}

/*
 * append and prepend announce a length that fits; when the sum does not fit, memcached says
 * "not stored".
 */
static enum bin_reply too_large_of(const struct request *req)
{
    bool extends = req->command == CMD_APPEND || req->command == CMD_PREPEND;

    return extends ? BIN_REPLY_NOT_STORED : BIN_REPLY_TOO_LARGE;
}

static enum bin_reply no_memory_of(const struct request *req)
{
    switch ((enum command)req->command) {
    case CMD_SET:
    case CMD_ADD:
    case CMD_REPLACE:
    case CMD_APPEND:
    case CMD_PREPEND:
        return BIN_REPLY_NO_MEMORY_STORE;
    case CMD_INCR:
    case CMD_DECR:
        return BIN_REPLY_NO_MEMORY_INCR;
    default:
        return BIN_REPLY_NO_MEMORY;
    }
}

enum bin_reply bin_reply_of(const struct request *req, enum outcome outcome)
{
    switch (outcome) {
    case OUT_MISS:
    case OUT_NOT_FOUND:
        return BIN_REPLY_NOT_FOUND;
    case OUT_NOT_STORED:
        return not_stored_of(req);
    case OUT_EXISTS:
        return BIN_REPLY_EXISTS;
    case OUT_NON_NUMERIC:
        return BIN_REPLY_NON_NUMERIC;
    case OUT_TOO_LARGE:
        return too_large_of(req);
    case OUT_NO_MEMORY:
        return no_memory_of(req);
    case OUT_OK:
    case OUT_HIT:
    case OUT_STORED:
    case OUT_DELETED:
    case OUT_TOUCHED:
    case OUT_NUMBER:
    case OUT_WAIT: /* not a reply: the request will be tried again */
    case OUT_COUNT:
        break;
    }
    return BIN_REPLY_OK;
}
