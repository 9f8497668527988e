/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * num: exact limits, what the strict and the lenient readers accept, and random numbers against
 * the C library.
 */
#include "lib/base/num.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

TEST(u64_accepts_exactly_the_range)
{
    static const struct {
        const char *text;
        enum mf_err err;
        uint64_t value;
    } rows[] = {
        {"0", MF_OK, 0},
        {"7", MF_OK, 7},
        {"0007", MF_OK, 7},
        {"9999999999999999999", MF_OK, 9999999999999999999u},
        {"10000000000000000000", MF_OK, 10000000000000000000u},
        {"18446744073709551615", MF_OK, UINT64_MAX},
        {"000000000000000000018446744073709551615", MF_OK, UINT64_MAX},
        {"18446744073709551616", MF_ERANGE, 0},
        {"18446744073709551620", MF_ERANGE, 0},
        {"99999999999999999999", MF_ERANGE, 0},
        {"184467440737095516150", MF_ERANGE, 0},
        {"999999999999999999999999999999999999999999", MF_ERANGE, 0},
        {"", MF_ESYNTAX, 0},
        {" 1", MF_ESYNTAX, 0},
        {"1 ", MF_ESYNTAX, 0},
        {"+1", MF_ESYNTAX, 0},
        {"-1", MF_ESYNTAX, 0},
        {"1x", MF_ESYNTAX, 0},
        {"0x10", MF_ESYNTAX, 0},
        {"1:", MF_ESYNTAX, 0},
        {"1/", MF_ESYNTAX, 0},
        {"9999999999999999999999999x", MF_ESYNTAX, 0},
        {"\xb2", MF_ESYNTAX, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t v = 4711;
        enum mf_err err = num_u64(span_str(rows[i].text), &v);

        ck_assert_msg(err == rows[i].err, "\"%s\": %d", rows[i].text, err);
        ck_assert_msg(v == (err == MF_OK ? rows[i].value : 4711), "\"%s\": %" PRIu64,
                      rows[i].text, v);
    }
    uint64_t v;
    ck_assert_int_eq(num_u64(span_of("1\0", 2), &v), MF_ESYNTAX);
}

TEST(u32_accepts_exactly_the_range)
{
    uint32_t v = 4711;

    ck_assert_int_eq(num_u32(span_str("4294967295"), &v), MF_OK);
    ck_assert_uint_eq(v, UINT32_MAX);
    v = 4711;
    ck_assert_int_eq(num_u32(span_str("4294967296"), &v), MF_ERANGE);
    ck_assert_int_eq(num_u32(span_str("99999999999999999999999"), &v), MF_ERANGE);
    ck_assert_int_eq(num_u32(span_str("-1"), &v), MF_ESYNTAX);
    ck_assert_uint_eq(v, 4711);
}

TEST(i64_accepts_exactly_the_range)
{
    static const struct {
        const char *text;
        enum mf_err err;
        int64_t value;
    } rows[] = {
        {"0", MF_OK, 0},
        {"-0", MF_OK, 0},
        {"-1", MF_OK, -1},
        {"9223372036854775807", MF_OK, INT64_MAX},
        {"-9223372036854775808", MF_OK, INT64_MIN},
        {"9223372036854775808", MF_ERANGE, 0},
        {"-9223372036854775809", MF_ERANGE, 0},
        {"-18446744073709551616", MF_ERANGE, 0},
        {"-", MF_ESYNTAX, 0},
        {"--1", MF_ESYNTAX, 0},
        {"", MF_ESYNTAX, 0},
        {"- 1", MF_ESYNTAX, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t v = 4711;
        enum mf_err err = num_i64(span_str(rows[i].text), &v);

        ck_assert_msg(err == rows[i].err, "\"%s\": %d", rows[i].text, err);
        ck_assert_msg(v == (err == MF_OK ? rows[i].value : 4711), "\"%s\"", rows[i].text);
    }
}

TEST(i32_accepts_exactly_the_range)
{
    int64_t v = 4711;

    ck_assert_int_eq(num_i32(span_str("2147483648"), &v), MF_ERANGE);
    ck_assert_int_eq(num_i32(span_str("-2147483649"), &v), MF_ERANGE);
    ck_assert_int_eq(num_i32(span_str("1x"), &v), MF_ESYNTAX);
    ck_assert_int_eq(v, 4711);
    ck_assert_int_eq(num_i32(span_str("2147483647"), &v), MF_OK);
    ck_assert_int_eq(v, INT32_MAX);
    ck_assert_int_eq(num_i32(span_str("-2147483648"), &v), MF_OK);
    ck_assert_int_eq(v, INT32_MIN);
}

/* One byte that is not a digit spoils a number, whichever byte it is and wherever it is. */
TEST(no_other_byte_passes_for_a_digit)
{
    char text[20];

    for (size_t len = 1; len <= sizeof(text); len++) {
        for (size_t at = 0; at < len; at++) {
            for (int byte = 0; byte < 256; byte++) {
                bool is_digit = byte >= '0' && byte <= '9';
                uint64_t v;

                memset(text, '0', sizeof(text));
                text[at] = (char)byte;
                ck_assert_msg((num_u64(span_of(text, len), &v) != MF_ESYNTAX) == is_digit,
                              "byte %d at %zu of %zu", byte, at, len);
            }
        }
    }
}

/* Both directions compared with printf, with numbers of every length. */
/* What the three lenient readers make of a text; NONE where they refuse it. */
#define NONE "none"

TEST(lenient_numbers_are_read_as_memcached_reads_them)
{
    static const struct {
        const char *text, *u64, *u32, *i64;
    } rows[] = {
        {"7", "7", "7", "7"},
        {"+7", "7", "7", "7"},
        {"-0", "0", "0", "0"},
        {"-1", NONE, NONE, "-1"},
        {" \t\v\f\r\n7", "7", "7", "7"},
        {"7 x", "7", "7", "7"},
        {"7\r", "7", "7", "7"},
        {" -7\tx", NONE, NONE, "-7"},
        {"4294967295", "4294967295", "4294967295", "4294967295"},
        {"4294967296", "4294967296", NONE, "4294967296"},
        {"9223372036854775807", "9223372036854775807", NONE, "9223372036854775807"},
        {"9223372036854775808", "9223372036854775808", NONE, NONE},
        {"-9223372036854775808", NONE, NONE, "-9223372036854775808"},
        {"-9223372036854775809", NONE, NONE, NONE},
        {"+18446744073709551615", "18446744073709551615", NONE, NONE},
        {"+18446744073709551616", NONE, NONE, NONE},
        {"+000000000000000000000000000001", "1", "1", "1"},
        {"", NONE, NONE, NONE},
        {" ", NONE, NONE, NONE},
        {"-", NONE, NONE, NONE},
        {"- 1", NONE, NONE, NONE},
        {"+-1", NONE, NONE, NONE},
        {"--1", NONE, NONE, NONE},
        {"7x", NONE, NONE, NONE},
        {"7\x08", NONE, NONE, NONE},
        {"7\x0e", NONE, NONE, NONE},
        {"0x7", NONE, NONE, NONE},
        {"7.0", NONE, NONE, NONE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char got[NUM_DIGITS_MAX + 1] = NONE;
        struct span text = span_str(rows[i].text);
        uint64_t u64 = 4711;
        uint32_t u32 = 4711;
        int64_t i64 = 4711;

        if (num_lenient_u64(text, &u64)) {
            snprintf(got, sizeof(got), "%" PRIu64, u64);
        }
        ck_assert_str_eq(got, rows[i].u64);
        ck_assert(strcmp(got, NONE) != 0 || u64 == 4711);

        strcpy(got, NONE);
        if (num_lenient_u32(text, &u32)) {
            snprintf(got, sizeof(got), "%" PRIu32, u32);
        }
        ck_assert_str_eq(got, rows[i].u32);
        ck_assert(strcmp(got, NONE) != 0 || u32 == 4711);

        strcpy(got, NONE);
        if (num_lenient_i64(text, &i64)) {
            snprintf(got, sizeof(got), "%" PRId64, i64);
        }
        ck_assert_str_eq(got, rows[i].i64);
        ck_assert(strcmp(got, NONE) != 0 || i64 == 4711);
    }
}

TEST(random_numbers_go_both_ways)
{
    uint64_t seed = rng_seed();
    struct rng rng;

    rng_init(&rng, seed);
    for (int i = 0; i < 100000; i++) {
        uint64_t v = rng_next(&rng) >> rng_below(&rng, 64);
        char expect[32];
        char got[NUM_DIGITS_MAX];
        uint64_t back = 0;
        int64_t back_signed = 0;

        size_t n = (size_t)snprintf(expect, sizeof(expect), "%" PRIu64, v);
        ck_assert_msg(num_put_u64(got, v) == n && memcmp(got, expect, n) == 0,
                      "seed %" PRIu64 ": %" PRIu64, seed, v);
        ck_assert_msg(num_u64(span_of(got, n), &back) == MF_OK && back == v,
                      "seed %" PRIu64 ": %" PRIu64, seed, v);

        n = (size_t)snprintf(expect, sizeof(expect), "%" PRId64, (int64_t)v);
        ck_assert_msg(num_put_i64(got, (int64_t)v) == n && memcmp(got, expect, n) == 0,
                      "seed %" PRIu64 ": %" PRId64, seed, (int64_t)v);
        ck_assert_msg(num_i64(span_of(got, n), &back_signed) == MF_OK &&
                          back_signed == (int64_t)v,
                      "seed %" PRIu64 ": %" PRId64, seed, (int64_t)v);
    }
}

TEST(put_writes_the_extremes)
{
    char out[NUM_DIGITS_MAX];

    ck_assert_uint_eq(num_put_u64(out, 0), 1);
    ck_assert_int_eq(out[0], '0');
    ck_assert_uint_eq(num_put_u64(out, UINT64_MAX), 20);
    ck_assert_int_eq(memcmp(out, "18446744073709551615", 20), 0);
    ck_assert_uint_eq(num_put_i64(out, INT64_MIN), 20);
    ck_assert_int_eq(memcmp(out, "-9223372036854775808", 20), 0);
}

/* Around each power of ten and of two, where the number of digits changes or is estimated. */
TEST(put_counts_digits_at_every_edge)
{
    uint64_t edges[128];
    size_t n = 0;

    for (uint64_t ten = 1; n < 20; ten *= 10) {
        edges[n++] = ten;
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        edges[n++] = (uint64_t)1 << bit;
    }
    for (size_t i = 0; i < n; i++) {
        for (uint64_t v = edges[i] - 2; v != edges[i] + 3; v++) {
            char expect[32];
            char got[NUM_DIGITS_MAX + 1];
            size_t len = (size_t)snprintf(expect, sizeof(expect), "%" PRIu64, v);

            memset(got, '#', sizeof(got));
            ck_assert_msg(num_put_u64(got, v) == len && memcmp(got, expect, len) == 0,
                          "%" PRIu64, v);
            ck_assert_msg(got[len] == '#', "%" PRIu64 " is written too long", v);
        }
    }
}

TEST(put_short_writes_the_same)
{
    static const uint64_t numbers[] = {0,    9,     10,    99,    100,        101,       999,
                                       1000, 1001,  9999,  10000, 12345,      99999,     100000,
                                       9990, 10001, 65536, 70000, UINT32_MAX, UINT64_MAX};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char want[NUM_DIGITS_MAX], got[NUM_DIGITS_MAX];
        size_t n = num_put_u64(want, numbers[i]);

        ck_assert_ptr_eq(num_put_short(got, numbers[i]), got + n);
        ck_assert_mem_eq(got, want, n);
    }
}

TEST(fractions_have_digits_and_one_point)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},       {"5.", 5},
        {".5", 0.5},    {"-.5", -0.5},
        {"0.25", 0.25}, {"-12.75", -12.75},
        {"007", 7},     {"0.500000000000000000000000000000000001", 0.5},
    };
    static const char *const bad[] = {"",
                                      "-",
                                      ".",
                                      "-.",
                                      "+1",
                                      "1.2.3",
                                      "1e3",
                                      " 1",
                                      "1 ",
                                      "--1",
                                      "1000000000000000000000000000000"};
    double out = 7;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(num_fraction(span_str(good[i].text), &out), "%s", good[i].text);
        ck_assert_msg(out == good[i].value, "%s: %g", good[i].text, out);
    }
    out = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!num_fraction(span_str(bad[i]), &out), "%s", bad[i]);
        ck_assert(out == 7);
    }
}

TEST(two_hexadecimal_digits_are_a_byte)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 256; i++) {
        const char two[2] = {digits[i / 16], digits[i % 16]};

        ck_assert_int_eq(num_hex_byte(two), i);
    }
    ck_assert_int_eq(num_hex_byte("aF"), 0xaf);
    ck_assert_int_eq(num_hex_byte("Fa"), 0xfa);
    ck_assert_int_eq(num_hex_byte("g0"), -1);
    ck_assert_int_eq(num_hex_byte("0G"), -1);
    ck_assert_int_eq(num_hex_byte("-1"), -1);
    ck_assert_int_eq(num_hex_byte("\x10\x11"), -1); /* that | 0x20 are digits */
}
