/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conf_edit: the value of a line, or a line more, and every other byte as it was.
 */

#include "daemon/options/conf_line.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define MARK CONF_EDIT_MARK

static struct buf out;

static void gives(enum conf_edit result, const char *wanted)
{
    ck_assert_int_eq(result, CONF_EDITED);
    ck_assert(buf_append(&out, "", 1));
    ck_assert_str_eq(buf_begin(&out), wanted);
    buf_fini(&out);
}

static void becomes(const char *text, unsigned line, const char *value, const char *wanted)
{
    gives(conf_edit_value(&out, span_str(text), line, value), wanted);
}

TEST(a_value_is_replaced_and_nothing_else)
{
    becomes("hz=10", 1, "5", "hz=5");
    becomes("# c\n\t hz \t=  10 \t# why\n\nhz = 1\n", 2, "500",
            "# c\n\t hz \t=  500 \t# why\n\nhz = 1\n");
    becomes("hz = 10\r\nhz = 20\r\n", 2, "7", "hz = 10\r\nhz = 7\r\n");
    becomes("\xef\xbb\xbfhz = 10", 1, "7", "\xef\xbb\xbfhz = 7");
    becomes("a = b=c#d # e", 1, "x", "a = x # e");
}

TEST(quotes_stay_and_come_where_they_must)
{
    becomes("a = \"1\"# c\n", 1, "2", "a = \"2\"# c\n");
    becomes("a = \"\\x41\\\"\\\\\"", 1, "\"\\\t", "a = \"\\\"\\\\\\x09\"");
    becomes("a = 1 # c", 1, " x", "a = \" x\" # c");
    becomes("a = 1", 1, "#", "a = \"#\"");
    becomes("a = \"1\"", 1, "", "a = \"\"");
}

TEST(a_value_comes_where_there_was_none)
{
    becomes("a =", 1, "1", "a = 1");
    becomes("a =\r\n", 1, "1", "a = 1\r\n");
    becomes("a = ", 1, "1", "a = 1");
    becomes("a = # c\n", 1, "1", "a = 1 # c\n");
    becomes("a =# c\n", 1, "1", "a = 1 # c\n");
    becomes("a = 1 # c\n", 1, "", "a =  # c\n");
}

TEST(a_line_without_a_setting_is_not_edited)
{
    static const char text[] = "# a = 1\n\nnothing\na = 'x'\na = 1\n";

    for (unsigned line = 1; line <= 4; line++) {
        ck_assert_int_eq(conf_edit_value(&out, span_str(text), line, "2"), CONF_EDIT_NO_LINE);
    }
    ck_assert_int_eq(conf_edit_value(&out, span_str(text), 6, "2"), CONF_EDIT_NO_LINE);
    ck_assert_int_eq(conf_edit_value(&out, span_str(""), 1, "2"), CONF_EDIT_NO_LINE);
    ck_assert_uint_eq(buf_len(&out), 0);
}

static void adds(const char *text, const char *wanted)
{
    gives(conf_edit_add(&out, span_str(text), "hz", "5"), wanted);
}

TEST(what_is_new_stands_in_one_block)
{
    adds("", MARK "\nhz = 5\n");
    adds("a = 1\n", "a = 1\n\n" MARK "\nhz = 5\n");
    adds("a = 1", "a = 1\n\n" MARK "\nhz = 5\n");
    adds("a = 1\r\nb = 2", "a = 1\r\nb = 2\r\n\r\n" MARK "\r\nhz = 5\r\n");
    adds(MARK, MARK "\nhz = 5\n");
    adds("x = 1\n" MARK "\na = 1\nb = 2\n\n# end\nc = 1\n",
         "x = 1\n" MARK "\na = 1\nb = 2\nhz = 5\n\n# end\nc = 1\n");
    adds("x = 1\n" MARK "\na = 1", "x = 1\n" MARK "\na = 1\nhz = 5\n");
    adds(MARK "\na = 1\nb = \"x\n", MARK "\na = 1\nhz = 5\nb = \"x\n");
    adds("x = 1\n" MARK "\r\n# a\n", "x = 1\n" MARK "\r\nhz = 5\n# a\n");
}

/* A text of a few kinds of bytes, so that all kinds of lines come. */
static size_t draw_text(struct rng *r, char *text, size_t most)
{
    static const char *const parts[] = {"a",   " ",       "=",     "\n", "\"",  "#",
                                        "\\",  "b",       "\t",    "\r", " = ", "\r\n",
                                        "x41", "a = 1\n", "\"v\"", "hz"};
    size_t len = 0;

    for (uint64_t n = rng_below(r, 40); n > 0 && len + 8 < most; n--) {
        const char *part = parts[rng_below(r, sizeof(parts) / sizeof(parts[0]))];

        memcpy(text + len, part, strlen(part));
        len += strlen(part);
    }
    return len;
}

/* The line of this number; zero: there is none. */
static struct conf_line line_of(struct span text, unsigned number)
{
    struct conf_line line = {0};

    while (line.number < number && conf_line_next(&text, &line)) {
    }
    return line;
}

TEST(any_text_keeps_its_other_lines)
{
    static const char *const values[] = {"1",    "",   " ", "#",  "a#b",
                                         "a #b", "\"", "'", "\\", "x y"};
    char text[512];
    char value[64];
    unsigned edited = 0;
    struct rng r;

    rng_init(&r, rng_seed());
    for (int i = 0; i < 20000; i++) {
        const struct span before = span_of(text, draw_text(&r, text, sizeof(text)));
        const unsigned number = 1 + (unsigned)rng_below(&r, 6);
        const char *wanted = values[rng_below(&r, sizeof(values) / sizeof(values[0]))];

        buf_clear(&out);
        if (conf_edit_value(&out, before, number, wanted) != CONF_EDITED) {
            continue;
        }
        edited++;
        for (unsigned n = 1;; n++) {
            const struct conf_line old = line_of(before, n);
            const struct conf_line new = line_of(buf_span(&out), n);

            if (n != number) {
                ck_assert(span_eq(old.whole, new.whole));
                if (n > number && old.whole.len == 0) {
                    break;
                }
                continue;
            }
            ck_assert(span_eq(old.name, new.name) && new.why == NULL);
            ck_assert(new.raw.len < sizeof(value));
            conf_line_value(&new, value);
            ck_assert(strcmp(value, wanted) == 0);
        }
    }
    ck_assert_uint_gt(edited, 1000);
    buf_fini(&out);
}
