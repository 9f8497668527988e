/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys made printable: what passes as it is, what is encoded, and the lengths.
 */
#include "proto/encode.h"

#include <stdbool.h>
#include <string.h>

#include "tests/common/unit.h"

static struct span text(const char *s)
{
    return span_of(s, strlen(s));
}

static void uri_is(const char *in, const char *want)
{
    char out[ENCODE_URI_BYTES(64)];
    size_t n = encode_uri(out, text(in));

    ck_assert_uint_eq(n, strlen(want));
    ck_assert_mem_eq(out, want, n);
}

static void base64_is(const char *in, const char *want)
{
    char out[ENCODE_BASE64_BYTES(64)];
    size_t n = encode_base64(out, text(in));

    ck_assert_uint_eq(n, strlen(want));
    ck_assert_uint_eq(n, ENCODE_BASE64_BYTES(strlen(in)));
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

TEST(base64_pads)
{
    /* The vectors of RFC 4648. */
    base64_is("", "");
    base64_is("f", "Zg==");
    base64_is("fo", "Zm8=");
    base64_is("foo", "Zm9v");
    base64_is("foob", "Zm9vYg==");
    base64_is("fooba", "Zm9vYmE=");
    base64_is("foobar", "Zm9vYmFy");
    base64_is("\xff\xfe\xfb", "//77");
}
