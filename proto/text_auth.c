/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The authentication command of the text protocol. Any thread.
 */
#include "proto/text_parse.h"

#include "lib/base/check.h"
#include "lib/base/num.h"
#include "proto/words.h"

/* Which of the words after the command's name is the length. */
#define WORD_LENGTH 3
_Static_assert(WORD_LENGTH < ARGS_MAX, "words_cut() keeps it");

/*
 * memcached looks at nothing shorter, and closes after a line that is shorter (without its line
 * feed): quit for one, and empty lines.
 */
#define BYTES_MIN 3
#define LINE_MIN  6

static enum parse_status refuse_auth(enum reply why, enum reply *reply)
{
    *reply = why;
    return PARSE_REPLY;
}

/* Read the line, without its line feed: how many bytes of user and password follow? */
static enum parse_status read_line(struct line line, size_t *value_len, struct text_auth *auth,
                                   enum reply *reply)
{
    struct span name;
    struct args args;
    uint32_t n;

    words_next(&line, &name);
    words_cut(line, &args);
    if (args.count > 0 && words_are_http(args.last)) {
        return PARSE_CLOSE;
    }
    if (!span_is(name, "set") || args.count <= WORD_LENGTH ||
        num_u32(args.word[WORD_LENGTH], &n) != MF_OK || n > TEXT_VALUE_LEN_MAX) {
        return refuse_auth(REPLY_UNAUTHENTICATED, reply);
    }
    if (n > TEXT_AUTH_VALUE_MAX) {
        /* A store before authentication: its value must not be taken for lines. */
        auth->swallow = (size_t)n + 2;
        return refuse_auth(REPLY_UNAUTHENTICATED, reply);
    }
    *value_len = n;
    return PARSE_OK;
}

/* Read the value; two more bytes come after it. */
static enum parse_status read_value(const char *value, size_t len, struct text_auth *auth,
                                    enum reply *reply)
{
    const char *space = memchr(value, ' ', len);

    if (value[len] != '\r' || value[len + 1] != '\n') {
        return refuse_auth(REPLY_AUTH_END, reply);
    }
    if (space == NULL) {
        return refuse_auth(REPLY_AUTH_FORMAT, reply);
    }
    auth->user = span_of(value, (size_t)(space - value));
    auth->password = span_of(space + 1, len - auth->user.len - 1);
    return PARSE_OK;
}

enum parse_status text_auth_parse(const char *buf, size_t len, struct text_auth *auth,
                                  size_t *used, enum reply *reply)
{
    size_t look = len <= TEXT_AUTH_LINE_MAX ? len : TEXT_AUTH_LINE_MAX + 1;
    size_t value_len = 0;

    memset(auth, 0, sizeof(*auth));
    *used = 0;
    *reply = REPLY_NONE;
    if (len < BYTES_MIN) {
        return PARSE_MORE;
    }
    const char *newline = memchr(buf, '\n', look);
    if (newline == NULL) {
        return len > TEXT_AUTH_LINE_MAX ? PARSE_CLOSE : PARSE_MORE;
    }
    if (newline - buf < LINE_MIN) {
        return PARSE_CLOSE;
    }
    struct line line = {buf, newline};
    if (line.end > line.begin && line.end[-1] == '\r') {
        line.end--;
    }
    size_t line_len = (size_t)(newline + 1 - buf);
    enum parse_status status = read_line(line, &value_len, auth, reply);
    if (status != PARSE_OK) {
        *used = line_len;
        return status;
    }
    if (len - line_len < value_len + 2) {
        auth->need = line_len + value_len + 2;
        return PARSE_MORE;
    }
    *used = line_len + value_len + 2;
    must(value_len <= TEXT_AUTH_VALUE_MAX && *used <= len);
    return read_value(buf + line_len, value_len, auth, reply);
}
