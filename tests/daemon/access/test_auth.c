/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth: what a file of users may contain, that exactly its pairs are let in, and that a file
 * which cannot be read leaves the users alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/access/auth.h"
#include "lib/base/mem.h"
#include "tests/common/unit.h"

static const struct siphash_key key = {.k0 = 17, .k1 = 4};

static struct auth_table *table_of_form(enum auth_form form, const char *text, size_t len,
                                        size_t *bad_line)
{
    /* A copy of the exact size: a checker sees one byte read too many. */
    char *copy = malloc(len + (len == 0));

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, len);
    struct auth_table *table = auth_table_create(&key, form, span_of(copy, len), bad_line);
    memset(copy, 'x', len);
    free(copy);
    return table;
}

static struct auth_table *table_of_bytes(const char *text, size_t len, size_t *bad_line)
{
    return table_of_form(AUTH_FILE, text, len, bad_line);
}

static struct auth_table *table_of(const char *text)
{
    size_t bad_line;
    struct auth_table *table = table_of_bytes(text, strlen(text), &bad_line);

    ck_assert_msg(table != NULL, "line %zu of \"%s\"", bad_line, text);
    return table;
}

static bool has(const struct auth_table *table, const char *user, const char *password)
{
    return auth_table_has(table, &key, span_str(user), span_str(password));
}

static void assert_bad(const char *text, size_t len, size_t line)
{
    size_t bad_line = 0;

    ck_assert_ptr_null(table_of_bytes(text, len, &bad_line));
    ck_assert_uint_eq(bad_line, line);
}

#define assert_bad_text(text, line) assert_bad(text, sizeof(text) - 1, line)

TEST(lets_in_its_pairs_only)
{
    struct auth_table *t = table_of("user:pass\nbob:builder\n");

    ck_assert_uint_eq(t->count, 2);
    ck_assert(has(t, "user", "pass"));
    ck_assert(has(t, "bob", "builder"));
    ck_assert(!has(t, "user", "builder"));
    ck_assert(!has(t, "bob", "pass"));
    ck_assert(!has(t, "user", "pas"));
    ck_assert(!has(t, "user", "passs"));
    ck_assert(!has(t, "user", "Pass"));
    ck_assert(!has(t, "use", "rpass"));
    ck_assert(!has(t, "userp", "ass"));
    ck_assert(!has(t, "", "userpass"));
    ck_assert(!has(t, "user", ""));
    ck_assert(!has(t, "", ""));
    ck_assert(!has(t, "user:pass", ""));
    auth_table_destroy(t);
}

TEST(first_colon_parts)
{
    struct auth_table *t = table_of("c:p:q\nd:\n:e\n#f:g\n");

    ck_assert_uint_eq(t->count, 4);
    ck_assert_uint_eq(t->unusable, 2);
    ck_assert(has(t, "c", "p:q"));
    ck_assert(!has(t, "c:p", "q"));
    ck_assert(has(t, "#f", "g"));
    auth_table_destroy(t);
}

TEST(several_passwords_of_one_user)
{
    struct auth_table *t = table_of("u:old\nu:new");

    ck_assert(has(t, "u", "old"));
    ck_assert(has(t, "u", "new"));
    auth_table_destroy(t);
}

TEST(empty_text_lets_nobody_in)
{
    struct auth_table *t = table_of("");

    ck_assert_uint_eq(t->count, 0);
    ck_assert(!has(t, "", ""));
    ck_assert(!has(t, "u", "p"));
    auth_table_destroy(t);
}

TEST(last_line_may_lack_its_end)
{
    struct auth_table *t = table_of("u:p");

    ck_assert(has(t, "u", "p"));
    auth_table_destroy(t);
}

TEST(malformed_lines)
{
    assert_bad_text("user", 1);
    assert_bad_text("user\n", 1);
    assert_bad_text("\n", 1);
    assert_bad_text("u:p\n\n", 2);
    assert_bad_text("u:p\nv:q\nuser\nw:r\n", 3);
    assert_bad_text("# users\nu:p\n", 1);
    assert_bad_text("u:p\r\n", 1);
    assert_bad_text("u:p\n\xff\xfe\n", 2);
    assert_bad_text("u:p\nu\0:\0p\0\n", 2);
    assert_bad_text("u:p\n\0\0\0\0", 2);
}

TEST(line_length_is_bounded)
{
    char text[AUTH_LINE_MAX + 2];
    size_t bad_line;

    memset(text, 'p', sizeof(text));
    memcpy(text, "u:", 2);
    struct auth_table *t = table_of_bytes(text, AUTH_LINE_MAX, &bad_line);
    ck_assert_ptr_nonnull(t);
    ck_assert(auth_table_has(t, &key, span_of("u", 1), span_of(text + 2, AUTH_LINE_MAX - 2)));
    ck_assert(!auth_table_has(t, &key, span_of("u", 1), span_of(text + 2, AUTH_LINE_MAX - 3)));
    auth_table_destroy(t);
    assert_bad(text, AUTH_LINE_MAX + 1, 1);
}

TEST(thousands_of_users)
{
    enum { USERS = 20000 };
    char *text = malloc(USERS * 32);
    size_t len = 0;

    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < USERS; i++) {
        len += (size_t)sprintf(text + len, "user%d:pass%d\n", i, i * 7);
    }
    struct auth_table *t = table_of(text);
    ck_assert_uint_eq(t->count, USERS);
    for (int i = 0; i < USERS; i += 997) {
        char user[32];
        char password[32];

        snprintf(user, sizeof(user), "user%d", i);
        snprintf(password, sizeof(password), "pass%d", i * 7);
        ck_assert(has(t, user, password));
        snprintf(password, sizeof(password), "pass%d", i * 7 + 1);
        ck_assert(!has(t, user, password));
    }
    auth_table_destroy(t);
    free(text);
}

TEST(no_password_stays_in_memory)
{
    static const char text[] = "somebody:topsecret\n";
    struct auth_table *t = table_of(text);
    size_t size = sizeof(*t) + t->count * sizeof(t->entries[0]);

    ck_assert_ptr_null(memmem(t, size, "somebody", 8));
    ck_assert_ptr_null(memmem(t, size, "topsecret", 9));
    auth_table_destroy(t);
}

TEST(another_key_another_table)
{
    struct auth_table *t = table_of("u:p\n");
    struct siphash_key other = {.k0 = 18, .k1 = 4};

    ck_assert(!auth_table_has(t, &other, span_str("u"), span_str("p")));
    auth_table_destroy(t);
}

TEST(pwdb_password_may_end_at_any_colon)
{
    static const char text[] = "u:p\nv:q:\nw:r:s:t\r\n# no user\n\nx:\nsp ace:pass word\n:z";
    size_t bad_line;
    struct auth_table *t = table_of_form(AUTH_PWDB, text, sizeof(text) - 1, &bad_line);

    ck_assert_ptr_nonnull(t);
    ck_assert(has(t, "u", "p"));
    ck_assert(has(t, "v", "q"));
    ck_assert(has(t, "v", "q:"));
    ck_assert(has(t, "w", "r"));
    ck_assert(has(t, "w", "r:s"));
    ck_assert(has(t, "w", "r:s:t"));
    ck_assert(!has(t, "w", "r:s:t\r"));
    ck_assert(!has(t, "w", "s"));
    ck_assert(!has(t, "w:r", "s"));
    ck_assert(has(t, "x", ""));
    ck_assert(has(t, "sp ace", "pass word"));
    ck_assert(!has(t, "", "z"));
    ck_assert_uint_eq(t->count, 8);
    auth_table_destroy(t);
    ck_assert_ptr_null(table_of_form(AUTH_PWDB, "u:p\nv:\0q\n", 9, &bad_line));
    ck_assert_uint_eq(bad_line, 2);
}

/* ---- the file ---------------------------------------------------------------------------- */

static char folder[] = "/tmp/mayfly-auth.XXXXXX";
static char path[64];

static void make_folder(void)
{
    strcpy(strrchr(folder, '.'), ".XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/users", folder);
}

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

TEST_FIXTURE(make_folder, remove_folder)

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static bool lets_in(const struct auth *a, const char *user, const char *password)
{
    return auth_check(a, span_str(user), span_str(password));
}

TEST(off_without_a_file)
{
    struct auth a;

    ck_assert_int_eq(auth_init(&a, AUTH_FILE, NULL), 0);
    ck_assert(!auth_is_on(&a));
    ck_assert_int_eq(auth_load(&a), 0);
    auth_fini(&a);
}

TEST(relative_path_outlives_the_folder)
{
    struct auth a;
    char *before = getcwd(NULL, 0);

    write_file("u:p\n");
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, "users"), 0);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(auth_load(&a), 0);
    ck_assert(lets_in(&a, "u", "p"));
    ck_assert_uint_eq(auth_count(&a), 1);
    auth_fini(&a);
    ck_assert_int_eq(chdir(before), 0);
    free(before);
}

static void assert_start_fails(void)
{
    struct auth a;

    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(auth_load(&a), 1);
    auth_fini(&a);
}

TEST(start_wants_a_good_file)
{
    assert_start_fails();
    write_file("user\n");
    assert_start_fails();
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_start_fails(); /* and does not wait for a writer */
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    assert_start_fails();
    rmdir(path);
}

TEST(reload_takes_the_new_users)
{
    struct auth a;

    write_file("u:p\n");
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(auth_load(&a), 0);
    write_file("v:q\nw:r\n");
    auth_reload(&a);
    ck_assert(!lets_in(&a, "u", "p"));
    ck_assert(lets_in(&a, "v", "q"));
    ck_assert(lets_in(&a, "w", "r"));
    write_file("");
    auth_reload(&a);
    ck_assert(!lets_in(&a, "v", "q"));
    auth_fini(&a);
}

TEST(broken_file_keeps_the_old_users)
{
    struct auth a;

    write_file("u:p\n");
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(auth_load(&a), 0);
    write_file("v:q\nbroken\n");
    auth_reload(&a);
    ck_assert(lets_in(&a, "u", "p"));
    ck_assert(!lets_in(&a, "v", "q"));
    unlink(path);
    auth_reload(&a);
    ck_assert(lets_in(&a, "u", "p"));
    auth_fini(&a);
}
