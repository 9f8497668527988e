/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access: the keys by which logins are known stay those of the program before.
 */
#include "daemon/access/access.h"

#include "tests/common/unit.h"

TEST(keys_of_logins_are_continued)
{
    static const struct siphash_key text = {1, 2};
    static const struct siphash_key sasl = {3, 4};
    static const struct siphash_key none;
    static struct access a;

    access_continue(&a, &text, &sasl);
    ck_assert(a.text.key.k0 == 1 && a.text.key.k1 == 2);
    ck_assert(a.sasl_users.key.k0 == 3 && a.sasl_users.key.k1 == 4);
    /* There were no such users: the key that was drawn stays. */
    access_continue(&a, &none, &none);
    ck_assert(a.text.key.k0 == 1 && a.sasl_users.key.k1 == 4);
}
