/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what a client sends before it is authenticated, command by command as a
 * connection takes it. What must hold for any input:
 *   - nothing outside the input is read;
 *   - a command makes progress within the input, and user and password lie in its bytes;
 *   - only a line that begins with the word set offers a password;
 *   - a part of a command either waits for more or is already decided, and then the same way;
 *   - what is waited for is bounded.
 */
#include "tests/fuzz/fuzz.h"

#include "proto/text_parse.h"

#define COMMAND_MAX (TEXT_AUTH_LINE_MAX + 1 + TEXT_AUTH_VALUE_MAX + 2)

struct said {
    enum parse_status status;
    enum reply reply;
    size_t used;
    struct text_auth auth;
};

static struct said parse(const char *buf, size_t len)
{
    struct said said;

    said.status = text_auth_parse(buf, len, &said.auth, &said.used, &said.reply);
    return said;
}

/* Either may be empty. */
static void check_place(struct span s, const char *buf, size_t used)
{
    require(s.ptr > buf && s.ptr + s.len + 2 <= buf + used);
}

/* Spaces, then the word set, then more of the line. */
static void check_name(const char *buf)
{
    while (*buf == ' ') {
        buf++;
    }
    require(memcmp(buf, "set ", 4) == 0);
}

static void check_said(const struct said *said, const char *buf, size_t len)
{
    require(said->used <= len && said->used <= COMMAND_MAX);
    switch (said->status) {
    case PARSE_OK:
        require(said->used > 0 && said->reply == REPLY_NONE && said->auth.swallow == 0);
        check_name(buf);
        check_place(said->auth.user, buf, said->used);
        check_place(said->auth.password, buf, said->used);
        require(memchr(said->auth.user.ptr, ' ', said->auth.user.len) == NULL);
        require(said->auth.user.ptr < said->auth.password.ptr);
        break;
    case PARSE_REPLY:
        require(said->used > 0 && said->reply != REPLY_NONE);
        require(said->auth.swallow == 0 || said->auth.swallow > TEXT_AUTH_VALUE_MAX);
        break;
    case PARSE_MORE:
        require(said->used == 0 && len < COMMAND_MAX && said->auth.need <= COMMAND_MAX);
        require(said->auth.need == 0 || said->auth.need > len);
        break;
    case PARSE_CLOSE:
        require(said->reply == REPLY_NONE);
        break;
    case PARSE_BODY:
        require(!"a status of another parser");
    }
}

static void check_part(const struct said *whole, const char *buf, size_t len)
{
    char *copy = exact_copy(buf, len);
    struct said part = parse(copy, len);
    check_said(&part, copy, len);
    if (part.status != PARSE_MORE) {
        require(part.status == whole->status && part.reply == whole->reply);
        require(part.used == whole->used && part.auth.swallow == whole->auth.swallow);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = exact_copy(data, size);
    size_t at = 0;

    while (at < size) {
        const char *buf = copy + at;
        size_t len = size - at;
        struct said said = parse(buf, len);

        check_said(&said, buf, len);
        for (size_t n = said.used > 0 ? said.used : len; n > 0; n /= 2) {
            check_part(&said, buf, n - 1);
        }
        if (said.status != PARSE_OK && said.status != PARSE_REPLY) {
            break;
        }
        at += said.used;
        at += said.auth.swallow < size - at ? said.auth.swallow : size - at;
    }
    free(copy);
    return 0;
}
