/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth: what a file of users may contain, that exactly its pairs are let in, and that a file
 * that cannot be read leaves the users unchanged.
 */
#include <crypt.h>
#include <sys/stat.h>

#include "daemon/access/auth.h"
#include "daemon/access/auth_hashed.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"
#include "tests/common/exact.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

static const struct siphash_key key = {.k0 = 17, .k1 = 4};

static struct auth_table *table_of_form(enum auth_form form, const char *text, size_t len,
                                        size_t *bad_line)
{
    char *copy = exact_copy(text, len);

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

TEST(lines_may_end_as_on_other_systems)
{
    struct auth_table *t = table_of("u:p\r\nv:q r\r\nw:s\r");

    ck_assert_uint_eq(t->count, 3);
    ck_assert_uint_eq(t->unusable, 0);
    ck_assert(has(t, "u", "p"));
    ck_assert(!has(t, "u", "p\r"));
    ck_assert(has(t, "v", "q r"));
    ck_assert(has(t, "w", "s"));
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
    assert_bad_text("u:p\r\r\n", 1);
    assert_bad_text("u:p\rv:q\n", 1);
    assert_bad_text("u:p\n\r\n", 2);
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

static char path[96];

static void make_folder(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/users", folder);
}

TEST_FIXTURE(make_folder, folder_remove)

static void write_file(const char *text)
{
    folder_put("users", text);
}

static bool lets_in(const struct auth *a, const char *user, const char *password)
{
    struct siphash_digest login;

    rcu_register();
    rcu_begin();
    bool is_in = auth_check(a, span_str(user), span_str(password), &login);
    ck_assert(auth_knows(a, &login) == is_in);
    rcu_end();
    rcu_unregister();
    return is_in;
}

static size_t entries_of(const struct auth *a)
{
    rcu_register();
    rcu_begin();
    size_t count = auth_count(a);
    rcu_end();
    rcu_unregister();
    return count;
}

/* What is read while it is being written must not lock anybody out. */
TEST(what_seems_cut_off_is_not_used)
{
    struct auth a;

    write_file("u:p\nv:q\n");
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    write_file("");
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "v", "q"));
    write_file("u:p\nv:longer");
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "v", "q"));
    ck_assert(!lets_in(&a, "v", "longer"));
    write_file("v:longer\n");
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "v", "longer"));
    ck_assert(!lets_in(&a, "u", "p"));
    auth_fini(&a);
}

/* Some tools never write the last line feed: then its absence says nothing. */
TEST(a_last_line_without_end_may_be_a_habit)
{
    struct auth a;

    write_file("u:p");
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    write_file("v:q");
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "v", "q"));
    write_file("");
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "v", "q"));
    auth_fini(&a);
}

TEST(off_without_a_file)
{
    struct auth a;

    ck_assert_int_eq(auth_init(&a, AUTH_FILE, NULL), 0);
    ck_assert(!auth_is_on(&a));
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
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
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    ck_assert(lets_in(&a, "u", "p"));
    ck_assert_uint_eq(entries_of(&a), 1);
    auth_fini(&a);
    ck_assert_int_eq(chdir(before), 0);
    free(before);
}

/* ---- hashed passwords -------------------------------------------------------------------- */

/* Make the whole of a login; *hashes: how many were made for it. */
static bool logs_in_as(const struct auth *a, const char *user, const char *password,
                       struct siphash_digest *login, unsigned *hashes)
{
    *hashes = 0;
    rcu_register();
    bool is_in = auth_check_hashed(a, span_str(user), span_str(password), login, hashes);
    rcu_begin();
    ck_assert(auth_knows(a, login) == is_in);
    ck_assert(auth_check(a, span_str(user), span_str(password), login) == is_in);
    rcu_end();
    rcu_unregister();
    return is_in;
}

static bool logs_in(const struct auth *a, const char *user, const char *password,
                    unsigned *hashes)
{
    struct siphash_digest login;

    return logs_in_as(a, user, password, &login, hashes);
}

/* A hash of the password with a salt of its own. */
static const char *hashed(const char *password, const char *salt)
{
    static struct crypt_data data;

    ck_assert_ptr_nonnull(crypt_r(password, salt, &data));
    return data.output;
}

static void add_user(FILE *f, const char *user, const char *field)
{
    fprintf(f, "%s:%s\n", user, field);
}

TEST(a_hash_lets_its_password_in)
{
    struct auth a;
    FILE *f = fopen(path, "w");
    unsigned n;

    ck_assert_ptr_nonnull(f);
    add_user(f, "plain", "word");
    add_user(f, "u", hashed("secret", "$1$aaaaaaaa$"));
    add_user(f, "v", hashed("other", "$1$bbbbbbbb$"));
    add_user(f, "dollar", "$1$money");
    fclose(f);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    ck_assert_uint_eq(entries_of(&a), 4);

    ck_assert(!lets_in(&a, "u", "secret")); /* not without the hash */
    ck_assert(logs_in(&a, "u", "secret", &n));
    ck_assert_uint_eq(n, 1);
    ck_assert(lets_in(&a, "u", "secret")); /* it is remembered */
    ck_assert(logs_in(&a, "u", "secret", &n));
    ck_assert_uint_eq(n, 0);

    ck_assert(!logs_in(&a, "u", "other", &n));
    ck_assert_uint_eq(n, 1);
    ck_assert(!logs_in(&a, "v", "secret", &n));
    ck_assert(!logs_in(&a, "v", hashed("other", "$1$bbbbbbbb$"), &n));
    ck_assert(logs_in(&a, "plain", "word", &n));
    ck_assert_uint_eq(n, 0);
    ck_assert(logs_in(&a, "dollar", "$1$money", &n));
    auth_fini(&a);
}

/* A login of an unknown user, or of one with a plain password, costs a hash too. */
TEST(every_failure_costs_the_same)
{
    struct auth a;
    FILE *f = fopen(path, "w");
    unsigned n;

    ck_assert_ptr_nonnull(f);
    add_user(f, "plain", "word");
    for (unsigned i = 0; i < 50; i++) {
        char name[16];

        snprintf(name, sizeof(name), "u%u", i);
        add_user(f, name, hashed("secret", "$1$aaaaaaaa$"));
    }
    fclose(f);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    for (unsigned i = 0; i < 100; i++) {
        char name[16];

        snprintf(name, sizeof(name), "u%u", i);
        ck_assert(!logs_in(&a, name, "wrong", &n));
        ck_assert_uint_eq(n, 1);
    }
    ck_assert(!logs_in(&a, "plain", "wrong", &n));
    ck_assert_uint_eq(n, 1);
    ck_assert(!logs_in(&a, "nobody", "secret", &n)); /* the password of those it is led to */
    ck_assert_uint_eq(n, 1);
    auth_fini(&a);
}

/* As while a password is changed, on some machines first. */
TEST(a_user_may_have_several_hashes)
{
    static const char *const words[] = {"one", "two", "three", "four", "five"};
    struct auth a;
    FILE *f = fopen(path, "w");
    unsigned n;

    ck_assert_ptr_nonnull(f);
    for (unsigned i = 0; i < 5; i++) {
        add_user(f, "u", hashed(words[i], "$1$aaaaaaaa$"));
    }
    fclose(f);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(logs_in(&a, "u", words[i], &n));
        ck_assert_uint_eq(n, i + 1);
    }
    ck_assert(!logs_in(&a, "u", words[4], &n)); /* and the log has said so */
    ck_assert_uint_eq(n, 4);
    auth_fini(&a);
}

static bool is_known(const struct auth *a, const struct siphash_digest *login)
{
    rcu_register();
    rcu_begin();
    bool is_it = auth_knows(a, login);
    rcu_end();
    rcu_unregister();
    return is_it;
}

TEST(a_reload_forgets_who_was_good)
{
    struct siphash_digest login;
    struct auth a;
    char text[512];
    unsigned n;

    snprintf(text, sizeof(text), "u:%s\n", hashed("secret", "$1$aaaaaaaa$"));
    write_file(text);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    ck_assert(logs_in_as(&a, "u", "secret", &login, &n));
    ck_assert(access_file_reload(&a.file));
    ck_assert(is_known(&a, &login)); /* open sessions stay */
    ck_assert(!lets_in(&a, "u", "secret"));
    ck_assert(logs_in(&a, "u", "secret", &n));
    ck_assert_uint_eq(n, 1);

    snprintf(text, sizeof(text), "u:%s\n", hashed("secret", "$1$bbbbbbbb$"));
    write_file(text);
    ck_assert(access_file_reload(&a.file));
    ck_assert(!is_known(&a, &login)); /* another hash is another password */
    auth_fini(&a);
}

/* More pairs than are kept: some are checked again, and all stay good. */
TEST(what_is_remembered_is_bounded)
{
    enum { USERS = 3000 };
    struct auth a;
    FILE *f = fopen(path, "w");
    unsigned again = 0;
    unsigned n;

    ck_assert_ptr_nonnull(f);
    for (unsigned i = 0; i < USERS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "u%u", i);
        add_user(f, name, hashed("x", "$1$a$"));
    }
    fclose(f);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < USERS; i++) {
            char name[16];

            snprintf(name, sizeof(name), "u%u", i);
            ck_assert(logs_in(&a, name, "x", &n));
            again += round * n;
        }
    }
    ck_assert_uint_ge(again, USERS - AUTH_HASHED_PAIRS);
    auth_fini(&a);
}

/* In a pwdb file a hash ends at the colon, and is no password itself. */
TEST(pwdb_hash_ends_at_the_colon)
{
    struct auth a;
    char text[512];
    unsigned n;

    snprintf(text, sizeof(text), "u:%s:rest:more\nv:$1$x:y\n",
             hashed("secret", "$1$aaaaaaaa$"));
    write_file(text);
    ck_assert_int_eq(auth_init(&a, AUTH_PWDB, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    ck_assert(logs_in(&a, "u", "secret", &n));
    ck_assert(!logs_in(&a, "u", hashed("secret", "$1$aaaaaaaa$"), &n));
    text[strlen("u:") + strlen(hashed("secret", "$1$aaaaaaaa$")) + strlen(":rest")] = '\0';
    ck_assert(!logs_in(&a, "u", text + 2, &n));
    ck_assert(logs_in(&a, "v", "$1$x", &n));
    ck_assert(logs_in(&a, "v", "$1$x:y", &n));
    auth_fini(&a);
}

/* ---- what stays in memory ---------------------------------------------------------------- */

#define MARK_BYTES 24u

/* Byte i of a name or password that is nowhere else in memory, not even in the program. */
static char mark_byte(unsigned which, unsigned i)
{
    return (char)('a' + (which * 7 + i * i * 11 + i * 5) % 26);
}

static bool is_mark(const char *p, unsigned which)
{
    for (unsigned i = 0; i < MARK_BYTES; i++) {
        if (p[i] != mark_byte(which, i)) {
            return false;
        }
    }
    return true;
}

/*
 * The address of a mark in [from, to), or 0. Read by a system call, because the bytes may be
 * poisoned.
 */
static uintptr_t find_mark_in(int memory, uintptr_t from, uintptr_t to, unsigned which)
{
    static char bytes[65536];
    uintptr_t found = 0;

    while (found == 0 && to - from >= MARK_BYTES) {
        size_t want = to - from < sizeof(bytes) ? to - from : sizeof(bytes);
        ssize_t n = pread(memory, bytes, want, (off_t)from);

        if (n < (ssize_t)MARK_BYTES) {
            break;
        }
        for (size_t i = 0; found == 0 && i + MARK_BYTES <= (size_t)n; i++) {
            found = is_mark(bytes + i, which) ? from + i : 0;
        }
        from += (size_t)n - (MARK_BYTES - 1);
    }
    explicit_bzero(bytes, sizeof(bytes));
    return found;
}

/* The same in the present pages of a mapping. */
static uintptr_t find_mark_mapped(int memory, int pagemap, uintptr_t from, uintptr_t to,
                                  unsigned which)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = from;
    uintptr_t found = 0;

    for (uintptr_t at = from; found == 0 && at <= to; at += page) {
        uint64_t entry = 0;

        if (at < to) {
            off_t place = (off_t)(at / page * sizeof(entry));

            ck_assert_int_eq(pread(pagemap, &entry, sizeof(entry), place), sizeof(entry));
        }
        if ((entry >> 62) == 0) { /* neither present nor swapped */
            found = find_mark_in(memory, begin, at, which);
            begin = at + page;
        }
    }
    return found;
}

/* Is a mark anywhere in the writable memory of this process? */
static bool is_in_memory(unsigned which)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int memory = open("/proc/self/mem", O_RDONLY);
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    char line[512];
    uintptr_t found = 0;

    ck_assert(maps != NULL && memory >= 0 && pagemap >= 0);
    while (found == 0 && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from;
        unsigned long to;
        char rights[8];

        /* Larger mappings are the shadow of a sanitizer. */
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[0] == 'r' &&
            rights[1] == 'w' && to - from < (1ul << 33)) {
            found = find_mark_mapped(memory, pagemap, from, to, which);
        }
    }
    fclose(maps);
    close(memory);
    close(pagemap);
    return found != 0;
}

static void write_byte(int fd, char c)
{
    ck_assert_int_eq(write(fd, &c, 1), 1);
}

/* The pair of marks between others. */
static void write_marks(void)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_ge(fd, 0);
    for (unsigned which = 0; which < 2; which++) {
        for (unsigned i = 0; i < MARK_BYTES; i++) {
            write_byte(fd, mark_byte(which, i));
        }
        write_byte(fd, which == 0 ? ':' : '\n');
    }
    for (unsigned i = 0; i < 200; i++) {
        char line[32];
        int n = snprintf(line, sizeof(line), "user%u:%u\n", i, i);

        ck_assert_int_eq(write(fd, line, (size_t)n), n);
    }
    close(fd);
}

/* Nor does a name. First, show that the search finds a mark that is there. */
TEST(no_password_stays_in_memory)
{
    struct auth a;
    char *held = malloc(MARK_BYTES);

    ck_assert_ptr_nonnull(held);
    for (unsigned which = 0; which < 2; which++) {
        for (unsigned i = 0; i < MARK_BYTES; i++) {
            held[i] = mark_byte(which, i);
        }
        ck_assert(is_in_memory(which));
        explicit_bzero(held, MARK_BYTES);
        ck_assert(!is_in_memory(which));
    }
    free(held);
    write_marks();
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    ck_assert_uint_eq(entries_of(&a), 201);
    ck_assert(!is_in_memory(0));
    ck_assert(!is_in_memory(1));
    access_file_reload(&a.file);
    ck_assert(!is_in_memory(0));
    ck_assert(!is_in_memory(1));
    auth_fini(&a);
}

/* ---- files that are no good -------------------------------------------------------------- */

static void assert_start_fails(void)
{
    struct auth a;

    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 1);
    auth_fini(&a);
}

TEST(start_wants_a_good_file)
{
    assert_start_fails();
    write_file("user\n");
    assert_start_fails();
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_start_fails(); /* and does not wait for a writer of the pipe */
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
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    write_file("v:q\nw:r\n");
    access_file_reload(&a.file);
    ck_assert(!lets_in(&a, "u", "p"));
    ck_assert(lets_in(&a, "v", "q"));
    ck_assert(lets_in(&a, "w", "r"));
    auth_fini(&a);
}

TEST(broken_file_keeps_the_old_users)
{
    struct auth a;

    write_file("u:p\n");
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    write_file("v:q\nbroken\n");
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "u", "p"));
    ck_assert(!lets_in(&a, "v", "q"));
    unlink(path);
    access_file_reload(&a.file);
    ck_assert(lets_in(&a, "u", "p"));
    auth_fini(&a);
}
