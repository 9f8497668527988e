/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines in the words of Redis and flush_prefix to requests, and what they are where extensions
 * are off.
 */
#include "proto/expiry_parse.h"
#include "proto/text_parse.h"
#include "tests/common/unit.h"

static struct request req;
static size_t used;
static enum reply reply;

static enum parse_status parse_with(const char *line, bool has_extensions)
{
    static char room[TEXT_KEY_ROOM];
    char *key_room = room;
    struct text_limits limits = {
        .value_max = 100, .key_room = &key_room, .has_extensions = has_extensions};

    return text_parse(line, strlen(line), &limits, &req, &used, &reply);
}

static enum parse_status parse(const char *line)
{
    return parse_with(line, true);
}

static void assert_deadline(const char *line, enum command command, int64_t ms, uint32_t only,
                            bool noreply)
{
    ck_assert_msg(parse(line) == PARSE_OK, "%s", line);
    ck_assert_uint_eq(used, strlen(line));
    ck_assert_uint_eq(req.command, command);
    ck_assert_uint_eq(req.cls, CLASS_DEADLINE);
    ck_assert(span_is(req.key, "k"));
    ck_assert_msg(req.exptime == ms, "%s: %" PRId64, line, req.exptime);
    ck_assert_uint_eq(req.flags, only);
    ck_assert_int_eq(req.noreply, noreply);
}

TEST(times_become_milliseconds)
{
    assert_deadline("expire k 10\r\n", CMD_EXPIRE, 10000, 0, false);
    assert_deadline("expire k -1\r\n", CMD_EXPIRE, -1000, 0, false);
    assert_deadline("expire k 0\n", CMD_EXPIRE, 0, 0, false);
    assert_deadline("  expire  k  31536000 \r\n", CMD_EXPIRE, INT64_C(31536000000), 0, false);
    assert_deadline("pexpire k 1500 noreply\r\n", CMD_PEXPIRE, 1500, 0, true);
    assert_deadline("expireat k 4102444800\r\n", CMD_EXPIREAT, INT64_C(4102444800000), 0,
                    false);
    assert_deadline("pexpireat k 1\r\n", CMD_PEXPIREAT, 1, 0, false);
    assert_deadline("persist k\r\n", CMD_PERSIST, 0, 0, false);
    assert_deadline("persist k noreply\r\n", CMD_PERSIST, 0, 0, true);
    assert_deadline("pexpire k 2305843009213693951\r\n", CMD_PEXPIRE, EXPIRY_MS_MAX, 0, false);
}

TEST(conditions_are_a_set)
{
    assert_deadline("expire k 1 NX\r\n", CMD_EXPIRE, 1000, ONLY_ENDLESS, false);
    assert_deadline("expire k 1 xx noreply\r\n", CMD_EXPIRE, 1000, ONLY_VOLATILE, true);
    assert_deadline("expire k 1 Gt\r\n", CMD_EXPIRE, 1000, ONLY_LATER, false);
    assert_deadline("expire k 1 LT LT\r\n", CMD_EXPIRE, 1000, ONLY_EARLIER, false);
    assert_deadline("expire k 1 GT XX\r\n", CMD_EXPIRE, 1000, ONLY_LATER | ONLY_VOLATILE,
                    false);
    assert_deadline("expire k 1 XX LT XX LT noreply\r\n", CMD_EXPIRE, 1000,
                    ONLY_EARLIER | ONLY_VOLATILE, true);
}

TEST(questions_have_a_key_and_an_answer)
{
    static const struct {
        const char *line;
        enum command command;
    } rows[] = {{"ttl k\r\n", CMD_TTL},
                {"pttl k\r\n", CMD_PTTL},
                {"expiretime k\r\n", CMD_EXPIRETIME},
                {"pexpiretime k\n", CMD_PEXPIRETIME}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(parse(rows[i].line), PARSE_OK);
        ck_assert_uint_eq(req.command, rows[i].command);
        ck_assert_uint_eq(req.cls, CLASS_TTL);
        ck_assert(span_is(req.key, "k") && !req.noreply);
    }
    ck_assert_int_eq(parse("ttl noreply\r\n"), PARSE_OK);
    ck_assert(span_is(req.key, "noreply") && !req.noreply);
}

static void assert_unlink(const char *line, const char *key, const char *more, bool noreply)
{
    ck_assert_msg(parse(line) == PARSE_OK, "%s", line);
    ck_assert_uint_eq(req.cls, CLASS_UNLINK);
    ck_assert(span_is(req.key, key));
    ck_assert_msg(span_is(req.more, more), "%s: \"%.*s\"", line, (int)req.more.len,
                  req.more.ptr);
    ck_assert_int_eq(req.noreply, noreply);
}

TEST(unlink_takes_many_keys)
{
    assert_unlink("unlink a\r\n", "a", "", false);
    assert_unlink("unlink a bc  d \r\n", "a", "bc  d", false);
    assert_unlink("unlink a b noreply\r\n", "a", "b", true);
    assert_unlink("unlink a noreply\r\n", "a", "", true);
    assert_unlink("unlink noreply\r\n", "noreply", "", false);
    assert_unlink("unlink noreply noreply b\r\n", "noreply", "noreply b", false);
}

TEST(flush_prefix_takes_one_word)
{
    static const struct {
        const char *line, *args;
        bool noreply;
    } rows[] = {
        {"flush_prefix a:\r\n", "a:", false},
        {"flush_prefix a: noreply\r\n", "a: noreply", true},
        {"flush_prefix noreply\r\n", "noreply", false},
        {"flush_prefix  noreply  noreply \r\n", "noreply  noreply", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(parse(rows[i].line) == PARSE_OK, "%s", rows[i].line);
        ck_assert_uint_eq(req.command, CMD_FLUSH_PREFIX);
        ck_assert_msg(span_is(req.args, rows[i].args), "%s", rows[i].line);
        ck_assert_msg(req.noreply == rows[i].noreply, "%s", rows[i].line);
    }
}

TEST(mistakes_are_told)
{
    static const struct {
        const char *line;
        enum reply reply;
    } rows[] = {
        {"expire\r\n", REPLY_BAD_FORMAT},
        {"expire k\r\n", REPLY_BAD_FORMAT},
        {"expire k noreply\r\n", REPLY_BAD_FORMAT},
        {"expire k x\r\n", REPLY_BAD_EXPTIME},
        {"expire k 1.5\r\n", REPLY_BAD_EXPTIME},
        {"expire k 9223372036854776\r\n", REPLY_BAD_EXPTIME},
        {"expire k -9223372036854776\r\n", REPLY_BAD_EXPTIME},
        {"pexpire k 2305843009213693952\r\n", REPLY_BAD_EXPTIME},
        {"pexpireat k 9223372036854775808\r\n", REPLY_BAD_EXPTIME},
        {"expire k 1 NY\r\n", REPLY_BAD_FORMAT},
        {"expire k 1 NX noreply x\r\n", REPLY_BAD_FORMAT},
        {"expire k 1 XX XX XX XX XX\r\n", REPLY_BAD_FORMAT},
        {"expire k 1 NX XX\r\n", REPLY_EXPIRE_CONDITIONS},
        {"expire k 1 NX GT\r\n", REPLY_EXPIRE_CONDITIONS},
        {"expire k 1 LT NX\r\n", REPLY_EXPIRE_CONDITIONS},
        {"expire k 1 GT LT\r\n", REPLY_EXPIRE_CONDITIONS},
        {"expire k 1 XX GT LT\r\n", REPLY_EXPIRE_CONDITIONS},
        {"persist\r\n", REPLY_BAD_FORMAT},
        {"persist k 1\r\n", REPLY_BAD_FORMAT},
        {"ttl\r\n", REPLY_BAD_FORMAT},
        {"ttl k noreply\r\n", REPLY_BAD_FORMAT},
        {"pttl k k\r\n", REPLY_BAD_FORMAT},
        {"unlink\r\n", REPLY_BAD_FORMAT},
        {"flush_prefix\r\n", REPLY_PREFIX_USAGE},
        {"flush_prefix a b\r\n", REPLY_PREFIX_USAGE},
        {"flush_prefix a b noreply\r\n", REPLY_PREFIX_USAGE},
        {"EXPIRE k 1\r\n", REPLY_ERROR},
    };
    char key[REQUEST_KEY_MAX + 2];
    char line[600];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(parse(rows[i].line) == PARSE_REPLY, "%s", rows[i].line);
        ck_assert_msg(reply == rows[i].reply, "%s", rows[i].line);
        ck_assert_uint_eq(req.value_len, 0);
    }
    memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = '\0';
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"ttl", "expire", "unlink a"};

        snprintf(line, sizeof(line), "%s %s%s", names[i], key, i == 1 ? " 1\r\n" : "\r\n");
        ck_assert_int_eq(parse(line), PARSE_REPLY);
        ck_assert_int_eq(reply, REPLY_BAD_FORMAT);
    }
}

TEST(a_mistake_with_noreply_is_silent)
{
    ck_assert_int_eq(parse("expire k x noreply\r\n"), PARSE_REPLY);
    ck_assert(req.noreply);
    ck_assert_int_eq(parse("unlink a noreply\r\n"), PARSE_OK);
    ck_assert(req.noreply);
}

TEST(without_extensions_they_are_no_commands)
{
    static const char *const lines[] = {
        "expire k 1\r\n", "pexpire k 1\r\n", "expireat k 1\r\n",   "pexpireat k 1\r\n",
        "persist k\r\n",  "ttl k\r\n",       "pttl k\r\n",         "expiretime k\r\n",
        "unlink k\r\n",   "unlink\r\n",      "pexpiretime k k\r\n"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ck_assert_int_eq(parse_with(lines[i], false), PARSE_REPLY);
        ck_assert_int_eq(reply, REPLY_ERROR);
        ck_assert(!req.noreply);
    }
    ck_assert_int_eq(parse_with("expire k 1 noreply\r\n", false), PARSE_REPLY);
    ck_assert(req.noreply);
    ck_assert_int_eq(parse_with("ttl HTTP/1.1\r\n", false), PARSE_CLOSE);
}

/* A line of keys may come in parts, up to the length of any line. */
TEST(a_long_unlink_may_go_on)
{
    char line[TEXT_LINE_MAX + 2];

    memset(line, 'k', sizeof(line));
    for (size_t i = 100; i < sizeof(line); i += 100) {
        line[i] = ' ';
    }
    line[sizeof(line) - 1] = '\0';
    memcpy(line, "unlink ", 7);
    line[5000] = '\0';
    ck_assert_int_eq(parse(line), PARSE_MORE);
    ck_assert_int_eq(parse_with(line, false), PARSE_CLOSE);
    line[5000] = ' ';
    ck_assert_int_eq(parse(line), PARSE_CLOSE);
    memcpy(line + 5000, "\r\n", 3);
    ck_assert_int_eq(parse(line), PARSE_OK);
}
