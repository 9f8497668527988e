/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binary protocol, the way in. Any thread.
 *
 * A frame is accepted or refused by its header alone, before anything is waited for. So less
 * than 300 bytes of an unfinished frame have to be kept, apart from the value of a store,
 * whatever lengths it announces. Lengths are 16 and 32 bits wide on the wire and are added in
 * 64 bits here, so none of them is ever negative or wraps around.
 */
#include "proto/bin_parse.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/load.h"

/* As the length of extras: none or four bytes. */
#define MAYBE_4 UINT8_MAX

enum rule_key { NO_KEY, A_KEY, ANY_KEY };
enum rule_quiet { LOUD, QUIET };
enum rule_value { NO_VALUE, A_VALUE };

struct rule {
    uint8_t command; /* enum command */
    uint8_t cls;     /* enum command_class */
    uint8_t extras;
    uint8_t key; /* enum rule_key */
    bool is_quiet;
    bool has_value;
    bool is_served;
};

static const struct rule rules[] = {
#define OPCODE(number, id, command, cls, quiet, extras, key, value, handler)                   \
    [number] = {CMD_##command, cls, extras, key, (quiet) == QUIET, (value) == A_VALUE, true},
#include "proto/opcodes.def"
#undef OPCODE
};

/* The header in the machine's order. */
struct header {
    uint8_t magic;
    uint8_t opcode;
    uint8_t extras_len;
    uint16_t key_len;
    uint32_t body_len;
    uint32_t opaque;
    uint64_t cas;
};

static inline struct header load_header(const char *p)
{
    uint64_t first = load_be64(p);
    uint64_t second = load_be64(p + 8);

    return (struct header){
        .magic = (uint8_t)(first >> 56),
        .opcode = (uint8_t)(first >> 48),
        .key_len = (uint16_t)(first >> 32),
        .extras_len = (uint8_t)(first >> 24),
        .body_len = (uint32_t)(second >> 32),
        .opaque = (uint32_t)second,
        .cas = load_be64(p + 16),
    };
}

/*
 * Fill in what every request has, and empty the rest. Field by field: for all of them at once
 * compilers emit a string instruction, which takes longer to start than the rest of a get takes
 * to parse.
 */
static inline void begin_frame(struct request *req, const struct header *h)
{
    req->key = span_of(NULL, 0);
    req->value = span_of(NULL, 0);
    req->value_len = 0;
    req->exptime = 0;
    req->flags = 0;
    req->command = CMD_NONE;
    req->cls = CLASS_BINARY;
    req->noreply = false;
    req->invalidate = false;
    req->cas = h->cas;
    req->number.delta = 0;
    req->number.initial = 0;
    req->args = span_of(NULL, 0);
    req->wants_cas = false;
    req->opcode = h->opcode;
    req->opaque = h->opaque;
}

static inline bool lengths_are_good(const struct rule *rule, const struct header *h)
{
    size_t head = (size_t)h->key_len + h->extras_len;

    if (rule->extras == MAYBE_4 ? h->extras_len != 0 && h->extras_len != 4
                                : h->extras_len != rule->extras) {
        return false;
    }
    if (rule->key == A_KEY ? h->key_len == 0 : rule->key == NO_KEY && h->key_len > 0) {
        return false;
    }
    return rule->has_value || head == h->body_len;
}

/* Read the extras, which are all there. */
static inline void take_extras(struct request *req, const char *extras, size_t len)
{
    debug_must(len <= BIN_EXTRAS_MAX);
    switch ((enum command)req->command) {
    case CMD_SET:
    case CMD_ADD:
    case CMD_REPLACE:
        req->flags = load_be32(extras);
        req->exptime = load_be32(extras + 4);
        break;
    case CMD_INCR:
    case CMD_DECR:
        req->number.delta = load_be64(extras);
        req->number.initial = load_be64(extras + 8);
        req->exptime = load_be32(extras + 16);
        break;
    case CMD_GAT:
    case CMD_TOUCH:
    case CMD_FLUSH_ALL:
        req->exptime = len > 0 ? load_be32(extras) : 0;
        break;
    default:
        break;
    }
}

/*
 * Header, extras and key are there, *used bytes: find the value after them. A value that is too
 * large is swallowed unread, whether it is there already or not.
 */
static enum parse_status take_frame_value(const char *buf, size_t len,
                                          const struct bin_limits *limits, struct request *req,
                                          size_t *used, enum bin_reply *reply)
{
    bool is_store = req->command != CMD_NONE; /* the others are of SASL */

    debug_must(*used <= len);
    if (is_store && req->key.len + req->value_len > limits->value_max) {
        req->invalidate = req->command == CMD_SET;
        *reply = BIN_REPLY_TOO_LARGE;
        return PARSE_REPLY;
    }
    if (!is_store && req->value_len > BIN_SASL_VALUE_MAX) {
        *reply = BIN_REPLY_UNKNOWN;
        return PARSE_REPLY;
    }
    if (len - *used < req->value_len) {
        return PARSE_BODY;
    }
    req->value = span_of(buf + *used, req->value_len);
    *used += req->value_len;
    debug_must(*used <= len);
    return PARSE_OK;
}

enum parse_status bin_parse(const char *buf, size_t len, const struct bin_limits *limits,
                            struct request *req, size_t *used, enum bin_reply *reply)
{
    *reply = BIN_REPLY_OK;
    if (len == 0) {
        *used = 1;
        return PARSE_MORE;
    }
    *used = BIN_HEADER_BYTES;
    if ((unsigned char)buf[0] != BIN_REQUEST) {
        return PARSE_CLOSE;
    }
    if (len < BIN_HEADER_BYTES) {
        return PARSE_MORE;
    }
    struct header h = load_header(buf);
    begin_frame(req, &h);
    if ((size_t)h.key_len + h.extras_len > h.body_len) {
        *reply = BIN_REPLY_UNKNOWN;
        return PARSE_CLOSE;
    }
    if (h.key_len > REQUEST_KEY_MAX) {
        *reply = BIN_REPLY_INVALID;
        return PARSE_CLOSE;
    }
    if (h.opcode >= sizeof(rules) / sizeof(rules[0]) || !rules[h.opcode].is_served) {
        req->value_len = h.body_len;
        *reply = BIN_REPLY_UNKNOWN;
        return PARSE_REPLY;
    }
    const struct rule *rule = &rules[h.opcode];
    if (!lengths_are_good(rule, &h)) {
        *reply = BIN_REPLY_INVALID;
        return PARSE_CLOSE;
    }
    size_t head = BIN_HEADER_BYTES + (size_t)h.extras_len + h.key_len;
    *used = head;
    if (len < head) {
        return PARSE_MORE;
    }
    debug_must(head <= BIN_HEADER_BYTES + BIN_EXTRAS_MAX + REQUEST_KEY_MAX);
    req->command = rule->command;
    req->cls = rule->cls;
    req->noreply = rule->is_quiet;
    req->key = span_of(buf + BIN_HEADER_BYTES + h.extras_len, h.key_len);
    take_extras(req, buf + BIN_HEADER_BYTES, h.extras_len);
    if (!rule->has_value) {
        return PARSE_OK;
    }
    must(head - BIN_HEADER_BYTES <= h.body_len);
    req->value_len = h.body_len - h.extras_len - h.key_len;
    return take_frame_value(buf, len, limits, req, used, reply);
}
