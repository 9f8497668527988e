/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys made printable, and back: what passes as it is, what is encoded, the lengths, the
 * vectors of RFC 4648, and that decoding undoes encoding.
 */
#include "proto/encode.h"

#include "tests/common/rng.h"
#include "tests/common/unit.h"

static void uri_is(const char *in, const char *want)
{
    char out[ENCODE_URI_BYTES(64)];
    size_t n = encode_uri(out, span_str(in));

    ck_assert_uint_eq(n, strlen(want));
    ck_assert_mem_eq(out, want, n);
}

TEST(uri_leaves_plain_letters)
{
    uri_is("", "");
    uri_is("AZaz09-._~", "AZaz09-._~");
}

TEST(uri_encodes_as_memcached_does)
{
    uri_is("k%25:,!*'()/ x", "k%2525%3A%2C%21%2A%27%28%29%2F%20x");
    uri_is("@[`{", "%40%5B%60%7B"); /* the neighbours of the letters */
    uri_is("\xff\x01\x7f", "%FF%01%7F");
}

TEST(uri_of_every_byte_is_printable)
{
    for (unsigned c = 0; c < 256; c++) {
        char in = (char)c;
        char out[ENCODE_URI_BYTES(1)];
        size_t n = encode_uri(out, span_of(&in, 1));

        ck_assert(n == 1 || n == 3);
        for (size_t i = 0; i < n; i++) {
            ck_assert(out[i] > ' ' && out[i] < 0x7f);
        }
    }
}

/* ---- base64 ------------------------------------------------------------------------------ */

static const struct {
    const char *bytes, *text;
} vectors[] = {
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xff\xbf", "+/+/"},
    {"\xff\xff\xff", "////"},
    {"\xff\xfe\xfb", "//77"},
    {"\x01\x02\x03", "AQID"},
};

TEST(known_texts_both_ways)
{
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        char out[64];
        size_t len = encode_base64(out, span_str(vectors[i].bytes));

        ck_assert_uint_eq(len, strlen(vectors[i].text));
        ck_assert_uint_eq(len, ENCODE_BASE64_BYTES(strlen(vectors[i].bytes)));
        ck_assert_int_eq(memcmp(out, vectors[i].text, len), 0);
        ck_assert(decode_base64(out, &len, span_str(vectors[i].text)));
        ck_assert_uint_eq(len, strlen(vectors[i].bytes));
        ck_assert_int_eq(memcmp(out, vectors[i].bytes, len), 0);
    }
}

TEST(text_that_is_not_base64_is_refused)
{
    static const char *const bad[] = {
        "",     "Z",       "Zg",       "Zg=",     "====",     "=",        "Z===",  "=Zg=",
        "Z=g=", "Zg=x",    "Zg==Zg==", "Zm9v=",   "Zm9vZ===", "Zm9 ",     "Zm9\n", "Zm-v",
        "Zm_v", "Zm9\x80", "!!!!",     "Zm9vYg=", "Zg= =",    "Zm9v====",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char out[64];
        size_t len;

        ck_assert_msg(!decode_base64(out, &len, span_str(bad[i])), "\"%s\"", bad[i]);
    }
}

TEST(surplus_bits_may_be_anything)
{
    char out[3];
    size_t len;

    ck_assert(decode_base64(out, &len, span_str("Zh==")));
    ck_assert(len == 1 && out[0] == 'f');
    ck_assert(decode_base64(out, &len, span_str("Zm9=")));
    ck_assert(len == 2 && memcmp(out, "fo", 2) == 0);
}

TEST(decoding_undoes_encoding)
{
    struct rng rng;

    rng_init(&rng, 20240607);
    for (size_t len = 1; len <= 250; len++) {
        char *bytes = malloc(len);
        char *text = malloc(ENCODE_BASE64_BYTES(len));
        char *back = malloc(DECODE_BASE64_BYTES(ENCODE_BASE64_BYTES(len)));
        size_t back_len;

        ck_assert(bytes != NULL && text != NULL && back != NULL);
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (char)rng_next(&rng);
        }
        size_t text_len = encode_base64(text, span_of(bytes, len));
        ck_assert_uint_eq(text_len, ENCODE_BASE64_BYTES(len));
        ck_assert(decode_base64(back, &back_len, span_of(text, text_len)));
        ck_assert_uint_eq(back_len, len);
        ck_assert_int_eq(memcmp(back, bytes, len), 0);
        free(bytes);
        free(text);
        free(back);
    }
}

TEST(keys_in_lines_are_encoded_only_if_they_would_break_them)
{
    static const struct {
        struct span key;
        const char *shown;
    } keys[] = {
        {{"plain", 5}, "plain"},   {{"100%/\t\x01\x7f\xff", 9}, "100%/\t\x01\x7f\xff"},
        {{"a b%", 4}, "a%20b%25"}, {{"\r\nEND", 5}, "%0D%0AEND"},
        {{"a\0", 2}, "a%00"},      {{"", 0}, ""},
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char out[64];
        size_t n = encode_line_key(out, keys[i].key);

        ck_assert_uint_eq(n, strlen(keys[i].shown));
        ck_assert_mem_eq(out, keys[i].shown, n);
    }
}

TEST(nothing_encodes_to_nothing)
{
    char out[4];

    ck_assert_uint_eq(encode_base64(out, span_str("")), 0);
}
