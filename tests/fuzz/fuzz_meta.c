/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a stream of bytes through the parser of meta commands, request by request as a
 * connection does it. What must hold for any input:
 *   - nothing outside the input, or outside the room for keys, is read or written;
 *   - a request makes progress within the input;
 *   - its key has 1 to 250 bytes; its flags can be read again without an error, and agree with
 *     the set of their letters;
 *   - a part of a request either waits for more or is already decided, and then the same way;
 *   - a leading space, which rules out the fast path, changes nothing;
 *   - every reply fits the room that was promised, and is one line.
 */
#include "tests/fuzz/fuzz.h"

#include "proto/meta_compose.h"
#include "proto/meta_parse.h"

/* Small, so that short inputs contain values that are too large. */
#define VALUE_MAX 60

struct said {
    enum parse_status status;
    enum reply reply;
    size_t used;
    struct request req;
    char *input; /* owned */
    char *room;  /* owned */
};

/* Parse a copy of len bytes, after `spaces` spaces. */
static void parse(struct said *said, const char *buf, size_t len, size_t spaces)
{
    char *room;

    said->input = exact_block(len + spaces);
    said->room = exact_block(TEXT_KEY_ROOM);
    memset(said->input, ' ', spaces);
    memcpy(said->input + spaces, buf, len);
    room = said->room;
    struct text_limits limits = {
        .value_max = VALUE_MAX, .key_room = &room, .has_extensions = true};
    said->used = 0;
    said->status =
        text_parse(said->input, len + spaces, &limits, &said->req, &said->used, &said->reply);
    require(room >= said->room && room <= said->room + TEXT_KEY_ROOM);
}

static void forget(struct said *said)
{
    free(said->input);
    free(said->room);
}

static void check_replies(const struct request *req)
{
    struct meta_facts facts = {
        .shows = META_SHOWS_ITEM,
        .cas = UINT64_MAX,
        .size = UINT64_MAX,
        .left_ms = INT64_MAX,
        .left_before_ms = -1,
        .client = UINT32_MAX,
        .idle_s = UINT32_MAX,
        .was_won = true,
        .is_stale = true,
        .is_won = true,
    };
    struct meta_debug debug = {-INT64_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX,
                               true,       true,       UINT32_MAX};
    char *line = exact_block(META_LINE_MAX);

    for (int code = META_HD; code <= META_VA; code++) {
        size_t len = meta_compose(line, (enum meta_code)code, req, &facts);
        require(len >= 4 && len <= META_LINE_MAX);
        require(memcmp(line + len - 2, "\r\n", 2) == 0);
        require(memchr(line, '\n', len - 1) == NULL);
    }
    free(line);
    line = exact_block(META_DEBUG_MAX);
    require(meta_compose_debug(line, req, &debug) <= META_DEBUG_MAX);
    free(line);
}

static void check_request(const struct request *req)
{
    struct meta_flags flags;

    require(req->cls == CLASS_META && !req->noreply && !req->invalidate);
    if (req->command == CMD_MN) {
        return;
    }
    require(req->key.len >= 1 && req->key.len <= REQUEST_KEY_MAX);
    require(req->letters == META_LETTER('b') || req->command != CMD_ME || req->letters == 0);
    if (req->command != CMD_ME) {
        require(meta_read_flags(req->args, true, &flags) == REPLY_NONE);
        require(flags.letters == req->letters && flags.opaque_len <= META_OPAQUE_MAX);
    }
    require(meta_has(req->letters, 'b') || memchr(req->key.ptr, ' ', req->key.len) == NULL);
    check_replies(req);
}

static void check_said(const struct said *said, size_t len)
{
    require(said->used <= len && said->reply < REPLY_COUNT);
    if (said->status == PARSE_OK || said->status == PARSE_BODY) {
        require(said->used > 0 && said->reply == REPLY_NONE);
        if (said->req.cls == CLASS_META) {
            check_request(&said->req);
        }
    }
    if (said->status == PARSE_BODY) {
        require(len - said->used < said->req.value_len + 2);
    }
    require(said->status != PARSE_REPLY || said->req.key.len <= REQUEST_KEY_MAX);
    if (said->status == PARSE_REPLY && said->req.invalidate) {
        require(said->req.key.len > 0);
        require(said->reply == REPLY_TOO_LARGE || said->req.cls != CLASS_META);
    }
}

static void check_same(const struct said *a, const struct said *b, size_t shift)
{
    require(a->status == b->status && a->reply == b->reply);
    if (a->status == PARSE_CLOSE) {
        return;
    }
    require(a->used == b->used + (a->used > 0 ? shift : 0));
    require(a->req.command == b->req.command && a->req.letters == b->req.letters);
    require(a->req.value_len == b->req.value_len && a->req.invalidate == b->req.invalidate);
    if (a->status == PARSE_OK || a->status == PARSE_BODY) {
        require(span_eq(a->req.key, b->req.key) && span_eq(a->req.args, b->req.args));
        require(span_eq(a->req.value, b->req.value));
    }
}

static void check_part(const struct said *whole, const char *buf, size_t len)
{
    struct said part;

    parse(&part, buf, len, 0);
    check_said(&part, len);
    /* A long line may be refused for want of its end. */
    if (part.status != PARSE_MORE && part.status != PARSE_BODY &&
        (part.status != PARSE_CLOSE || len <= TEXT_UNENDED_MAX)) {
        check_same(&part, whole, 0);
    }
    forget(&part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *input = (const char *)data;
    size_t at = 0;
    bool goes_on = true;

    while (goes_on && at <= size) {
        const char *buf = input + at;
        size_t len = size - at;
        struct said said;
        struct said spaced;

        parse(&said, buf, len, 0);
        check_said(&said, len);
        size_t end = said.used > 0 ? said.used : len;
        for (size_t n = end; n > 0; n /= 2) {
            check_part(&said, buf, n - 1);
        }
        /*
         * The very first byte decides whether it is the binary protocol; a line of less than
         * four bytes is judged by its length.
         */
        if (len > 0 && len < TEXT_UNENDED_MAX && data[at] != 0x80 &&
            (said.used == 0 || said.used >= 4)) {
            parse(&spaced, buf, len, 1);
            check_same(&spaced, &said, 1);
            forget(&spaced);
        }
        goes_on = said.status == PARSE_OK || said.status == PARSE_REPLY;
        at += said.used;
        if (said.status == PARSE_REPLY) {
            at += said.req.value_len < size - at ? said.req.value_len : size - at;
        }
        forget(&said);
    }
    return 0;
}
