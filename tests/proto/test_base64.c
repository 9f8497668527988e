/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base64: the vectors of RFC 4648, what is no base64, and that decoding undoes encoding.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/encode.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

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

TEST(what_is_no_base64_is_refused)
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

TEST(bits_that_are_left_over_may_be_anything)
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
