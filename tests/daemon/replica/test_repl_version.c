/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of the link of a replica: what two servers speak, and how it is written.
 */
#include "daemon/replica/replication.h"
#include "tests/common/unit.h"

static uint32_t common(uint32_t a, uint32_t b)
{
    const struct repl_versions of_a = repl_versions_of(a);
    const struct repl_versions of_b = repl_versions_of(b);

    ck_assert_uint_eq(repl_versions_common(&of_a, &of_b), repl_versions_common(&of_b, &of_a));
    return repl_versions_common(&of_a, &of_b);
}

TEST(the_lower_version_is_spoken_one_back)
{
    ck_assert_uint_eq(common(1, 1), 1);
    ck_assert_uint_eq(common(1, 2), 1);
    ck_assert_uint_eq(common(2, 2), 2);
    ck_assert_uint_eq(common(2, 3), 2);
    ck_assert_uint_eq(common(4000000000, 4000000000), 4000000000);
}

TEST(what_is_older_than_one_back_is_not_spoken)
{
    /* 1 and 3 would meet at 2, which the first does not know. */
    ck_assert_uint_eq(common(1, 3), 0);
    ck_assert_uint_eq(common(1, 4), 0);
    ck_assert_uint_eq(common(2, 4), 0);
}

TEST(a_range_is_read_as_it_is_written)
{
    for (uint32_t own = 1; own < 5; own++) {
        struct repl_versions v = repl_versions_of(own);
        struct repl_versions read;
        char text[REPL_VERSIONS_BYTES];

        repl_versions_format(&v, text);
        ck_assert(repl_versions_parse(span_str(text), &read));
        ck_assert_uint_eq(read.least, v.least);
        ck_assert_uint_eq(read.most, own);
    }
}

TEST(one_number_stands_for_both)
{
    struct repl_versions v;

    ck_assert(repl_versions_parse(span_str("7"), &v));
    ck_assert_uint_eq(v.least, 7);
    ck_assert_uint_eq(v.most, 7);
    ck_assert(repl_versions_parse(span_str("1-4294967295"), &v));
    ck_assert_uint_eq(v.most, UINT32_MAX);
}

TEST(what_is_no_range_is_refused)
{
    static const char *const bad[] = {
        "",    "0",   "0-1",  "2-1",          "-",     "1-",  "-1",
        "1-x", "x-1", "1--2", "1-4294967296", "1-2-3", "1 -2"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct repl_versions v;

        ck_assert_msg(!repl_versions_parse(span_str(bad[i]), &v), "\"%s\"", bad[i]);
    }
}
