/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keyset: every key that was added is there, and hardly any other.
 */
#include "lib/log/keyset.h"

#include "tests/common/rng.h"
#include "tests/common/unit.h"

TEST(what_was_added_is_there)
{
    static const uint64_t counts[] = {0, 1, 17, 1000, 100000};

    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t state = rng_seed();
        uint64_t others = 0;
        struct keyset s;

        uint64_t again = state;
        ck_assert(keyset_init(&s, counts[i], 7));
        ck_assert_uint_le(s.bytes, counts[i] * 8 + 64);
        for (uint64_t k = 0; k < counts[i]; k++) {
            keyset_add(&s, hash_key(again, &k, sizeof(k)));
        }
        for (uint64_t k = 0; k < counts[i]; k++) {
            ck_assert(keyset_has(&s, hash_key(again, &k, sizeof(k))));
        }
        for (uint64_t k = 0; k < 100000; k++) {
            others += keyset_has(&s, hash_key(~again, &k, sizeof(k)));
        }
        ck_assert_uint_le(others, 50); /* some 5 are to be expected */
        keyset_fini(&s);
    }
}

TEST(an_empty_one_has_nothing)
{
    struct keyset s = {.words = NULL};

    ck_assert(!keyset_has(&s, 1));
    keyset_fini(&s);
}

TEST(a_key_has_the_hash_of_the_seed)
{
    struct keyset s = {.seed = 5};

    ck_assert_uint_eq(keyset_hash(&s, span_of("key", 3)), hash_key(5, "key", 3));
}
