/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a file of users. What must hold for any input:
 *   - nothing outside the text is read;
 *   - it becomes a table exactly when every line has a colon, no NUL, no carriage return and a
 *     length within the bound; otherwise the number of the first bad line is reported;
 *   - every pair of the file is let in, and a pair one byte longer or shorter only when the
 *     file has it too; a password that is a hash lets nobody in as it stands.
 */
#include "tests/fuzz/fuzz.h"

#include "daemon/access/auth.h"
#include "daemon/access/auth_hashed.h"

/* The first lines are compared with all others; the rest is only read. */
#define PAIRS_MAX 64

static const struct siphash_key key = {.k0 = 1, .k1 = 2};

struct pair {
    struct span user;
    struct span password;
};

/* Take a line off the front of the text, without its CR LF or LF. */
static struct span take_line(struct span *text)
{
    const char *newline = memchr(text->ptr, '\n', text->len);
    size_t len = newline != NULL ? (size_t)(newline - text->ptr) : text->len;
    struct span line = span_of(text->ptr, len);

    len += newline != NULL;
    *text = span_of(text->ptr + len, text->len - len);
    line.len -= line.len > 0 && line.ptr[line.len - 1] == '\r';
    return line;
}

static bool is_good(struct span line)
{
    return memchr(line.ptr, ':', line.len) != NULL && memchr(line.ptr, 0, line.len) == NULL &&
           memchr(line.ptr, '\r', line.len) == NULL && line.len <= AUTH_LINE_MAX;
}

static struct pair pair_of(struct span line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    size_t user_len = (size_t)(colon - line.ptr);

    return (struct pair){span_of(line.ptr, user_len),
                         span_of(colon + 1, line.len - user_len - 1)};
}

static bool is_hash(struct span password)
{
    return auth_field_of(password) == AUTH_FIELD_HASH;
}

static bool is_in(const struct pair *pairs, size_t n, struct span user, struct span password)
{
    if (is_hash(password)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (span_eq(pairs[i].user, user) && span_eq(pairs[i].password, password)) {
            return true;
        }
    }
    return false;
}

static void check_pairs(const struct auth_table *table, const struct pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct span user = pairs[i].user;
        struct span password = pairs[i].password;

        require(auth_table_has(table, &key, user, password) == !is_hash(password));
        require(auth_table_has(table, &key, password, user) == is_in(pairs, n, password, user));
        if (password.len > 0) {
            struct span less = span_of(password.ptr, password.len - 1);
            require(auth_table_has(table, &key, user, less) == is_in(pairs, n, user, less));
        }
        if (user.len > 0) {
            struct span less = span_of(user.ptr, user.len - 1);
            require(auth_table_has(table, &key, less, password) ==
                    is_in(pairs, n, less, password));
        }
    }
}

/* The same text as a pwdb file: each password is also let in when cut at any colon. */
static void check_pwdb(struct span text)
{
    size_t bad_line;
    struct auth_table *table = auth_table_create(&key, AUTH_PWDB, text, &bad_line);

    while (table != NULL && text.len > 0) {
        struct span line = take_line(&text);

        if (is_good(line) && line.ptr[0] != ':') {
            struct pair pair = pair_of(line);
            const char *colon = memchr(pair.password.ptr, ':', pair.password.len);
            struct span all = pair.password;

            if (colon != NULL) {
                pair.password.len = (size_t)(colon - pair.password.ptr);
            }
            if (!is_hash(pair.password)) {
                require(auth_table_has(table, &key, pair.user, all));
                require(auth_table_has(table, &key, pair.user, pair.password));
            }
        }
    }
    auth_table_destroy(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = exact_copy(data, size);
    struct pair pairs[PAIRS_MAX];
    size_t lines = 0;
    size_t first_bad = 0;
    size_t bad_line;

    for (struct span text = span_of(copy, size); text.len > 0 && first_bad == 0;) {
        struct span line = take_line(&text);

        lines++;
        if (!is_good(line)) {
            first_bad = lines;
        } else if (lines <= PAIRS_MAX) {
            pairs[lines - 1] = pair_of(line);
        }
    }
    struct auth_table *table =
        auth_table_create(&key, AUTH_FILE, span_of(copy, size), &bad_line);
    require((table == NULL) == (first_bad > 0));
    require(bad_line == first_bad);
    if (table != NULL) {
        require(table->count == lines && table->unusable <= lines);
        if (lines <= PAIRS_MAX) {
            check_pairs(table, pairs, lines);
        }
        auth_table_destroy(table);
    }
    check_pwdb(span_of(copy, size));
    free(copy);
    return 0;
}
