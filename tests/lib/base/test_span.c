/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * span: comparison, and the short copy at every length.
 */
#include <check.h>
#include <string.h>

#include "lib/base/span.h"

START_TEST(spans_are_equal_by_bytes_and_length)
{
    ck_assert(span_eq(span_of(NULL, 0), span_str("")));
    ck_assert(span_is(span_of("abcd", 3), "abc"));
    ck_assert(!span_is(span_str("abc"), "abd"));
    ck_assert(!span_is(span_str("abc"), "abcd"));
}
END_TEST

/* The length of every key, and beyond; neither end is overrun. */
START_TEST(short_copy_copies_exactly)
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
END_TEST

int main(void)
{
    Suite *suite = suite_create("span");
    TCase *tc = tcase_create("span");

    tcase_add_test(tc, spans_are_equal_by_bytes_and_length);
    tcase_add_test(tc, short_copy_copies_exactly);
    suite_add_tcase(suite, tc);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
