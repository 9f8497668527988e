/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules: what a file of rules may contain, the message about a wrong one, and what the
 * rules grant together.
 */
#include "daemon/access/rules.h"
#include "tests/common/exact.h"
#include "tests/common/unit.h"

#define RW ((uint8_t)(RIGHT_READ | RIGHT_WRITE))

#define ALL_RIGHTS " (read, write, admin and replicate, all, or none)\n"

/* What was complained about: the lines in order. */
static char told[4096];

static void note(void *arg, unsigned line, const char *why)
{
    size_t len = strlen(told);

    ck_assert_ptr_null(arg);
    snprintf(told + len, sizeof(told) - len, "%u: %s\n", line, why);
}

static struct rules *rules_of_bytes(const char *text, size_t len)
{
    char *copy = exact_copy(text, len);

    told[0] = '\0';
    struct rules *rules = rules_create(span_of(copy, len), note, NULL);
    memset(copy, 'x', len);
    free(copy);
    ck_assert((rules == NULL) == (told[0] != '\0'));
    return rules;
}

static struct rules *rules_of(const char *text)
{
    struct rules *rules = rules_of_bytes(text, strlen(text));

    ck_assert_msg(rules != NULL, "%s", told);
    return rules;
}

static void assert_bad(const char *text, const char *why)
{
    ck_assert_ptr_null(rules_of_bytes(text, strlen(text)));
    ck_assert_str_eq(told, why);
}

/* What a user without a certificate gets on a listener. */
static struct grant grant_of(const struct rules *rules, const char *user, const char *listener)
{
    return rules_grant(rules, span_str(user), RULES_NONE, span_str(listener), RIGHTS_ORDINARY);
}

static uint8_t rights_of(const struct rules *rules, const char *user, const char *listener)
{
    return grant_of(rules, user, listener).rights;
}

TEST(empty_text_grants_what_there_was)
{
    struct rules *r = rules_of("\n# nothing\n \t\n  # nothing\r\n");
    struct grant g = grant_of(r, "u", "tcp");

    ck_assert_uint_eq(rules_count(r), 0);
    ck_assert_uint_eq(g.rights, RIGHTS_ORDINARY);
    ck_assert(!g.is_explicit && g.rule == RULES_NONE);
    ck_assert(rules_allow_key(r, g.rule, span_str("any")));
    rules_destroy(r);
}

TEST(users_get_what_their_rule_says)
{
    struct rules *r = rules_of("user a read\nuser b read,write\nuser c none\nuser d all");

    ck_assert_uint_eq(rights_of(r, "a", "tcp"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "b", "tcp"), RW);
    ck_assert_uint_eq(rights_of(r, "c", "tcp"), 0);
    ck_assert_uint_eq(rights_of(r, "d", "tcp"), RIGHTS_ORDINARY);
    ck_assert_uint_eq(rights_of(r, "e", "tcp"), RIGHTS_ORDINARY);
    ck_assert_uint_eq(rights_of(r, "", "tcp"), RIGHTS_ORDINARY);
    ck_assert(grant_of(r, "d", "tcp").is_explicit);
    ck_assert(!grant_of(r, "e", "tcp").is_explicit);
    rules_destroy(r);
}

TEST(the_default_is_for_those_without_a_rule)
{
    struct rules *r = rules_of("default read\nuser a all\n");

    ck_assert_uint_eq(rights_of(r, "", "tcp"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "b", "tcp"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "default", "tcp"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "a", "tcp"), RIGHTS_ORDINARY);
    rules_destroy(r);
}

TEST(a_listener_bounds_all_on_it)
{
    struct rules *r = rules_of("default none\nlistener in read,write\nuser a read,admin\n"
                               "listener ops all\n");

    ck_assert_uint_eq(rights_of(r, "", "in"), RW);
    ck_assert_uint_eq(rights_of(r, "a", "in"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "a", "tcp"), RIGHT_READ | RIGHT_ADMIN | RIGHT_REPLICATE);
    ck_assert_uint_eq(rights_of(r, "", "tcp"), 0);
    rules_destroy(r);
}

/* Options are changed only by operators that both rules name. */
TEST(config_takes_two_rules)
{
    struct rules *r =
        rules_of("user a admin\nuser b read\nlistener ops all\nlistener in read\n");

    ck_assert_uint_eq(rights_of(r, "a", "ops"), RIGHT_ADMIN | RIGHT_CONFIG | RIGHT_REPLICATE);
    ck_assert_uint_eq(rights_of(r, "a", "tcp"), RIGHT_ADMIN | RIGHT_REPLICATE);
    ck_assert_uint_eq(rights_of(r, "a", "in"), 0);
    ck_assert_uint_eq(rights_of(r, "b", "ops"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "", "ops"), RIGHTS_ORDINARY);
    rules_destroy(r);
}

TEST(replicate_is_a_right_of_its_own)
{
    struct rules *r = rules_of("user a replicate\nuser b read,replicate\nlistener in read\n");

    ck_assert_uint_eq(rights_of(r, "a", "tcp"), RIGHT_REPLICATE);
    ck_assert_uint_eq(rights_of(r, "b", "tcp"), RIGHT_READ | RIGHT_REPLICATE);
    ck_assert_uint_eq(rights_of(r, "a", "in"), 0);
    ck_assert_uint_eq(rights_of(r, "b", "in"), RIGHT_READ);
    rules_destroy(r);
}

TEST(the_first_certificate_of_the_file_counts)
{
    struct rules *r = rules_of("certificate z read\ncertificate a write\nuser u all\n");
    uint32_t z = rules_find_certificate(r, span_str("z"), RULES_NONE);
    uint32_t a = rules_find_certificate(r, span_str("a"), RULES_NONE);

    ck_assert(z != RULES_NONE && a != RULES_NONE && a != z);
    ck_assert_uint_eq(rules_find_certificate(r, span_str("a"), z), z);
    ck_assert_uint_eq(rules_find_certificate(r, span_str("z"), a), z);
    ck_assert_uint_eq(rules_find_certificate(r, span_str("u"), a), a);
    ck_assert_uint_eq(rules_find_certificate(r, span_str(""), RULES_NONE), RULES_NONE);
    ck_assert_uint_eq(rules_grant(r, span_of(NULL, 0), a, span_str("tls"), 7).rights,
                      RIGHT_WRITE);
    ck_assert_uint_eq(rules_grant(r, span_str("u"), a, span_str("tls"), 7).rights,
                      RIGHTS_ORDINARY);
    ck_assert_uint_eq(rules_grant(r, span_str("v"), a, span_str("tls"), 7).rights, RIGHT_WRITE);
    rules_destroy(r);
}

TEST(prefixes_limit_keys)
{
    struct rules *r = rules_of("user a all prefix=a: prefix=\"b c\"\nuser b all\n"
                               "default read prefix=\\x\"\\x00\\xFF\"\n");
    uint32_t a = grant_of(r, "a", "tcp").rule;
    uint32_t other = grant_of(r, "", "tcp").rule;

    ck_assert_uint_eq(grant_of(r, "b", "tcp").rule, RULES_NONE);
    ck_assert(rules_allow_key(r, a, span_str("a:")));
    ck_assert(rules_allow_key(r, a, span_str("a:x")));
    ck_assert(rules_allow_key(r, a, span_str("b cd")));
    ck_assert(!rules_allow_key(r, a, span_str("a")));
    ck_assert(!rules_allow_key(r, a, span_str("b")));
    ck_assert(!rules_allow_key(r, a, span_str("")));
    ck_assert(!rules_allow_key(r, a, span_of(NULL, 0)));
    ck_assert(rules_allow_key(r, other, span_of("\\x\0\xff", 4)));
    ck_assert(!rules_allow_key(r, other, span_str("\\x00")));
    rules_destroy(r);
}

/* There is room for them, however they are written, as the address sanitizer sees. */
TEST(prefixes_may_be_written_in_hex)
{
    struct rules *r = rules_of("user a all \"prefix\\x3da:\" \"prefix\\x3db:\"\n"
                               "user b all \"prefix\\x3dc:\" \"prefix\\x3dd:\"\n");
    struct grant a = grant_of(r, "a", "tcp");
    struct grant b = grant_of(r, "b", "tcp");

    ck_assert(rules_allow_key(r, a.rule, span_str("b:1")));
    ck_assert(!rules_allow_key(r, a.rule, span_str("c:1")));
    ck_assert(rules_allow_key(r, b.rule, span_str("d:1")));
    rules_destroy(r);
}

TEST(names_may_have_any_byte)
{
    struct rules *r =
        rules_of("user \"a b\" read\nuser c\" \"d write\nuser \"\\\"\\\\\\x0a\" all\n");

    ck_assert_uint_eq(rights_of(r, "a b", "tcp"), RIGHT_READ);
    ck_assert_uint_eq(rights_of(r, "c d", "tcp"), RIGHT_WRITE);
    ck_assert_uint_eq(rights_of(r, "\"\\\n", "tcp"), RIGHTS_ORDINARY);
    rules_destroy(r);
}

TEST(all_that_is_wrong_is_told)
{
    assert_bad("usr a read\n", "1: \"usr\" is no user, certificate, listener or default\n");
    assert_bad("user\nuser a\nuser a \n", "1: a name is missing\n"
                                          "2: a list of rights is missing\n"
                                          "3: a list of rights is missing\n");
    assert_bad("user a ,\n", "1: \"\" is no right" ALL_RIGHTS);
    assert_bad("user a read,\n", "1: \"\" is no right" ALL_RIGHTS);
    assert_bad("user a read,none", "1: none stands alone\n");
    assert_bad("default\n", "1: a list of rights is missing\n");
    assert_bad("user a read x\n", "1: \"x\" is no prefix=...\n");
    assert_bad("user \"\" read\n", "1: a name is missing\n");
    assert_bad("user \"a\\n\" read\n", "1: within \"\" a \\ stands before \", \\ or xHH\n");
    assert_bad("user \"a\\x4\" read\n", "1: within \"\" a \\ stands before \", \\ or xHH\n");
    assert_bad("user \"a read\n", "1: a \" is missing\n");
    assert_bad("user a read\n\nuser a all\ndefault all\ndefault none\n",
               "5: default has a rule in line 4\n3: user a has a rule in line 1\n");
    assert_bad("user a all prefix=1 prefix=2 prefix=3 prefix=4 prefix=5 prefix=6 prefix=7 "
               "prefix=8 prefix=9\n",
               "1: more than 8 prefixes\n");
    assert_bad("user a\rb all\n", "1: the line has a byte that is no text\n");
    ck_assert_ptr_null(rules_of_bytes("user a\0 all\n", 12));
}

TEST(lengths_are_bounded)
{
    char *text = malloc(RULES_FILE_MAX + 1);

    ck_assert_ptr_nonnull(text);
    memset(text, '#', RULES_FILE_MAX + 1);
    ck_assert_ptr_null(rules_of_bytes(text, RULES_FILE_MAX + 1));
    memset(text, 'u', RULES_LINE_MAX + 1);
    ck_assert_ptr_null(rules_of_bytes(text, RULES_LINE_MAX + 1));
    memcpy(text, "user ", 5);
    memcpy(text + RULES_LINE_MAX - 4, " all", 4);
    rules_destroy(rules_of_bytes(text, RULES_LINE_MAX));
    free(text);
}

TEST(tables_have_numbers_of_their_own)
{
    struct rules *a = rules_of("");
    struct rules *b = rules_of("");

    ck_assert_uint_ne(rules_generation(a), 0);
    ck_assert_uint_ne(rules_generation(a), rules_generation(b));
    rules_destroy(a);
    rules_destroy(b);
    rules_destroy(NULL);
}
