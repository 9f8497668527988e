/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siphash: the published digests, whatever the pieces the input comes in.
 */
#include <check.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/siphash.h"

/* The key 00 01 .. 0f of the published vectors. */
static const struct siphash_key key = {
    .k0 = UINT64_C(0x0706050403020100),
    .k1 = UINT64_C(0x0f0e0d0c0b0a0908),
};

/* What `openssl mac -macopt size:16 SIPHASH` makes of the bytes 00 01 .. of these lengths. */
static const struct {
    size_t len;
    unsigned char digest[16];
} vectors[] = {
    {0,
     {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
      0x93}},
    {1,
     {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
      0x45}},
    {7,
     {0xa1, 0xf1, 0xeb, 0xbe, 0xd8, 0xdb, 0xc1, 0x53, 0xc0, 0xb8, 0x4a, 0xa6, 0x1f, 0xf0, 0x82,
      0x39}},
    {8,
     {0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14, 0x97,
      0xb4}},
    {9,
     {0x26, 0x44, 0x99, 0x06, 0x0a, 0xd9, 0xba, 0xab, 0xc4, 0x7f, 0x8b, 0x02, 0xbb, 0x6d, 0x71,
      0xed}},
    {15,
     {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3,
      0xd9}},
    {16,
     {0x6e, 0xe2, 0xa4, 0xca, 0x67, 0xb0, 0x54, 0xbb, 0xfd, 0x33, 0x15, 0xbf, 0x85, 0x23, 0x05,
      0x77}},
    {17,
     {0x47, 0x3d, 0x06, 0xe8, 0x73, 0x8d, 0xb8, 0x98, 0x54, 0xc0, 0x66, 0xc4, 0x7a, 0xe4, 0x77,
      0x40}},
    {33,
     {0x77, 0xc6, 0x07, 0x71, 0x46, 0xf0, 0x1c, 0x32, 0xb6, 0xb6, 0x9d, 0x5f, 0x4e, 0xa9, 0xff,
      0xcf}},
    {63,
     {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd,
      0x7c}},
};

static struct siphash_digest hash_cut(const unsigned char *input, size_t len, size_t piece)
{
    struct siphash s;

    siphash_init(&s, &key);
    for (size_t at = 0; at < len; at += piece) {
        siphash_feed(&s, input + at, len - at < piece ? len - at : piece);
    }
    return siphash_end(&s);
}

START_TEST(published_digests)
{
    unsigned char input[64];

    for (unsigned i = 0; i < sizeof(input); i++) {
        input[i] = (unsigned char)i;
    }
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        for (size_t piece = 1; piece <= vectors[i].len + 1; piece++) {
            struct siphash_digest d = hash_cut(input, vectors[i].len, piece);
            uint64_t words[2] = {htole64(d.lo), htole64(d.hi)};

            ck_assert_mem_eq(words, vectors[i].digest, sizeof(words));
        }
    }
}
END_TEST

START_TEST(another_key_another_digest)
{
    struct siphash_key other = {.k0 = key.k0 ^ 1, .k1 = key.k1};
    struct siphash a;
    struct siphash b;

    siphash_init(&a, &key);
    siphash_init(&b, &other);
    siphash_feed(&a, "same", 4);
    siphash_feed(&b, "same", 4);
    struct siphash_digest da = siphash_end(&a);
    struct siphash_digest db = siphash_end(&b);
    ck_assert(da.lo != db.lo && da.hi != db.hi);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("siphash");
    TCase *tc = tcase_create("siphash");

    tcase_add_test(tc, published_digests);
    tcase_add_test(tc, another_key_another_digest);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
