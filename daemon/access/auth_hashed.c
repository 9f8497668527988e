/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines with hashes, sorted by user, and the pairs that were good; see auth_hashed.h.
 */
#include "daemon/access/auth_hashed.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

#define WAYS 4u
#define ROWS (AUTH_HASHED_PAIRS / WAYS)

struct hash_line {
    struct siphash_digest user;
    struct siphash_digest login;
    size_t at; /* of its hash in the texts */
};

/* A pair that was good; both are zero where there is none. */
struct good {
    struct siphash_digest pair;
    struct siphash_digest login;
};

struct auth_hashed {
    /* [const] once sealed */
    size_t count;
    size_t text_len;
    size_t text_cap;
    struct hash_line *lines; /* owned; by user, those of one user in the order of the file */
    char *texts;             /* owned; each ends in NUL */

    pthread_mutex_t lock;         /* a leaf; taken at logins, for a few comparisons */
    struct good good[ROWS][WAYS]; /* [lock] the newest of a row first */
};

struct auth_hashed *auth_hashed_create(size_t lines, size_t bytes)
{
    struct auth_hashed *h = mem_zalloc(sizeof(*h));

    if (h == NULL) {
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    h->text_cap = bytes + lines;
    h->lines = mem_alloc(lines * sizeof(h->lines[0]) + 1);
    h->texts = mem_alloc(h->text_cap + 1);
    if (h->lines == NULL || h->texts == NULL) {
        auth_hashed_destroy(h);
        return NULL;
    }
    return h;
}

void auth_hashed_destroy(struct auth_hashed *h)
{
    if (h == NULL) {
        return;
    }
    if (h->lines != NULL) {
        explicit_bzero(h->lines, h->count * sizeof(h->lines[0]));
    }
    if (h->texts != NULL) {
        explicit_bzero(h->texts, h->text_len);
    }
    mem_free(h->lines);
    mem_free(h->texts);
    pthread_mutex_destroy(&h->lock);
    explicit_bzero(h, sizeof(*h));
    mem_free(h);
}

void auth_hashed_add(struct auth_hashed *h, const struct siphash_digest *user,
                     const struct siphash_digest *login, struct span hash)
{
    must(hash.len < AUTH_HASH_MAX && h->text_cap - h->text_len > hash.len);
    h->lines[h->count++] = (struct hash_line){*user, *login, h->text_len};
    memcpy(h->texts + h->text_len, hash.ptr, hash.len);
    h->texts[h->text_len + hash.len] = '\0';
    h->text_len += hash.len + 1;
}

static int compare_digests(const struct siphash_digest *a, const struct siphash_digest *b)
{
    if (a->hi != b->hi) {
        return a->hi < b->hi ? -1 : 1;
    }
    return a->lo != b->lo ? (a->lo < b->lo ? -1 : 1) : 0;
}

static int compare_lines(const void *one, const void *other)
{
    const struct hash_line *a = one;
    const struct hash_line *b = other;
    int order = compare_digests(&a->user, &b->user);

    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

static bool is_same(const struct siphash_digest *a, const struct siphash_digest *b)
{
    return siphash_same(a, b) != 0;
}

size_t auth_hashed_seal(struct auth_hashed *h)
{
    size_t surplus = 0;

    qsort(h->lines, h->count, sizeof(h->lines[0]), compare_lines);
    for (size_t i = AUTH_HASHES_MAX; i < h->count; i++) {
        surplus += is_same(&h->lines[i].user, &h->lines[i - AUTH_HASHES_MAX].user);
    }
    return surplus;
}

size_t auth_hashed_count(const struct auth_hashed *h)
{
    return h->count;
}

bool auth_hashed_has_login(const struct auth_hashed *h, const struct siphash_digest *login)
{
    uint64_t found = 0;

    for (size_t i = 0; i < h->count; i++) {
        found |= siphash_same(&h->lines[i].login, login);
    }
    return found != 0;
}

/* The first line of a user; if there is none, the place where it would be. */
static size_t find_user(const struct auth_hashed *h, const struct siphash_digest *user)
{
    size_t low = 0;
    size_t high = h->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_digests(&h->lines[middle].user, user) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool auth_hashed_has_user(const struct auth_hashed *h, const struct siphash_digest *user)
{
    size_t at = find_user(h, user);

    return at < h->count && is_same(&h->lines[at].user, user);
}

/* ---- pairs that were good ---------------------------------------------------------------- */

static struct good *row_of(struct auth_hashed *h, const struct siphash_digest *pair)
{
    return h->good[pair->lo % ROWS];
}

bool auth_hashed_recall(struct auth_hashed *h, const struct siphash_digest *pair,
                        struct siphash_digest *login)
{
    const struct good *row = row_of(h, pair);
    bool is_good = false;

    pthread_mutex_lock(&h->lock);
    for (unsigned i = 0; i < WAYS && !is_good; i++) {
        if (is_same(&row[i].pair, pair)) {
            *login = row[i].login;
            is_good = true;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return is_good && auth_hashed_has_login(h, login); /* an empty place is nobody's login */
}

void auth_hashed_remember(struct auth_hashed *h, const struct siphash_digest *pair,
                          const struct siphash_digest *login)
{
    struct good *row = row_of(h, pair);
    unsigned at = 0;

    pthread_mutex_lock(&h->lock);
    while (at < WAYS - 1 && !is_same(&row[at].pair, pair)) {
        at++;
    }
    memmove(&row[1], &row[0], at * sizeof(row[0]));
    row[0] = (struct good){*pair, *login};
    pthread_mutex_unlock(&h->lock);
}

/* ---- candidates -------------------------------------------------------------------------- */

void auth_hashed_candidates(const struct auth_hashed *h, const struct siphash_digest *user,
                            struct auth_candidates *out)
{
    size_t at = find_user(h, user);

    out->count = 0;
    if (h->count == 0) {
        return;
    }
    out->is_known = at < h->count && is_same(&h->lines[at].user, user);
    if (!out->is_known) {
        at = (size_t)(user->lo % h->count);
        while (at > 0 && is_same(&h->lines[at - 1].user, &h->lines[at].user)) {
            at--;
        }
    }
    for (size_t i = at; i < h->count && out->count < AUTH_HASHES_MAX &&
                        is_same(&h->lines[i].user, &h->lines[at].user);
         i++) {
        const char *hash = h->texts + h->lines[i].at;

        memcpy(out->hash[out->count], hash, strlen(hash) + 1);
        out->login[out->count++] = h->lines[i].login;
    }
}
