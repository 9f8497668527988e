/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * utf8: what is a character, and its form in JSON.
 */
#include "lib/base/utf8.h"

#include "tests/common/unit.h"

/* The text as JSON. */
static const char *json(const char *bytes, size_t len)
{
    static char out[256];
    struct span s = span_of(bytes, len);
    size_t n = 0;
    size_t taken;

    while (s.len > 0) {
        char one[UTF8_JSON_MAX];
        const size_t put = utf8_to_json(s, one, &taken);

        ck_assert(put > 0 && put <= UTF8_JSON_MAX && taken > 0 && taken <= s.len);
        ck_assert_uint_lt(n + put, sizeof(out));
        memcpy(out + n, one, put);
        n += put;
        s = span_of(s.ptr + taken, s.len - taken);
    }
    out[n] = '\0';
    return out;
}

#define JSON(text) json(text, sizeof(text) - 1)

TEST(what_json_reserves_is_escaped)
{
    ck_assert_str_eq(JSON("a \"b\" \\ c/d"), "a \\\"b\\\" \\\\ c/d");
    ck_assert_str_eq(JSON("\0\n\r\t\x1f\x7f"), "\\u0000\\u000a\\u000d\\u0009\\u001f\\u007f");
    ck_assert_str_eq(JSON("\xc2\x85"), "\\u0085");
}

TEST(characters_stay_what_they_are)
{
    ck_assert_str_eq(JSON("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
                     "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(bytes_that_are_no_character_are_replaced)
{
    ck_assert_str_eq(JSON("\xff"
                          "a\x80"),
                     "\\ufffda\\ufffd");
    ck_assert_str_eq(JSON("\xe2\x82"), "\\ufffd\\ufffd");            /* cut */
    ck_assert_str_eq(JSON("\xc0\x80"), "\\ufffd\\ufffd");            /* too long a form */
    ck_assert_str_eq(JSON("\xed\xa0\x80"), "\\ufffd\\ufffd\\ufffd"); /* half of a pair */
    ck_assert_str_eq(JSON("\xf4\x90\x80\x80"), "\\ufffd\\ufffd\\ufffd\\ufffd");
}

TEST(all_bytes_give_utf_8)
{
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            const char bytes[] = {(char)first, (char)second};

            ck_assert(utf8_is_valid(span_str(json(bytes, 2))));
        }
    }
}
