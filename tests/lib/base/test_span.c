/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * span: comparison, cutting, and the short copy at every length.
 */
#include "lib/base/span.h"
#include "tests/common/unit.h"

TEST(spans_are_equal_by_bytes_and_length)
{
    ck_assert(span_eq(span_of(NULL, 0), span_str("")));
    ck_assert(span_is(span_of("abcd", 3), "abc"));
    ck_assert(!span_is(span_str("abc"), "abd"));
    ck_assert(!span_is(span_str("abc"), "abcd"));
}

TEST(spans_are_cut)
{
    struct span rest = span_str("a,,b");
    struct span word[2];

    ck_assert(span_is(span_cut(&rest, ','), "a"));
    ck_assert(span_is(span_cut(&rest, ','), ""));
    ck_assert(span_is(span_cut(&rest, ','), "b"));
    ck_assert(rest.len == 0 && span_cut(&rest, ',').len == 0);
    ck_assert(span_split(span_str("a=b=c"), '=', &word[0], &word[1]));
    ck_assert(span_is(word[0], "a") && span_is(word[1], "b=c"));
    ck_assert(span_split(span_str("a="), '=', &word[0], &word[1]));
    ck_assert(span_is(word[0], "a") && word[1].len == 0);
    ck_assert(!span_split(span_str("ab"), '=', &word[0], &word[1]));
    ck_assert(span_is(word[0], "ab") && word[1].len == 0);
    rest = span_str("  one  two ");
    ck_assert(span_is(span_word(&rest), "one") && span_is(rest, "  two "));
    ck_assert(span_is(span_word(&rest), "two") && span_word(&rest).len == 0);
    ck_assert_uint_eq(span_words(span_str(" a b  c"), word, 2), 3);
    ck_assert(span_is(word[0], "a") && span_is(word[1], "b"));
    ck_assert_uint_eq(span_words(span_of(NULL, 0), word, 2), 0);
}

/* The length of every key, and longer; nothing before or after the copy is written. */
TEST(short_copy_copies_exactly)
{
    enum { LONGEST = 300, AROUND = 32 };
    char from[LONGEST];
    char to[AROUND + LONGEST + AROUND];
    char want[sizeof(to)];

    for (size_t i = 0; i < sizeof(from); i++) {
        from[i] = (char)(i * 7 + 1);
    }
    for (size_t n = 0; n <= sizeof(from); n++) {
        memset(to, 0x55, sizeof(to));
        memset(want, 0x55, sizeof(want));
        memcpy(want + AROUND, from, n);
        span_copy_short(to + AROUND, from, n);
        ck_assert_msg(memcmp(to, want, sizeof(to)) == 0, "%zu bytes", n);
    }
}
