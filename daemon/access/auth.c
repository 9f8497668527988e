/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of users: read, made into a table, and published. Only the main thread reads files;
 * see auth.h for the threads that read the table.
 */
#include "daemon/access/auth.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/base/path.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

/* ---- the table --------------------------------------------------------------------------- */

/* The length separates the two, so that no other pair has the same bytes. */
static struct siphash_digest digest_of(const struct siphash_key *key, struct span user,
                                       struct span password)
{
    uint64_t user_len = htole64(user.len);
    struct siphash s;

    siphash_init(&s, key);
    siphash_feed(&s, &user_len, sizeof(user_len));
    siphash_feed(&s, user.ptr, user.len);
    siphash_feed(&s, password.ptr, password.len);
    return siphash_end(&s);
}

static void add_entry(struct auth_table *table, const struct siphash_key *key, struct span user,
                      struct span password)
{
    table->entries[table->count++] = digest_of(key, user, password);
}

/* In the text protocol the first space ends the user. */
static bool is_unusable(struct span user, struct span password)
{
    return user.len == 0 || password.len == 0 || memchr(user.ptr, ' ', user.len) != NULL;
}

/* Editors of other systems end lines with CR LF. */
static struct span without_return(struct span line)
{
    line.len -= line.len > 0 && line.ptr[line.len - 1] == '\r';
    return line;
}

static bool add_line(struct auth_table *table, const struct siphash_key *key, struct span line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    struct span user;
    struct span password;

    if (colon == NULL || line.len > AUTH_LINE_MAX || memchr(line.ptr, '\r', line.len) != NULL ||
        memchr(line.ptr, '\0', line.len) != NULL) {
        return false;
    }
    user = span_of(line.ptr, (size_t)(colon - line.ptr));
    password = span_of(colon + 1, line.len - user.len - 1);
    if (is_unusable(user, password)) {
        table->unusable++;
    }
    add_entry(table, key, user, password);
    return true;
}

/* Add an entry for each place where the password may end. */
static bool add_pwdb_line(struct auth_table *table, const struct siphash_key *key,
                          struct span line)
{
    const char *end = line.ptr + line.len;
    const char *colon = memchr(line.ptr, ':', line.len);
    const char *password;
    struct span user;

    if (line.len > AUTH_LINE_MAX || memchr(line.ptr, '\0', line.len) != NULL) {
        return false;
    }
    if (colon == NULL || colon == line.ptr) {
        return true;
    }
    user = span_of(line.ptr, (size_t)(colon - line.ptr));
    password = colon + 1;
    do {
        colon = memchr(colon + 1, ':', (size_t)(end - colon - 1));
        add_entry(table, key, user,
                  span_of(password, (size_t)((colon != NULL ? colon : end) - password)));
    } while (colon != NULL);
    return true;
}

/* An upper bound of the number of entries. */
static size_t count_entries(enum auth_form form, struct span text)
{
    size_t lines = 1;
    size_t colons = 0;

    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n';
        colons += text.ptr[i] == ':';
    }
    return form == AUTH_PWDB ? colons : lines;
}

struct auth_table *auth_table_create(const struct siphash_key *key, enum auth_form form,
                                     struct span text, size_t *bad_line)
{
    struct auth_table *table =
        mem_alloc(sizeof(*table) + count_entries(form, text) * sizeof(table->entries[0]));
    const char *p = text.ptr;
    const char *end = p + text.len;

    *bad_line = 0;
    if (table == NULL) {
        return NULL;
    }
    table->count = 0;
    table->unusable = 0;
    table->is_ended = text.len == 0 || text.ptr[text.len - 1] == '\n';
    for (size_t number = 1; p < end; number++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        struct span line =
            without_return(span_of(p, (size_t)((newline != NULL ? newline : end) - p)));

        if (!(form == AUTH_PWDB ? add_pwdb_line : add_line)(table, key, line)) {
            *bad_line = number;
            auth_table_destroy(table);
            return NULL;
        }
        p = newline != NULL ? newline + 1 : end;
    }
    must(table->count <= count_entries(form, text));
    return table;
}

void auth_table_destroy(struct auth_table *table)
{
    if (table != NULL) {
        explicit_bzero(table->entries, table->count * sizeof(table->entries[0]));
        mem_free(table);
    }
}

static bool has_digest(const struct auth_table *table, struct siphash_digest offered)
{
    uint64_t found = 0;

    for (size_t i = 0; i < table->count; i++) {
        const struct siphash_digest *e = &table->entries[i];
        uint64_t differ = (e->lo ^ offered.lo) | (e->hi ^ offered.hi);

        /* The top bit of x | -x is clear only for 0: no branch depends on the comparison. */
        found |= ~(differ | -differ) >> 63;
    }
    return found != 0;
}

bool auth_table_has(const struct auth_table *table, const struct siphash_key *key,
                    struct span user, struct span password)
{
    return has_digest(table, digest_of(key, user, password));
}

/* ---- the file ---------------------------------------------------------------------------- */

/* The text holds passwords. */
static void secret_wipe(struct file_text *secret)
{
    if (secret->bytes != NULL) {
        explicit_bzero(secret->bytes, secret->cap);
        mem_free(secret->bytes);
    }
}

/* Read the file into a table; NULL after a message was written. */
static struct auth_table *read_table(const struct auth *a)
{
    struct auth_table *table = NULL;
    struct file_text secret;
    size_t bad_line;
    const char *why = file_read_all(a->path, AUTH_FILE_MAX, &secret);

    if (why != NULL) {
        log_error("auth, could not read authfile %s (%s)", a->path, why);
    } else {
        table =
            auth_table_create(&a->key, a->form, span_of(secret.bytes, secret.len), &bad_line);
        if (table == NULL && bad_line == 0) {
            log_error("auth, could not read authfile %s (out of memory)", a->path);
        } else if (table == NULL) {
            log_error("auth, authfile %s has a malformed entry in line %zu (should be "
                      "'user:password')",
                      a->path, bad_line);
        }
    }
    secret_wipe(&secret);
    return table;
}

static void log_users(const struct auth *a, const struct auth_table *table)
{
    log_info("auth, loaded %zu users from authfile %s", table->count, a->path);
    if (table->count == 0) {
        log_warn("auth, authfile %s is empty: nobody can authenticate", a->path);
    }
    if (table->unusable > 0) {
        log_warn(
            "auth, %zu entries of authfile %s have an empty user or password, or a space in "
            "the user: nobody can authenticate with them",
            table->unusable, a->path);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

static bool draw_key(struct siphash_key *key)
{
    ssize_t n;

    do {
        n = getrandom(key, sizeof(*key), 0);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*key);
}

int auth_init(struct auth *a, enum auth_form form, const char *path)
{
    must_be_main();
    memset(a, 0, sizeof(*a));
    a->form = form;
    if (path == NULL) {
        return 0;
    }
    if (!draw_key(&a->key)) {
        log_error("auth, cannot draw a key (%s)", strerror(errno));
        return EX_OSERR;
    }
    a->path = path_absolute(path);
    if (a->path == NULL) {
        log_error("auth, cannot start (out of memory)");
        return EX_OSERR;
    }
    return 0;
}

int auth_load(struct auth *a)
{
    struct auth_table *table;

    must_be_main();
    if (!auth_is_on(a)) {
        return 0;
    }
    table = read_table(a);
    if (table == NULL) {
        return EXIT_FAILURE;
    }
    atomic_store_explicit(&a->table, table, memory_order_release);
    log_users(a, table);
    return 0;
}

/*
 * Does a file look as if it was cut, compared with the one in use: is it empty now, or has its
 * last line lost its end? Whoever reads a file that is being written sees that. NULL: no.
 */
static const char *why_cut(const struct auth_table *now, const struct auth_table *before)
{
    if (now->count == 0 && before->count > 0) {
        return "it is empty";
    }
    return !now->is_ended && before->is_ended ? "its last line has no end" : NULL;
}

/* Read the file again, for use in the place of `before`. NULL after a message was written. */
static struct auth_table *read_table_again(const struct auth *a,
                                           const struct auth_table *before)
{
    struct auth_table *table = read_table(a);
    const char *why = table != NULL ? why_cut(table, before) : NULL;

    if (why != NULL) {
        log_error("auth, authfile %s seems to be cut off (%s)", a->path, why);
        auth_table_destroy(table);
        table = NULL;
    }
    if (table == NULL) {
        log_error("auth, kept the users in use");
    }
    return table;
}

bool auth_reload(struct auth *a)
{
    struct auth_table *table;
    struct auth_table *old = atomic_load_explicit(&a->table, memory_order_acquire);

    must_be_main();
    must(auth_is_on(a));
    table = read_table_again(a, old);
    if (table == NULL) {
        return false;
    }
    old = atomic_exchange_explicit(&a->table, table, memory_order_acq_rel);
    rcu_wait();
    auth_table_destroy(old);
    a->is_fresh = true;
    return true;
}

void auth_log_reload(struct auth *a)
{
    const struct auth_table *table = atomic_load_explicit(&a->table, memory_order_acquire);

    must_be_main();
    if (a->is_fresh) {
        a->is_fresh = false;
        log_notice("auth, reloaded authfile %s (%zu users)", a->path, table->count);
        log_users(a, table);
    }
}

void auth_fini(struct auth *a)
{
    must_be_main();
    auth_table_destroy(atomic_load_explicit(&a->table, memory_order_acquire));
    mem_free(a->path);
    explicit_bzero(a, sizeof(*a));
}

bool auth_check(const struct auth *a, struct span user, struct span password,
                struct siphash_digest *login)
{
    *login = digest_of(&a->key, user, password);
    return auth_knows(a, login);
}

bool auth_knows(const struct auth *a, const struct siphash_digest *login)
{
    const struct auth_table *table = atomic_load_explicit(&a->table, memory_order_acquire);

    must_be_reading();
    must(table != NULL);
    return has_digest(table, *login);
}

size_t auth_count(const struct auth *a)
{
    must_be_reading();
    return atomic_load_explicit(&a->table, memory_order_acquire)->count;
}
