/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libcrypt; see auth_hashed.h. Its state for one call is 32 KiB, and holds the password.
 */
#include "daemon/access/auth_hashed.h"

#include <crypt.h>
#include <string.h>

#include "lib/base/context.h"
#include "lib/base/mem.h"

_Static_assert(AUTH_HASH_MAX == CRYPT_OUTPUT_SIZE, "every hash of the library fits");

/* How a hash looks: its first bytes, and how many there are after the last $ of it. */
static const struct {
    const char *begin;
    size_t end_len;
} methods[] = {
    {"$y$", 43},    /* yescrypt */
    {"$gy$", 43},   /* the same over a GOST hash */
    {"$7$", 43},    /* scrypt */
    {"$2a$", 53},   /* bcrypt; salt and hash are one word */
    {"$2b$", 53},   /* the same */
    {"$2y$", 53},   /* the same */
    {"$6$", 86},    /* sha512crypt */
    {"$5$", 43},    /* sha256crypt */
    {"$sha1$", 28}, /* sha1crypt */
    {"$md5", 22},   /* SunMD5 */
    {"$1$", 22},    /* md5crypt */
};

static bool is_of_hashes(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           c == '.' || c == '/';
}

/* Are there exactly end_len bytes after the last $, all of the alphabet of hashes? */
static bool ends_as_hash(struct span field, size_t end_len)
{
    const char *last = memrchr(field.ptr, '$', field.len);
    const char *end = field.ptr + field.len;

    if ((size_t)(end - last - 1) != end_len) {
        return false;
    }
    for (const char *p = last + 1; p < end; p++) {
        if (!is_of_hashes(*p)) {
            return false;
        }
    }
    return true;
}

static bool library_knows(struct span field)
{
    char text[AUTH_HASH_MAX];

    memcpy(text, field.ptr, field.len);
    text[field.len] = '\0';
    int verdict = crypt_checksalt(text);
    explicit_bzero(text, sizeof(text));
    return verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED;
}

enum auth_field auth_field_of(struct span field)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        size_t begin_len = strlen(methods[i].begin);

        if (field.len > begin_len && memcmp(field.ptr, methods[i].begin, begin_len) == 0) {
            return field.len < AUTH_HASH_MAX && ends_as_hash(field, methods[i].end_len) &&
                           library_knows(field)
                       ? AUTH_FIELD_HASH
                       : AUTH_FIELD_BROKEN;
        }
    }
    return AUTH_FIELD_PLAIN;
}

/* Compares all bytes, wherever they differ. */
static bool is_same(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned char differ = 0;

    if (strlen(b) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        differ |= (unsigned char)(a[i] ^ b[i]);
    }
    return differ == 0;
}

bool auth_hash_verify(const char *hash, struct span password)
{
    struct crypt_data *data = mem_zalloc(sizeof(*data));
    char phrase[CRYPT_MAX_PASSPHRASE_SIZE];
    size_t len = password.len < sizeof(phrase) ? password.len : sizeof(phrase) - 1;

    must_be_pool();
    must_not_be_reading();
    if (data == NULL) {
        return false;
    }
    if (len > 0) {
        memcpy(phrase, password.ptr, len);
    }
    phrase[len] = '\0';
    const char *made = crypt_rn(phrase, hash, data, (int)sizeof(*data));
    bool is_good = made != NULL && is_same(made, hash) && len == password.len &&
                   strlen(phrase) == password.len;
    explicit_bzero(phrase, sizeof(phrase));
    explicit_bzero(data, sizeof(*data));
    mem_free(data);
    return is_good;
}
