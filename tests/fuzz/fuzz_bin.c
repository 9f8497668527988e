/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a stream of bytes through the parser of the binary protocol, request by request
 * as a connection does it. What must hold for any input:
 *   - nothing outside the input is read;
 *   - a request makes progress within the input, and its spans lie in its bytes;
 *   - the parser says how much it waits for, and that is bounded whatever lengths a frame
 *     announces;
 *   - a part of a request either waits for more or is already decided, and then the same way;
 *   - answers have the lengths that they announce, and fit the room that was promised.
 */
#include "tests/fuzz/fuzz.h"

#include "proto/bin_compose.h"
#include "proto/bin_parse.h"

/* The most that has to be kept of a frame, without its value. */
#define HEAD_MAX (BIN_HEADER_BYTES + BIN_EXTRAS_MAX + REQUEST_KEY_MAX)

/* Small, so that short inputs contain values that are too large. */
static const struct bin_limits limits = {.value_max = 60};

struct said {
    enum parse_status status;
    enum bin_reply reply;
    size_t used;
    struct request req;
};

static struct said parse(const char *buf, size_t len)
{
    struct said said = {.used = 0};

    said.status = bin_parse(buf, len, &limits, &said.req, &said.used, &said.reply);
    return said;
}

static void check_frame(const char *frame, size_t len, const struct request *req)
{
    uint64_t word[2];
    uint32_t head_len;

    memcpy(word, frame, sizeof(word));
    head_len =
        (uint32_t)(be64toh(word[0]) >> 32 & 0xffff) + (uint32_t)(be64toh(word[0]) >> 24 & 0xff);
    require((unsigned char)frame[0] == BIN_RESPONSE);
    require((unsigned char)frame[1] == req->opcode);
    require(be64toh(word[1]) >> 32 == len - BIN_HEADER_BYTES);
    require((uint32_t)be64toh(word[1]) == req->opaque);
    require(head_len <= len - BIN_HEADER_BYTES);
}

static void check_answers(const struct request *req)
{
    char out[BIN_REPLY_MAX + BIN_VALUE_HEAD_MAX + REQUEST_KEY_MAX];

    for (int reply = 0; reply < BIN_REPLY_COUNT; reply++) {
        size_t len = bin_compose_reply(out, req, (enum bin_reply)reply, UINT64_MAX);
        require(len <= BIN_REPLY_MAX);
        check_frame(out, len, req);
    }
    for (int outcome = 0; outcome < OUT_COUNT; outcome++) {
        require(bin_reply_of(req, (enum outcome)outcome) < BIN_REPLY_COUNT);
    }
    check_frame(out, bin_compose_miss(out, req), req);
    check_frame(out, bin_compose_number(out, req, UINT64_MAX, UINT64_MAX), req);
    size_t len = bin_compose_value(out, req, UINT32_MAX, 0, UINT64_MAX);
    require(len <= BIN_VALUE_HEAD_MAX + req->key.len);
    check_frame(out, len, req);
}

static void check_request(const struct said *said, const char *buf)
{
    const struct request *req = &said->req;

    check_span(req->key, buf, said->used);
    check_span(req->value, buf, said->used);
    require(req->cls == CLASS_BINARY || req->cls == CLASS_BINARY_ADMIN);
    require(req->command < CMD_COUNT && req->key.len <= REQUEST_KEY_MAX);
    require(req->key.len > 0 || req->command == CMD_NONE || req->cls == CLASS_BINARY_ADMIN);
    check_answers(req);
}

static void check_said(const struct said *said, const char *buf, size_t len)
{
    require(said->reply < BIN_REPLY_COUNT);
    switch (said->status) {
    case PARSE_OK:
        require(said->used >= BIN_HEADER_BYTES && said->used <= len);
        require(said->reply == BIN_REPLY_OK && !said->req.invalidate);
        require(said->req.value.len == said->req.value_len);
        check_request(said, buf);
        break;
    case PARSE_BODY:
        require(said->used >= BIN_HEADER_BYTES && said->used <= len);
        require(len - said->used < said->req.value_len);
        require(said->req.value_len <= limits.value_max ||
                (said->req.command == CMD_NONE && said->req.value_len <= BIN_SASL_VALUE_MAX));
        check_request(said, buf);
        break;
    case PARSE_REPLY:
        require(said->used >= BIN_HEADER_BYTES && said->used <= len);
        require(said->reply != BIN_REPLY_OK && said->req.value_len <= UINT32_MAX);
        check_span(said->req.key, buf, said->used);
        require(said->req.key.len <= REQUEST_KEY_MAX);
        break;
    case PARSE_MORE:
        require(said->used > len && said->used <= HEAD_MAX);
        break;
    case PARSE_CLOSE:
        break;
    }
}

static void check_same(const struct said *a, const struct said *b)
{
    require(a->status == b->status && a->reply == b->reply);
    if (a->status == PARSE_CLOSE) {
        return;
    }
    require(a->used == b->used);
    require(a->req.command == b->req.command && a->req.cls == b->req.cls);
    require(a->req.opcode == b->req.opcode && a->req.opaque == b->req.opaque);
    require(a->req.noreply == b->req.noreply && a->req.invalidate == b->req.invalidate);
    require(a->req.flags == b->req.flags && a->req.exptime == b->req.exptime);
    require(a->req.cas == b->req.cas && a->req.value_len == b->req.value_len);
    require(a->req.number.delta == b->req.number.delta);
    require(a->req.number.initial == b->req.number.initial);
    require(span_eq(a->req.key, b->req.key) && span_eq(a->req.value, b->req.value));
}

static void check_part(const struct said *whole, const char *buf, size_t len)
{
    char *copy = exact_copy(buf, len);
    struct said part = parse(copy, len);

    check_said(&part, copy, len);
    if (part.status != PARSE_MORE && part.status != PARSE_BODY) {
        check_same(&part, whole);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = exact_copy(data, size);
    size_t at = 0;

    while (at <= size) {
        const char *buf = copy + at;
        size_t len = size - at;
        struct said said = parse(buf, len);

        check_said(&said, buf, len);
        size_t end = said.status == PARSE_OK ? said.used : len;
        for (size_t n = end; n > 0; n /= 2) {
            check_part(&said, buf, n - 1);
        }
        if (said.status != PARSE_OK && said.status != PARSE_REPLY) {
            break;
        }
        at += said.used;
        if (said.status == PARSE_REPLY) {
            at += said.req.value_len < size - at ? said.req.value_len : size - at;
        }
    }
    free(copy);
    return 0;
}
