/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sealed_line: the sum is XXH32, and no line that differs in a bit is taken.
 */
#include "lib/replica/sealed_line.h"

#include "tests/common/unit.h"

#define LINE_MAX_BYTES 64u

static const struct {
    const char *line;
    const char *sealed;
} known[] = {
    {"", " 02cc5d05\r\n"},
    {"a", "a 550d7456\r\n"},
    {"abc", "abc 32d153ff\r\n"},
};

TEST(the_sum_is_that_of_xxh32)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char line[LINE_MAX_BYTES + SEAL_BYTES];

        snprintf(line, sizeof(line), "%s", known[i].line);
        ck_assert_uint_eq(line_seal(line, strlen(line)), strlen(known[i].sealed));
        ck_assert_str_eq(line, known[i].sealed);
    }
}

TEST(what_is_sealed_is_taken_as_it_was)
{
    char line[LINE_MAX_BYTES + SEAL_BYTES] = "PART 0 1700000000000 7 7 -9";
    const size_t len = strlen(line);
    struct span s = span_of(line, line_seal(line, len) - 2);

    ck_assert(line_unseal(&s));
    ck_assert_uint_eq(s.len, len);
    ck_assert(s.ptr == line);
}

TEST(no_bit_may_differ)
{
    char line[LINE_MAX_BYTES + SEAL_BYTES] = "PART 0 1700000000000 7 7 -9";
    const size_t len = line_seal(line, strlen(line)) - 2;

    for (size_t bit = 0; bit < len * 8; bit++) {
        struct span s = span_of(line, len);

        line[bit / 8] ^= (char)(1u << bit % 8);
        ck_assert_msg(!line_unseal(&s), "bit %zu", bit);
        ck_assert_uint_eq(s.len, len);
        line[bit / 8] ^= (char)(1u << bit % 8);
    }
    for (size_t n = 0; n < len; n++) {
        struct span s = span_of(line, n);

        ck_assert_msg(!line_unseal(&s), "the first %zu bytes", n);
    }
}
