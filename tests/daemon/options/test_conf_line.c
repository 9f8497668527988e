/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conf_line: what a line says, what is wrong with it, and that no byte of a file is lost.
 */
#include "daemon/options/conf_line.h"

#include "tests/common/rng.h"
#include "tests/common/unit.h"

static char value[256];

/* Read a text of one line. */
static struct conf_line line_of(struct span text)
{
    struct conf_line line = {0};

    ck_assert(conf_line_next(&text, &line));
    ck_assert_uint_eq(text.len, 0);
    value[0] = '\0';
    if (line.why == NULL && line.name.len > 0) {
        ck_assert_uint_lt(line.raw.len, sizeof(value));
        conf_line_value(&line, value);
    }
    return line;
}

static void check_setting(const char *text, const char *name, const char *wanted)
{
    struct conf_line line = line_of(span_str(text));

    ck_assert_msg(line.why == NULL, "%s: %s", text, line.why);
    ck_assert_msg(span_is(line.name, name), "%s: the name is %.*s", text, (int)line.name.len,
                  line.name.ptr);
    ck_assert_msg(strcmp(value, wanted) == 0, "%s: the value is %s", text, value);
}

TEST(names_and_values_are_found)
{
    check_setting("a = b", "a", "b");
    check_setting("a=b\n", "a", "b");
    check_setting("\t a-b_c\t=  x y  \r\n", "a-b_c", "x y");
    check_setting("a = b # c", "a", "b");
    check_setting("a = b\t# c", "a", "b");
    check_setting("a = b#c", "a", "b#c");
    check_setting("a = #c", "a", "");
    check_setting("a =", "a", "");
    check_setting("a = x=y", "a", "x=y");
    check_setting("a = b\"c", "a", "b\"c");
    check_setting("\xef\xbb\xbf"
                  "a = b",
                  "a", "b");
    check_setting("a = \xc3\xa4", "a", "\xc3\xa4");
}

TEST(quotes_keep_what_is_in_them)
{
    check_setting("a = \" b # c \" # d", "a", " b # c ");
    check_setting("a = \"\"", "a", "");
    check_setting("a = \"\\\"\\\\\"", "a", "\"\\");
    check_setting("a = \"\\x41\\x0a\\xfF\"#", "a", "A\n\xff");
    check_setting("a = \"'\"", "a", "'");
}

TEST(empty_lines_and_comments_have_no_setting)
{
    static const char *const lines[] = {"\n",           "\r\n",       "  \t",        "# x",
                                        "   # a = b\n", "#a = b\r\n", "\xef\xbb\xbf"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct conf_line line = line_of(span_str(lines[i]));

        ck_assert_ptr_null(line.why);
        ck_assert_uint_eq(line.name.len, 0);
    }
}

TEST(what_is_wrong_is_told)
{
    static const struct {
        const char *text;
        size_t len;
        const char *why;
    } rows[] = {
#define ROW(text, why) {text, sizeof(text) - 1, why}
        ROW("foo", "name = value"),
        ROW("= b", "name = value"),
        ROW("[section]", "name = value"),
        ROW("a b = c", "name = value"),
        ROW("a\tb = c", "name = value"),
        ROW("a = \"b", "not closed"),
        ROW("a = \"b\\\"", "not closed"),
        ROW("a = \"b\\n\"", "backslash"),
        ROW("a = \"\\x0\"", "backslash"),
        ROW("a = \"\\x00\"", "backslash"),
        ROW("a = \"\\x4g\"", "backslash"),
        ROW("a = \"b\\", "backslash"),
        ROW("a = \"b\" c", "after the closing quote"),
        ROW("a = 'b'", "double quotes"),
        ROW("a = b\0c", "NUL"),
        ROW("# \0", "NUL"),
        ROW("a = b\rc = d", "control"),
        ROW("a = b\r\r\n", "control"),
        ROW("a = \x1b[31m", "control"),
        ROW("\xef\xbb", "name = value"),
#undef ROW
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conf_line line = line_of(span_of(rows[i].text, rows[i].len));

        ck_assert_msg(line.why != NULL, "\"%s\" is accepted", rows[i].text);
        ck_assert_msg(strstr(line.why, rows[i].why) != NULL, "\"%s\": %s", rows[i].text,
                      line.why);
    }
}

TEST(lines_are_counted_and_the_last_needs_no_end)
{
    struct span text = span_str("a = 1\n\nbad\nb = 2");
    struct conf_line line = {0};

    ck_assert(conf_line_next(&text, &line));
    ck_assert(line.number == 1 && span_is(line.whole, "a = 1\n"));
    ck_assert(conf_line_next(&text, &line));
    ck_assert(line.number == 2 && span_is(line.whole, "\n"));
    ck_assert(conf_line_next(&text, &line));
    ck_assert(line.number == 3 && line.why != NULL);
    ck_assert(conf_line_next(&text, &line));
    ck_assert(line.number == 4 && line.why == NULL && span_is(line.raw, "2"));
    ck_assert(!conf_line_next(&text, &line));
}

/* A rewrite replaces the value in its place, and keeps the rest of the line. */
TEST(a_value_is_found_within_its_line)
{
    static const char text[] = "  threads = \"4\" # of 8\n";
    struct conf_line line = line_of(span_str(text));
    const size_t at = (size_t)(line.raw.ptr - line.whole.ptr);

    ck_assert_uint_eq(at, 13);
    ck_assert_uint_eq(line.raw.len, 1);
    ck_assert(line.is_quoted);
    ck_assert_str_eq(line.whole.ptr + at + line.raw.len, "\" # of 8\n");
}

/* Any value comes back, whatever it has in it, with a comment after it. */
TEST(printed_values_are_read_again)
{
    struct rng rng;

    rng_init(&rng, rng_seed());
    for (unsigned turn = 0; turn < 20000; turn++) {
        static const char likely[] = "\"\\# \t'=x41\n\r\x7f";
        char given[12];
        char *text = NULL;
        size_t size = 0;
        const size_t len = rng_below(&rng, sizeof(given));
        FILE *out = open_memstream(&text, &size);

        for (size_t i = 0; i < len; i++) {
            given[i] = rng_below(&rng, 4) == 0 ? (char)(1 + rng_below(&rng, 255))
                                               : likely[rng_below(&rng, sizeof(likely) - 1)];
        }
        given[len] = '\0';
        ck_assert_ptr_nonnull(out);
        fputs("name = ", out);
        const size_t printed = conf_value_print(out, given);
        fputs(" # comment\n", out);
        fclose(out);
        ck_assert_uint_eq(size, strlen("name = ") + printed + strlen(" # comment\n"));
        check_setting(text, "name", given);
        free(text);
    }
}
