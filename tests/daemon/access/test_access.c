/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access: the keys by which logins are known stay those of the program before; of several files
 * each one that has changed is noticed.
 */
#include "daemon/access/access.h"

#include "daemon/options/settings.h"
#include "tests/common/folder.h"
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

TEST_FIXTURE(folder_make, folder_remove)

static struct access access_of_files;
static char users[96], rules[96];

static void load(struct settings *s)
{
    snprintf(users, sizeof(users), "%s/users", folder);
    snprintf(rules, sizeof(rules), "%s/rules", folder);
    folder_put("users", "ann:secret word\n");
    folder_put("rules", "user ann all\n");
    memset(s, 0, sizeof(*s));
    s->auth_file = users;
    s->access_file = rules;
    ck_assert_int_eq(access_init(&access_of_files, s), 0);
    ck_assert_int_eq(access_load(&access_of_files, s), 0);
}

static bool reload_has_new(void)
{
    bool has_new;

    ck_assert(access_reload(&access_of_files, &has_new));
    return has_new;
}

/* Logins are looked at again if either is new, also where the other one cannot be read. */
TEST(a_change_of_one_file_is_new)
{
    struct settings s;

    load(&s);
    folder_put("rules", "no line of rules\n");
    ck_assert(reload_has_new());
    folder_put("users", "no line of users\n");
    ck_assert(!reload_has_new());
    folder_put("rules", "user ann read\n");
    ck_assert(reload_has_new());
    access_fini(&access_of_files);
}
