/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth_hash: what is a hash and what only begins like one, for every method of the library;
 * and that exactly the password it was made of is good.
 */
#include <crypt.h>

#include "daemon/access/auth_hashed.h"
#include "tests/common/unit.h"

/* A method, the least effort it takes, and the beginning of a setting. */
static const struct {
    const char *prefix;
    unsigned long count;
} methods[] = {
    {"$y$", 1}, {"$gy$", 1},   {"$7$", 6},    {"$2a$", 4},    {"$2b$", 4}, {"$2y$", 4},
    {"$6$", 0}, {"$6$", 1000}, {"$5$", 1000}, {"$sha1$", 10}, {"$md5", 0}, {"$1$", 0},
};
#define METHODS ((int)(sizeof(methods) / sizeof(methods[0])))

/* A hash of the password, in a static buffer. */
static const char *hash_of(int method, const char *password)
{
    static struct crypt_data data;
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];

    memset(&data, 0, sizeof(data));
    ck_assert_ptr_nonnull(crypt_gensalt_rn(methods[method].prefix, methods[method].count,
                                           "0123456789abcdef0123456789abcdef", 32, setting,
                                           sizeof(setting)));
    const char *hash = crypt_rn(password, setting, &data, sizeof(data));
    ck_assert_ptr_nonnull(hash);
    return hash;
}

static enum auth_field field_of(const char *text)
{
    return auth_field_of(span_str(text));
}

TEST_LOOP(every_method_of_the_library_is_known, METHODS)
{
    const char *hash = hash_of(_i, "secret");
    size_t len = strlen(hash);
    char cut[AUTH_HASH_MAX + 1];

    ck_assert_msg(field_of(hash) == AUTH_FIELD_HASH, "%s", hash);
    ck_assert(auth_field_of(span_of(hash, len - 1)) == AUTH_FIELD_BROKEN);
    memcpy(cut, hash, len);
    strcpy(cut + len, "x");
    ck_assert(field_of(cut) == AUTH_FIELD_BROKEN);
    cut[len] = '\0';
    cut[len - 1] = ' ';
    ck_assert(field_of(cut) == AUTH_FIELD_BROKEN);
}

TEST_LOOP(only_its_password_is_good, METHODS)
{
    const char *hash = hash_of(_i, "secret");
    char copy[AUTH_HASH_MAX];

    strcpy(copy, hash);
    ck_assert(auth_hash_verify(copy, span_str("secret")));
    ck_assert(!auth_hash_verify(copy, span_str("secreT")));
    ck_assert(!auth_hash_verify(copy, span_str("secret ")));
    ck_assert(!auth_hash_verify(copy, span_of("secret\0x", 8)));
    ck_assert(!auth_hash_verify(copy, span_of("secret\0", 7)));
    ck_assert(!auth_hash_verify(copy, span_str("")));
    ck_assert(!auth_hash_verify(copy, span_of(NULL, 0)));
    ck_assert(!auth_hash_verify(copy, span_str(copy)));
}

/* The library takes 511 bytes; more are not cut to these. */
TEST(long_passwords_are_not_cut)
{
    char long_one[600];
    char copy[AUTH_HASH_MAX];

    memset(long_one, 'p', sizeof(long_one));
    long_one[511] = '\0';
    strcpy(copy, hash_of(8, long_one));
    ck_assert(auth_hash_verify(copy, span_of(long_one, 511)));
    long_one[511] = 'p';
    ck_assert(!auth_hash_verify(copy, span_of(long_one, 512)));
    ck_assert(!auth_hash_verify(copy, span_of(long_one, 600)));
}

TEST(what_only_begins_with_a_dollar_is_a_password)
{
    static const char *const plain[] = {"",       "$",       "$$",
                                        "$money", "$8$a$b",  "$argon2id$v=19$m=8",
                                        "secret", "x$6$a$b", "$2$12$abc"};

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        ck_assert_msg(field_of(plain[i]) == AUTH_FIELD_PLAIN, "%s", plain[i]);
    }
    ck_assert(field_of("$6$money") == AUTH_FIELD_BROKEN);
    ck_assert(field_of("$2b$") == AUTH_FIELD_PLAIN);
}

/* A setting of the right length that the library cannot use is nobody's. */
TEST(a_hash_that_cannot_be_made_lets_nobody_in)
{
    ck_assert(!auth_hash_verify("$y$!!$salt$", span_str("x")));
    ck_assert(!auth_hash_verify("*0", span_str("x")));
    ck_assert(!auth_hash_verify("", span_str("")));
}
