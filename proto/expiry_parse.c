/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text commands in the words of Redis, the way in. Any thread.
 *
 * Unlike the commands of memcached these know no words that are ignored: what is too much on a
 * line is a mistake.
 */
#include "proto/expiry_parse.h"

#include <strings.h>

#include "lib/base/num.h"

/* Milliseconds of a time that was sent in seconds or milliseconds. */
static bool read_ms(struct span word, bool is_seconds, int64_t *out)
{
    int64_t n;

    if (num_i64(word, &n) != MF_OK || __builtin_mul_overflow(n, is_seconds ? 1000 : 1, &n) ||
        n > EXPIRY_MS_MAX || n < -EXPIRY_MS_MAX) {
        return false;
    }
    *out = n;
    return true;
}

/* The condition that a word is; 0: none. In either case, as in Redis. */
static uint8_t condition_of(struct span word)
{
    static const char names[][3] = {"nx", "xx", "gt", "lt"};
    static const uint8_t conditions[] = {ONLY_ENDLESS, ONLY_VOLATILE, ONLY_LATER, ONLY_EARLIER};

    for (unsigned i = 0; i < sizeof(conditions); i++) {
        if (word.len == 2 && strncasecmp(word.ptr, names[i], 2) == 0) {
            return conditions[i];
        }
    }
    return 0;
}

/* Conditions that contradict each other: NX and any other, GT and LT. */
static bool is_contradiction(uint32_t only)
{
    return ((only & ONLY_ENDLESS) != 0 && only != ONLY_ENDLESS) ||
           (only & (ONLY_LATER | ONLY_EARLIER)) == (ONLY_LATER | ONLY_EARLIER);
}

/* key time [condition ...]; count is without noreply. */
static enum reply parse_deadline(const struct args *args, size_t count, struct request *req)
{
    bool is_seconds = req->command == CMD_EXPIRE || req->command == CMD_EXPIREAT;

    if (count < 2 || count > ARGS_MAX) {
        return REPLY_BAD_FORMAT;
    }
    for (size_t i = 2; i < count; i++) {
        uint8_t condition = condition_of(args->word[i]);

        if (condition == 0) {
            return REPLY_BAD_FORMAT;
        }
        req->flags |= condition;
    }
    if (is_contradiction(req->flags)) {
        return REPLY_EXPIRE_CONDITIONS;
    }
    return read_ms(args->word[1], is_seconds, &req->exptime) ? REPLY_NONE : REPLY_BAD_EXPTIME;
}

/* The keys after the first. */
static enum reply parse_keys(const struct args *args, struct request *req)
{
    const char *begin = req->key.ptr + req->key.len;
    const char *end = req->noreply ? args->last.ptr : args->last.ptr + args->last.len;
    struct line line = {begin, end};

    if (words_has_long(line, REQUEST_KEY_MAX)) {
        return REPLY_BAD_FORMAT;
    }
    req->more = words_rest(line);
    return REPLY_NONE;
}

enum reply expiry_parse(const struct args *args, struct request *req)
{
    size_t count = args->count;

    if (count == 0) {
        return REPLY_BAD_FORMAT;
    }
    /* A question always has an answer; a key alone is a key, whatever its name. */
    req->noreply = req->cls != CLASS_TTL && count > 1 && words_is_noreply(args->last);
    count -= req->noreply;
    req->key = args->word[0];
    if (req->key.len > REQUEST_KEY_MAX) {
        return REPLY_BAD_FORMAT;
    }
    if (req->cls == CLASS_UNLINK) {
        return parse_keys(args, req);
    }
    if (req->cls == CLASS_DEADLINE && req->command != CMD_PERSIST) {
        return parse_deadline(args, count, req);
    }
    return count == 1 ? REPLY_NONE : REPLY_BAD_FORMAT;
}
