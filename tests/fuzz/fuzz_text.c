/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a stream of bytes through the classic text parser, request by request as a
 * connection does it. What must hold for any input:
 *   - nothing outside the input is read;
 *   - a request makes progress within the input, and its spans lie in its bytes;
 *   - every key has 1 to 250 bytes, none of them a space or a line feed;
 *   - a part of a request either waits for more or is already decided, and then the same way;
 *   - a leading space changes nothing;
 *   - what is composed fits the room that was promised.
 */
#include "tests/fuzz/fuzz.h"

#include "proto/text_compose.h"
#include "proto/text_parse.h"

/* Small, so that short inputs contain values that are too large. */
#define VALUE_MAX 60

struct said {
    enum parse_status status;
    enum reply reply;
    size_t used;
    struct request req;
};

static struct said parse(const char *buf, size_t len)
{
    static char keys[TEXT_KEY_ROOM];
    char *room = keys;
    struct text_limits limits = {
        .value_max = VALUE_MAX, .key_room = &room, .has_extensions = true};
    struct said said = {.used = 0};

    said.status = text_parse(buf, len, &limits, &said.req, &said.used, &said.reply);
    return said;
}

static void check_key(struct span key, bool with_cas)
{
    char line[TEXT_VALUE_LINE_MAX + REQUEST_KEY_MAX];

    require(key.len >= 1 && key.len <= REQUEST_KEY_MAX);
    require(memchr(key.ptr, ' ', key.len) == NULL && memchr(key.ptr, '\n', key.len) == NULL);
    size_t len =
        text_compose_value(line, key.ptr, key.len, UINT32_MAX, SIZE_MAX, with_cas, UINT64_MAX);
    require(len <= sizeof(line) && line[len - 1] == '\n');
    require(memcmp(line + 6, key.ptr, key.len) == 0);
}

static void check_request(const struct said *said, const char *buf)
{
    const struct request *req = &said->req;

    if (req->cls == CLASS_META) {
        return; /* fuzz_meta checks these */
    }
    check_span(req->key, buf, said->used);
    check_span(req->more, buf, said->used);
    check_span(req->value, buf, said->used);
    check_span(req->args, buf, said->used);
    require(req->command < CMD_COUNT && req->command != CMD_NONE);
    require(req->cls == command_class_of((enum command)req->command));
    require((req->cls == CLASS_ADMIN) == (req->key.len == 0));
    if (req->cls != CLASS_ADMIN) {
        check_key(req->key, req->wants_cas);
    }
    struct span more = req->more;
    struct span key;
    while (text_next_key(&more, &key)) {
        check_span(key, buf, said->used);
        check_key(key, req->wants_cas);
    }
    for (int outcome = 0; outcome < OUT_COUNT; outcome++) {
        char reply[TEXT_REPLY_MAX];
        size_t len = text_compose(reply, req, (enum outcome)outcome, UINT64_MAX);
        require(len <= sizeof(reply) && (len == 0 || !req->noreply));
    }
}

static void check_said(const struct said *said, const char *buf, size_t len)
{
    require(said->used <= len);
    require(said->reply < REPLY_COUNT);
    switch (said->status) {
    case PARSE_OK:
        require(said->used > 0 && said->reply == REPLY_NONE && !said->req.invalidate);
        require(said->req.value.len == said->req.value_len);
        check_request(said, buf);
        break;
    case PARSE_BODY:
        require(said->used > 0);
        require(said->req.cls == CLASS_STORE || said->req.command == CMD_MS);
        require(len - said->used < said->req.value_len + 2);
        require(said->req.key.len + said->req.value_len <= VALUE_MAX);
        check_request(said, buf);
        break;
    case PARSE_REPLY:
        require(said->used > 0);
        require(!said->req.invalidate || said->req.value_len > 0);
        require(!said->req.invalidate || said->req.command == CMD_SET ||
                said->req.command == CMD_MS);
        require(said->req.key.len <= REQUEST_KEY_MAX);
        require(!said->req.invalidate || said->req.key.len > 0);
        if (said->req.cls != CLASS_META) {
            check_span(said->req.key, buf, said->used);
        }
        break;
    case PARSE_MORE:
        require(said->used == 0 && memchr(buf, '\n', len) == NULL);
        break;
    case PARSE_CLOSE:
        break;
    }
}

/* The same, except that the input was moved by shift bytes. */
static void check_same(const struct said *a, const struct said *b, size_t shift)
{
    require(a->status == b->status && a->reply == b->reply);
    if (a->status == PARSE_CLOSE) {
        return;
    }
    require(a->used == b->used + (a->used > 0 ? shift : 0));
    require(a->req.command == b->req.command && a->req.cls == b->req.cls);
    require(a->req.noreply == b->req.noreply && a->req.wants_cas == b->req.wants_cas);
    require(a->req.invalidate == b->req.invalidate && a->req.flags == b->req.flags);
    require(a->req.exptime == b->req.exptime && a->req.cas == b->req.cas);
    require(a->req.cls != CLASS_ARITH || a->req.number.delta == b->req.number.delta);
    require(a->req.value_len == b->req.value_len);
    require(a->req.cls == CLASS_META || span_eq(a->req.key, b->req.key));
    require(span_eq(a->req.more, b->req.more) && span_eq(a->req.value, b->req.value));
    require(span_eq(a->req.args, b->req.args));
}

static void check_part(const struct said *whole, const char *buf, size_t len)
{
    char *copy = exact_copy(buf, len);
    struct said part = parse(copy, len);

    check_said(&part, copy, len);
    /* A long line may be refused for want of its end. */
    if (part.status != PARSE_MORE && part.status != PARSE_BODY &&
        (part.status != PARSE_CLOSE || len <= TEXT_UNENDED_MAX)) {
        check_same(&part, whole, 0);
    }
    free(copy);
}

static void check_spaced(const struct said *plain, const char *buf, size_t len)
{
    char *copy = exact_block(len + 1);

    copy[0] = ' ';
    memcpy(copy + 1, buf, len);
    struct said spaced = parse(copy, len + 1);
    check_said(&spaced, copy, len + 1);
    check_same(&spaced, plain, 1);
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
        size_t end = said.used > 0 ? said.used : len;
        for (size_t n = end; n > 0; n /= 2) {
            check_part(&said, buf, n - 1);
        }
        /* A line of less than four bytes is judged by its length. */
        if (len > 0 && len < TEXT_UNENDED_MAX && (said.used == 0 || said.used >= 4)) {
            check_spaced(&said, buf, len);
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
