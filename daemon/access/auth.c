/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of users: read, made into a table, and published. Only the main thread reads files;
 * see auth.h for the threads that read the table.
 */
#include "daemon/access/auth.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/access/auth_hashed.h"
#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

/* ---- the table --------------------------------------------------------------------------- */

/* What a digest is made of; digests of different kinds differ. */
enum digest_kind {
    DIGEST_PAIR,   /* a user and a password */
    DIGEST_HASHED, /* a user and a password's hash: a client that knows only the hash is not let
                      in */
    DIGEST_USER,   /* a user alone */
};

/* The length separates the two, so that no others have the same bytes. */
static struct siphash_digest digest_of(const struct siphash_key *key, enum digest_kind kind,
                                       struct span user, struct span other)
{
    uint64_t head = htole64(user.len | (uint64_t)kind << 62);
    struct siphash s;

    siphash_init(&s, key);
    siphash_feed(&s, &head, sizeof(head));
    siphash_feed(&s, user.ptr, user.len);
    siphash_feed(&s, other.ptr, other.len);
    return siphash_end(&s);
}

static void add_plain(struct auth_table *table, const struct siphash_key *key, struct span user,
                      struct span password)
{
    table->entries[table->plain_count++] = digest_of(key, DIGEST_PAIR, user, password);
    table->count++;
}

/* Add a line if its password is a hash. False: it is none. */
static bool add_hashed(struct auth_table *table, const struct siphash_key *key,
                       struct span user, struct span field)
{
    enum auth_field what = auth_field_of(field);

    table->broken += what == AUTH_FIELD_BROKEN;
    if (what != AUTH_FIELD_HASH) {
        return false;
    }
    struct siphash_digest of_user = digest_of(key, DIGEST_USER, user, span_of(NULL, 0));
    struct siphash_digest login = digest_of(key, DIGEST_HASHED, user, field);
    auth_hashed_add(table->hashed, &of_user, &login, field);
    table->count++;
    return true;
}

/* In the text protocol the first space ends the user. */
static bool is_unusable(struct span user, struct span password)
{
    return user.len == 0 || password.len == 0 || memchr(user.ptr, ' ', user.len) != NULL;
}

static bool add_line(struct auth_table *table, const struct siphash_key *key, struct span line)
{
    const char *colon = memchr(line.ptr, ':', line.len);

    if (colon == NULL || line.len > AUTH_LINE_MAX || memchr(line.ptr, '\r', line.len) != NULL ||
        memchr(line.ptr, '\0', line.len) != NULL) {
        return false;
    }
    struct span user = span_of(line.ptr, (size_t)(colon - line.ptr));
    struct span password = span_of(colon + 1, line.len - user.len - 1);
    if (is_unusable(user, password)) {
        table->unusable++;
    }
    if (!add_hashed(table, key, user, password)) {
        add_plain(table, key, user, password);
    }
    return true;
}

/*
 * Add an entry for each place where the password may end. A hash ends at the first colon, and
 * then it is all there is: as a password it would let in who has read the file.
 */
static bool add_pwdb_line(struct auth_table *table, const struct siphash_key *key,
                          struct span line)
{
    const char *end = line.ptr + line.len;
    const char *colon = memchr(line.ptr, ':', line.len);

    if (line.len > AUTH_LINE_MAX || memchr(line.ptr, '\0', line.len) != NULL) {
        return false;
    }
    if (colon == NULL || colon == line.ptr) {
        return true;
    }
    struct span user = span_of(line.ptr, (size_t)(colon - line.ptr));
    const char *password = colon + 1;
    colon = memchr(password, ':', (size_t)(end - password));
    struct span field = span_of(password, (size_t)((colon != NULL ? colon : end) - password));
    if (add_hashed(table, key, user, field)) {
        return true;
    }
    add_plain(table, key, user, field);
    while (colon != NULL) {
        colon = memchr(colon + 1, ':', (size_t)(end - colon - 1));
        add_plain(table, key, user,
                  span_of(password, (size_t)((colon != NULL ? colon : end) - password)));
    }
    return true;
}

/* Upper bounds of the number of entries, and of those whose password is a hash. */
static size_t count_entries(enum auth_form form, struct span text, size_t *hashed)
{
    size_t lines = 1;
    size_t colons = 0;

    *hashed = 0;
    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n';
        colons += text.ptr[i] == ':';
        *hashed += text.ptr[i] == '$' && i > 0 && text.ptr[i - 1] == ':';
    }
    return form == AUTH_PWDB ? colons : lines;
}

/* An empty one with room for a text. NULL: no memory. */
static struct auth_table *table_create(size_t entries, size_t hashed, size_t text_len)
{
    struct auth_table *table = mem_alloc(sizeof(*table) + entries * sizeof(table->entries[0]));

    if (table == NULL) {
        return NULL;
    }
    memset(table, 0, sizeof(*table));
    if (hashed > 0) {
        table->hashed = auth_hashed_create(hashed, text_len);
        if (table->hashed == NULL) {
            mem_free(table);
            return NULL;
        }
    }
    return table;
}

/* All lines are in it: it has hashes only if one of them is a hash. */
static void seal_hashed(struct auth_table *table)
{
    if (table->hashed != NULL && auth_hashed_count(table->hashed) > 0) {
        table->surplus = auth_hashed_seal(table->hashed);
    } else {
        auth_hashed_destroy(table->hashed);
        table->hashed = NULL;
    }
}

struct auth_table *auth_table_create(const struct siphash_key *key, enum auth_form form,
                                     struct span text, size_t *bad_line)
{
    size_t hashed;
    size_t entries = count_entries(form, text, &hashed);
    struct auth_table *table = table_create(entries, hashed, text.len);

    *bad_line = 0;
    if (table == NULL) {
        return NULL;
    }
    for (size_t number = 1; text.len > 0; number++) {
        struct span line = span_cut(&text, '\n');

        /* Editors of other systems end lines with CR LF. */
        line.len -= line.len > 0 && line.ptr[line.len - 1] == '\r';
        if (!(form == AUTH_PWDB ? add_pwdb_line : add_line)(table, key, line)) {
            *bad_line = number;
            auth_table_destroy(table);
            return NULL;
        }
    }
    must(table->plain_count <= entries);
    seal_hashed(table);
    return table;
}

void auth_table_destroy(struct auth_table *table)
{
    if (table != NULL) {
        explicit_bzero(table->entries, table->plain_count * sizeof(table->entries[0]));
        auth_hashed_destroy(table->hashed);
        mem_free(table);
    }
}

static bool has_digest(const struct auth_table *table, struct siphash_digest offered)
{
    uint64_t found = 0;

    for (size_t i = 0; i < table->plain_count; i++) {
        found |= siphash_same(&table->entries[i], &offered);
    }
    return found != 0;
}

bool auth_table_has(const struct auth_table *table, const struct siphash_key *key,
                    struct span user, struct span password)
{
    return has_digest(table, digest_of(key, DIGEST_PAIR, user, password));
}

/* ---- the file ---------------------------------------------------------------------------- */

static void *parse(struct access_file *f, struct span text)
{
    const struct auth *a = MF_OUTER(f, struct auth, file);
    size_t bad_line;
    struct auth_table *table = auth_table_create(&a->key, a->form, text, &bad_line);

    if (table == NULL && bad_line == 0) {
        access_file_complain(f, "auth, could not read authfile %s (out of memory)", f->path);
    } else if (table == NULL) {
        access_file_complain(f,
                             "auth, authfile %s has a malformed entry in line %zu (should be "
                             "'user:password')",
                             f->path, bad_line);
    }
    return table;
}

static size_t count(const void *content)
{
    const struct auth_table *table = content;

    return table->count;
}

static void destroy(void *content)
{
    auth_table_destroy(content);
}

static void warn(const struct access_file *f, const void *content)
{
    const struct auth_table *table = content;

    if (table->count == 0) {
        log_warn("auth, authfile %s is empty: no client can authenticate", f->path);
    }
    if (table->unusable > 0) {
        log_warn(
            "auth, %zu entries of authfile %s have an empty user or password, or a space in "
            "the user: nobody can authenticate with them",
            table->unusable, f->path);
    }
    if (table->broken > 0) {
        log_warn("auth, %zu passwords of authfile %s look like a hash but are none: they are "
                 "used as plain passwords",
                 table->broken, f->path);
    }
    if (table->surplus > 0) {
        log_warn("auth, %zu hashed passwords of authfile %s are ignored (a user may "
                 "have %u)",
                 table->surplus, f->path, AUTH_HASHES_MAX);
    }
}

static const struct access_file_kind kind = {
    .area = "auth",
    .contents = "users",
    .noun = "authfile ",
    .is_empty = "it is empty",
    .bytes_max = AUTH_FILE_MAX,
    .parse = parse,
    .count = count,
    .destroy = destroy,
    .warn = warn,
};

/* ---- life -------------------------------------------------------------------------------- */

int auth_init(struct auth *a, enum auth_form form, const char *path)
{
    must_be_main();
    memset(a, 0, sizeof(*a));
    a->form = form;
    if (path != NULL && !hash_draw_random(&a->key, sizeof(struct siphash_key))) {
        log_error("auth, cannot draw a key (%s)", strerror(errno));
        return EX_OSERR;
    }
    return access_file_init(&a->file, &kind, form == AUTH_FILE ? OPTION_auth_file : OPTION_sasl,
                            path);
}

void auth_fini(struct auth *a)
{
    must_be_main();
    access_file_fini(&a->file);
    explicit_bzero(a, sizeof(*a));
}

/* ---- logins ------------------------------------------------------------------------------ */

static struct auth_table *table_of(const struct auth *a)
{
    struct auth_table *table = access_file_get(&a->file);

    must_be_reading();
    must(table != NULL);
    return table;
}

static bool check_pair(const struct auth_table *table, const struct siphash_digest *pair,
                       struct siphash_digest *login)
{
    *login = *pair;
    return has_digest(table, *pair) ||
           (table->hashed != NULL && auth_hashed_recall(table->hashed, pair, login));
}

bool auth_check(const struct auth *a, struct span user, struct span password,
                struct siphash_digest *login)
{
    struct siphash_digest pair = digest_of(&a->key, DIGEST_PAIR, user, password);

    return check_pair(table_of(a), &pair, login);
}

bool auth_has_hashes(const struct auth *a)
{
    return table_of(a)->hashed != NULL;
}

bool auth_is_hashed(const struct auth *a, struct span user)
{
    const struct auth_table *table = table_of(a);
    struct siphash_digest of_user = digest_of(&a->key, DIGEST_USER, user, span_of(NULL, 0));

    return table->hashed != NULL && auth_hashed_has_user(table->hashed, &of_user);
}

/* The password was good for this line: is the line still there? Then it is remembered. */
static bool settle(const struct auth *a, const struct siphash_digest *pair,
                   const struct siphash_digest *login)
{
    bool is_good;

    rcu_begin();
    struct auth_table *table = access_file_get(&a->file);
    /* NULL: the server has stopped, and did not wait for this hash. */
    is_good =
        table != NULL && table->hashed != NULL && auth_hashed_has_login(table->hashed, login);
    if (is_good) {
        auth_hashed_remember(table->hashed, pair, login);
    }
    rcu_end();
    return is_good;
}

bool auth_check_hashed(const struct auth *a, struct span user, struct span password,
                       struct siphash_digest *login, unsigned *hashes)
{
    struct siphash_digest pair = digest_of(&a->key, DIGEST_PAIR, user, password);
    struct siphash_digest of_user = digest_of(&a->key, DIGEST_USER, user, span_of(NULL, 0));
    struct auth_candidates candidates = {.count = 0};
    const struct siphash_digest *found = NULL;

    must_be_pool();
    must_not_be_reading();
    rcu_begin();
    const struct auth_table *table =
        table_of(a); /* once: main may put one without hashes in its place */
    bool is_good = check_pair(table, &pair, login);
    if (!is_good && table->hashed != NULL) {
        auth_hashed_candidates(table->hashed, &of_user, &candidates);
    }
    rcu_end();
    for (unsigned i = 0; i < candidates.count && found == NULL; i++) {
        ++*hashes;
        if (auth_hash_verify(candidates.hash[i], password) && candidates.is_known) {
            found = &candidates.login[i];
        }
    }
    if (found != NULL && settle(a, &pair, found)) {
        *login = *found;
        is_good = true;
    }
    explicit_bzero(&candidates, sizeof(candidates));
    return is_good;
}

bool auth_knows(const struct auth *a, const struct siphash_digest *login)
{
    const struct auth_table *table = table_of(a);

    return has_digest(table, *login) ||
           (table->hashed != NULL && auth_hashed_has_login(table->hashed, login));
}

size_t auth_count(const struct auth *a)
{
    return table_of(a)->count;
}
