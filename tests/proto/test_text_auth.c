/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text_auth_parse: what memcached accepts as authentication, and its replies to all else.
 * Each input is read whole, with more after it, and byte by byte, always from a block of its
 * exact size, so that a checker sees one byte read too many; all must agree.
 */
#include "proto/text_parse.h"
#include "tests/common/exact.h"
#include "tests/common/unit.h"

struct said {
    enum parse_status status;
    enum reply reply;
    size_t used;
    size_t need;
    size_t swallow;
    char user[TEXT_AUTH_VALUE_MAX + 1];
    char password[TEXT_AUTH_VALUE_MAX + 1];
};

static void copy_span(char *to, struct span s, const char *buf, size_t used)
{
    ck_assert(s.len == 0 || (s.ptr >= buf && s.ptr + s.len <= buf + used));
    ck_assert_uint_le(s.len, TEXT_AUTH_VALUE_MAX);
    if (s.len > 0) {
        memcpy(to, s.ptr, s.len);
    }
    to[s.len] = '\0';
}

static struct said parse_exact(const char *input, size_t len)
{
    struct text_auth auth;
    struct said said;
    char *copy = exact_copy(input, len);

    said.status = text_auth_parse(copy, len, &auth, &said.used, &said.reply);
    said.need = auth.need;
    said.swallow = auth.swallow;
    ck_assert_uint_le(said.used, len);
    copy_span(said.user, auth.user, copy, said.used);
    copy_span(said.password, auth.password, copy, said.used);
    free(copy);
    return said;
}

static void assert_same(const struct said *a, const struct said *b, size_t cut)
{
    ck_assert_msg(a->status == b->status && a->reply == b->reply && a->used == b->used &&
                      a->swallow == b->swallow,
                  "not the same with %zu bytes", cut);
    ck_assert_str_eq(a->user, b->user);
    ck_assert_str_eq(a->password, b->password);
}

/* The result of an input, which must not depend on how much of it has arrived. */
static struct said parse(const char *input, size_t len)
{
    struct said whole = parse_exact(input, len);
    size_t decided = whole.status == PARSE_CLOSE ? len : whole.used;
    char *more = malloc(len + 3);

    ck_assert_ptr_nonnull(more);
    for (size_t n = 0; n < len; n++) {
        struct said part = parse_exact(input, n);

        if (part.status == PARSE_MORE) {
            ck_assert_uint_eq(part.used, 0);
            ck_assert_msg(part.need == 0 || part.need > n, "waits for what is there");
            ck_assert_msg(whole.status == PARSE_CLOSE || whole.status == PARSE_MORE ||
                              part.need <= decided,
                          "waits for more than it takes");
        } else {
            assert_same(&part, &whole, n);
        }
    }
    if (whole.status != PARSE_MORE) {
        memcpy(more, input, len);
        memcpy(more + len, "\n x", 3);
        struct said with_more = parse_exact(more, len + 3);
        assert_same(&with_more, &whole, len + 3);
    }
    free(more);
    return whole;
}

static struct said parse_str(const char *input)
{
    return parse(input, strlen(input));
}

static void assert_pair(const char *input, const char *user, const char *password)
{
    struct said said = parse_str(input);

    ck_assert_msg(said.status == PARSE_OK, "%s", input);
    ck_assert_uint_eq(said.used, strlen(input));
    ck_assert_str_eq(said.user, user);
    ck_assert_str_eq(said.password, password);
}

static void assert_reply(const char *input, enum reply reply, size_t used)
{
    struct said said = parse_str(input);

    ck_assert_msg(said.status == PARSE_REPLY && said.reply == reply && said.used == used &&
                      said.swallow == 0,
                  "%s: status %d, reply %d, used %zu", input, said.status, said.reply,
                  said.used);
}

static void assert_line(const char *line)
{
    assert_reply(line, REPLY_UNAUTHENTICATED, strlen(line));
}

TEST(accepts_what_memcached_accepts)
{
    assert_pair("set a 0 0 3\r\nu p\r\n", "u", "p");
    assert_pair("set foo bar baz 3\r\nu p\r\n", "u", "p");
    assert_pair("set a 0 0 3\nu p\r\n", "u", "p");
    assert_pair("set a 0 0 3 noreply\r\nu p\r\n", "u", "p");
    assert_pair("set a 0 0 3 x y z w v w q\r\nu p\r\n", "u", "p");
    assert_pair("  set  a  0  0  3 \r\nu p\r\n", "u", "p");
    assert_pair("set a 0 0 03\r\nu p\r\n", "u", "p");
    assert_pair("set a 0 0 9\r\nu p x y z\r\n", "u", "p x y z");
    assert_pair("set a 0 0 4\r\nu p \r\n", "u", "p ");
    assert_pair("set a 0 0 4\r\nu  p\r\n", "u", " p");
    assert_pair("set a 0 0 4\r\n u p\r\n", "", "u p");
    assert_pair("set a 0 0 3\r\n   \r\n", "", "  ");
    assert_pair("set a 0 0 2\r\nu \r\n", "u", "");
    assert_pair("set a 0 0 7\r\nu:v p:q\r\n", "u:v", "p:q");
    assert_pair("set a 0 0 7\r\nu\tv p\nq\r\n", "u\tv", "p\nq");
}

TEST(knows_no_other_command)
{
    assert_line("get a\r\n");
    assert_line("gets a\n");
    assert_line("version\r\n");
    assert_line("stats\r\n");
    assert_line("mg a v\r\n");
    assert_line("add a 0 0 3\r\n");
    assert_line("SET a 0 0 3\r\n");
    assert_line("sett a 0 0 3\r\n");
    assert_line("set a 0 3\r\n");
    assert_line("set a 0 0 \r\n");
    assert_line("\x80\x0bxxxx\r\n");
}

/* Nothing is answered; less than three bytes are not looked at. */
TEST(short_lines_close)
{
    static const char *const lines[] = {"quit\r\n",      "mn\r\n", "set\n",
                                        "\r\nget a\r\n", " \r\n",  "ma a\r\n"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct said said = parse_str(lines[i]);

        ck_assert_int_eq(said.status, PARSE_CLOSE);
        ck_assert_int_eq(said.reply, REPLY_NONE);
    }
    ck_assert_int_eq(parse_str("\r\n").status, PARSE_MORE);
}

TEST(refuses_wrong_lengths)
{
    assert_line("set a 0 0 -1\r\n");
    assert_line("set a 0 0 x\r\n");
    assert_line("set a 0 0 +3\r\n");
    assert_line("set a 0 0 3x\r\n");
    assert_line("set a 0 0 3.5\r\n");
    assert_line("set a 0 0 0x3\r\n");
    assert_line("set a 0 0 2147483646\r\n");
    assert_line("set a 0 0 4294967295\r\n");
    assert_line("set a 0 0 4294967296\r\n");
    assert_line("set a 0 0 18446744073709551615\r\n");
    assert_line("set a 0 0 18446744073709551616\r\n");
    assert_line("set a 0 0 99999999999999999999999999999999999999\r\n");
}

TEST(refuses_wrong_values)
{
    assert_reply("set a 0 0 3\r\nu pxx", REPLY_AUTH_END, 18);
    assert_reply("set a 0 0 3\r\nu p\n\n", REPLY_AUTH_END, 18);
    assert_reply("set a 0 0 3\r\nu p\r\r", REPLY_AUTH_END, 18);
    assert_reply("set a 0 0 1\r\nu\r\n", REPLY_AUTH_FORMAT, 16);
    assert_reply("set a 0 0 0\r\n\r\n", REPLY_AUTH_FORMAT, 15);
    assert_reply("set a 0 0 3\r\nu\tp\r\n", REPLY_AUTH_FORMAT, 18);
}

TEST(large_values_are_dropped_unread)
{
    char line[64];
    int len = snprintf(line, sizeof(line), "set a 0 0 %d\r\n", TEXT_AUTH_VALUE_MAX + 1);
    struct said said = parse(line, (size_t)len);

    ck_assert_int_eq(said.status, PARSE_REPLY);
    ck_assert_int_eq(said.reply, REPLY_UNAUTHENTICATED);
    ck_assert_uint_eq(said.used, (size_t)len);
    ck_assert_uint_eq(said.swallow, TEXT_AUTH_VALUE_MAX + 3);
    said = parse_str("set a 0 0 2147483645\r\n");
    ck_assert_uint_eq(said.swallow, (size_t)2147483645 + 2);
}

TEST(longest_value)
{
    char input[64 + TEXT_AUTH_VALUE_MAX];
    int line = snprintf(input, sizeof(input), "set a 0 0 %d\r\n", TEXT_AUTH_VALUE_MAX);
    size_t len = (size_t)line + TEXT_AUTH_VALUE_MAX + 2;

    memset(input + line, 'p', TEXT_AUTH_VALUE_MAX);
    input[line + 1] = ' ';
    memcpy(input + len - 2, "\r\n", 2);
    struct said said = parse(input, len);
    ck_assert_int_eq(said.status, PARSE_OK);
    ck_assert_uint_eq(said.used, len);
    ck_assert_str_eq(said.user, "p");
    ck_assert_uint_eq(strlen(said.password), TEXT_AUTH_VALUE_MAX - 2);
}

TEST(line_bound_is_exact)
{
    char input[TEXT_AUTH_LINE_MAX + 2];

    memset(input, 'x', sizeof(input));
    ck_assert_int_eq(parse(input, TEXT_AUTH_LINE_MAX).status, PARSE_MORE);
    ck_assert_int_eq(parse(input, TEXT_AUTH_LINE_MAX + 1).status, PARSE_CLOSE);
    input[TEXT_AUTH_LINE_MAX + 1] = '\n';
    ck_assert_int_eq(parse(input, TEXT_AUTH_LINE_MAX + 2).status, PARSE_CLOSE);
    input[TEXT_AUTH_LINE_MAX] = '\n';
    struct said said = parse(input, TEXT_AUTH_LINE_MAX + 1);
    ck_assert_int_eq(said.status, PARSE_REPLY);
    ck_assert_int_eq(said.reply, REPLY_UNAUTHENTICATED);
}

TEST(nul_ends_nothing)
{
    static const char in_line[] = "set a 0 0 3\0 5\r\n";
    static const char in_name[] = "set\0 a 0 0 3\r\n";
    static const char in_value[] = "set a 0 0 5\r\nu p\0q\r\n";

    ck_assert_int_eq(parse(in_line, sizeof(in_line) - 1).reply, REPLY_UNAUTHENTICATED);
    ck_assert_int_eq(parse(in_name, sizeof(in_name) - 1).reply, REPLY_UNAUTHENTICATED);

    struct text_auth auth;
    size_t used;
    enum reply reply;
    ck_assert_int_eq(text_auth_parse(in_value, sizeof(in_value) - 1, &auth, &used, &reply),
                     PARSE_OK);
    ck_assert_uint_eq(auth.password.len, 3);
    ck_assert_mem_eq(auth.password.ptr, "p\0q", 3);
}

TEST(http_is_closed)
{
    ck_assert_int_eq(parse_str("GET / HTTP/1.1\r\n").status, PARSE_CLOSE);
    ck_assert_int_eq(parse_str("set a 0 0 3 HTTP/1.0\n").status, PARSE_CLOSE);
}
