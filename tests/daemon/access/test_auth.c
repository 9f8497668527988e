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

/* A text, its number of entries, and of those that let nobody in; then pairs. */
static const struct {
    const char *text;
    size_t count, unusable;
    const char *in[3][2];  /* these are let in */
    const char *out[9][2]; /* these are not */
} texts[] = {
    {"user:pass\nbob:builder\n",
     2,
     0,
     {{"user", "pass"}, {"bob", "builder"}},
     {{"user", "builder"},
      {"bob", "pass"},
      {"user", "pas"},
      {"user", "passs"},
      {"user", "Pass"},
      {"use", "rpass"},
      {"", "userpass"},
      {"user", ""},
      {"user:pass", ""}}},
    /* The first colon parts. */
    {"c:p:q\nd:\n:e\n#f:g\n", 4, 2, {{"c", "p:q"}, {"#f", "g"}}, {{"c:p", "q"}}},
    /* A user may have several passwords, and the last line may lack its end. */
    {"u:old\nu:new", 2, 0, {{"u", "old"}, {"u", "new"}}, {{NULL}}},
    {"", 0, 0, {{NULL}}, {{"", ""}, {"u", "p"}}},
    {"u:p\r\nv:q r\r\nw:s\r", 3, 0, {{"u", "p"}, {"v", "q r"}, {"w", "s"}}, {{"u", "p\r"}}},
};

TEST_LOOP(lets_in_its_pairs_only, sizeof(texts) / sizeof(texts[0]))
{
    struct auth_table *t = table_of(texts[_i].text);

    ck_assert_uint_eq(t->count, texts[_i].count);
    ck_assert_uint_eq(t->unusable, texts[_i].unusable);
    for (unsigned i = 0; i < 3 && texts[_i].in[i][0] != NULL; i++) {
        ck_assert(has(t, texts[_i].in[i][0], texts[_i].in[i][1]));
    }
    for (unsigned i = 0; i < 9 && texts[_i].out[i][0] != NULL; i++) {
        ck_assert(!has(t, texts[_i].out[i][0], texts[_i].out[i][1]));
    }
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
static struct auth a;
static bool is_started;

static void make_folder(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/users", folder);
}

static void end(void)
{
    if (is_started) {
        auth_fini(&a);
        is_started = false;
    }
    folder_remove();
}

TEST_FIXTURE(make_folder, end)

static void start_at(enum auth_form form, const char *where)
{
    ck_assert_int_eq(auth_init(&a, form, where), 0);
    is_started = true;
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
}

static void start_with(const char *text)
{
    folder_put("users", text);
    start_at(AUTH_FILE, path);
}

static bool reload_with(const char *text)
{
    folder_put("users", text);
    return access_file_reload(&a.file);
}

static bool lets_in(const char *user, const char *password)
{
    struct siphash_digest login;

    rcu_register();
    rcu_begin();
    bool is_in = auth_check(&a, span_str(user), span_str(password), &login);
    ck_assert(auth_knows(&a, &login) == is_in);
    rcu_end();
    rcu_unregister();
    return is_in;
}

static size_t entries(void)
{
    rcu_register();
    rcu_begin();
    size_t count = auth_count(&a);
    rcu_end();
    rcu_unregister();
    return count;
}

/* What is read while it is being written must not lock anybody out. */
TEST(what_seems_cut_off_is_not_used)
{
    start_with("u:p\nv:q\n");
    reload_with("");
    ck_assert(lets_in("v", "q"));
    reload_with("u:p\nv:longer");
    ck_assert(lets_in("v", "q"));
    ck_assert(!lets_in("v", "longer"));
    reload_with("v:longer\n");
    ck_assert(lets_in("v", "longer"));
    ck_assert(!lets_in("u", "p"));
}

/* Some tools never write the last line feed: then its absence says nothing. */
TEST(a_last_line_without_end_may_be_a_habit)
{
    start_with("u:p");
    reload_with("v:q");
    ck_assert(lets_in("v", "q"));
    reload_with("");
    ck_assert(lets_in("v", "q"));
}

TEST(off_without_a_file)
{
    start_at(AUTH_FILE, NULL);
    ck_assert(!auth_is_on(&a));
}

TEST(relative_path_outlives_the_folder)
{
    char *before = getcwd(NULL, 0);

    folder_put("users", "u:p\n");
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, "users"), 0);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 0);
    ck_assert(lets_in("u", "p"));
    ck_assert_uint_eq(entries(), 1);
    is_started = true;
    ck_assert_int_eq(chdir(before), 0);
    free(before);
}

/* ---- hashed passwords -------------------------------------------------------------------- */

/* Make the whole of a login; *hashes: how many were made for it. */
static bool logs_in_as(const char *user, const char *password, struct siphash_digest *login,
                       unsigned *hashes)
{
    *hashes = 0;
    rcu_register();
    bool is_in = auth_check_hashed(&a, span_str(user), span_str(password), login, hashes);
    rcu_begin();
    ck_assert(auth_knows(&a, login) == is_in);
    ck_assert(auth_check(&a, span_str(user), span_str(password), login) == is_in);
    rcu_end();
    rcu_unregister();
    return is_in;
}

/* The same; `hashes` must have been made for it. */
static bool logs_in(const char *user, const char *password, unsigned hashes)
{
    struct siphash_digest login;
    unsigned n;
    bool is_in = logs_in_as(user, password, &login, &n);

    ck_assert_uint_eq(n, hashes);
    return is_in;
}

/* A hash of the password with a salt of its own. */
static const char *hashed(const char *password, const char *salt)
{
    static struct crypt_data data;

    ck_assert_ptr_nonnull(crypt_r(password, salt, &data));
    return data.output;
}

/* A file of `count` users u0, u1 and so on with this field, and one with a plain password. */
static void start_with_users(unsigned count, const char *field)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f, "plain:word\n");
    for (unsigned i = 0; i < count; i++) {
        fprintf(f, "u%u:%s\n", i, field);
    }
    fclose(f);
    start_at(AUTH_FILE, path);
    ck_assert_uint_eq(entries(), count + 1);
}

static const char *user(unsigned i)
{
    static char name[16];

    snprintf(name, sizeof(name), "u%u", i);
    return name;
}

TEST(a_hash_lets_its_password_in)
{
    char text[256] = "plain:word\ndollar:$1$money\nu:";

    strcat(strcat(text, hashed("secret", "$1$aaaaaaaa$")), "\nv:");
    strcat(strcat(text, hashed("other", "$1$bbbbbbbb$")), "\n");
    start_with(text);
    ck_assert_uint_eq(entries(), 4);

    ck_assert(!lets_in("u", "secret")); /* not without the hash */
    ck_assert(logs_in("u", "secret", 1));
    ck_assert(lets_in("u", "secret")); /* it is remembered */
    ck_assert(logs_in("u", "secret", 0));

    ck_assert(!logs_in("u", "other", 1));
    ck_assert(!logs_in("v", "secret", 1));
    ck_assert(!logs_in("v", hashed("other", "$1$bbbbbbbb$"), 1));
    ck_assert(logs_in("plain", "word", 0));
    ck_assert(logs_in("dollar", "$1$money", 0));
}

/* A login of an unknown user, or of one with a plain password, costs a hash too. */
TEST(every_failure_costs_the_same)
{
    start_with_users(50, hashed("secret", "$1$aaaaaaaa$"));
    for (unsigned i = 0; i < 100; i++) {
        ck_assert(!logs_in(user(i), "wrong", 1));
    }
    ck_assert(!logs_in("plain", "wrong", 1));
    ck_assert(!logs_in("nobody", "secret", 1)); /* the password of those it is led to */
}

/* As while a password is changed, on some machines first. */
TEST(a_user_may_have_several_hashes)
{
    static const char *const words[] = {"one", "two", "three", "four", "five"};
    char text[512] = "";

    for (unsigned i = 0; i < 5; i++) {
        strcat(strcat(strcat(text, "u:"), hashed(words[i], "$1$aaaaaaaa$")), "\n");
    }
    start_with(text);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(logs_in("u", words[i], i + 1));
    }
    ck_assert(!logs_in("u", words[4], 4)); /* and the log has said so */
}

static bool is_known(const struct siphash_digest *login)
{
    rcu_register();
    rcu_begin();
    bool is_it = auth_knows(&a, login);
    rcu_end();
    rcu_unregister();
    return is_it;
}

TEST(a_reload_forgets_who_was_good)
{
    struct siphash_digest login;
    char text[512];
    unsigned n;

    snprintf(text, sizeof(text), "u:%s\n", hashed("secret", "$1$aaaaaaaa$"));
    start_with(text);
    ck_assert(logs_in_as("u", "secret", &login, &n));
    ck_assert(access_file_reload(&a.file));
    ck_assert(is_known(&login)); /* open sessions stay */
    ck_assert(!lets_in("u", "secret"));
    ck_assert(logs_in("u", "secret", 1));

    snprintf(text, sizeof(text), "u:%s\n", hashed("secret", "$1$bbbbbbbb$"));
    ck_assert(reload_with(text));
    ck_assert(!is_known(&login)); /* another hash is another password */
}

/* More pairs than are kept: some are checked again, and all stay good. */
TEST(what_is_remembered_is_bounded)
{
    enum { USERS = 3000 };
    struct siphash_digest login;
    unsigned again = 0;
    unsigned n;

    start_with_users(USERS, hashed("x", "$1$a$"));
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < USERS; i++) {
            ck_assert(logs_in_as(user(i), "x", &login, &n));
            again += round * n;
        }
    }
    ck_assert_uint_ge(again, USERS - AUTH_HASHED_PAIRS);
}

/* In a pwdb file a hash ends at the colon, and is no password itself. */
TEST(pwdb_hash_ends_at_the_colon)
{
    char text[512];

    snprintf(text, sizeof(text), "u:%s:rest:more\nv:$1$x:y\n",
             hashed("secret", "$1$aaaaaaaa$"));
    folder_put("users", text);
    start_at(AUTH_PWDB, path);
    ck_assert(logs_in("u", "secret", 1));
    ck_assert(!logs_in("u", hashed("secret", "$1$aaaaaaaa$"), 1));
    text[strlen("u:") + strlen(hashed("secret", "$1$aaaaaaaa$")) + strlen(":rest")] = '\0';
    ck_assert(!logs_in("u", text + 2, 1));
    ck_assert(logs_in("v", "$1$x", 0));
    ck_assert(logs_in("v", "$1$x:y", 0));
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
    start_at(AUTH_FILE, path);
    ck_assert_uint_eq(entries(), 201);
    ck_assert(!is_in_memory(0));
    ck_assert(!is_in_memory(1));
    access_file_reload(&a.file);
    ck_assert(!is_in_memory(0));
    ck_assert(!is_in_memory(1));
}

/* ---- files that are no good -------------------------------------------------------------- */

static void assert_start_fails(void)
{
    ck_assert_int_eq(auth_init(&a, AUTH_FILE, path), 0);
    ck_assert_int_eq(access_file_load(&a.file, NULL), 1);
    auth_fini(&a);
}

TEST(start_wants_a_good_file)
{
    assert_start_fails();
    folder_put("users", "user\n");
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
    start_with("u:p\n");
    reload_with("v:q\nw:r\n");
    ck_assert(!lets_in("u", "p"));
    ck_assert(lets_in("v", "q"));
    ck_assert(lets_in("w", "r"));
}

TEST(broken_file_keeps_the_old_users)
{
    start_with("u:p\n");
    reload_with("v:q\nbroken\n");
    ck_assert(lets_in("u", "p"));
    ck_assert(!lets_in("v", "q"));
    unlink(path);
    access_file_reload(&a.file);
    ck_assert(lets_in("u", "p"));
}
