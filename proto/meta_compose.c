/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta commands, the way out. Any thread.
 *
 * A reply returns what was asked for, in the order of the flags, so the flags of the request
 * are walked once more. They were checked when they were parsed.
 */
#include "proto/meta_compose.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/num.h"
#include "proto/words.h"

static const char codes[][2] = {
    [META_HD] = {'H', 'D'}, [META_EN] = {'E', 'N'}, [META_NF] = {'N', 'F'},
    [META_NS] = {'N', 'S'}, [META_EX] = {'E', 'X'}, [META_VA] = {'V', 'A'},
};

static inline char *put_letter(char *out, char letter)
{
    out[0] = ' ';
    out[1] = letter;
    return out + 2;
}

static inline char *put_bytes(char *out, const char *bytes, size_t len)
{
    memcpy(out, bytes, len);
    return out + len;
}

/* A negative number is not a time but has a meaning of its own. */
static inline char *put_time(char *out, int64_t time)
{
    uint64_t number = (uint64_t)time;

    if (time < 0) {
        *out++ = '-';
        number = -number;
    }
    return num_put_short(out, number);
}

/* A key that came as base64 is returned as base64, followed by the flag b. */
static char *put_key(char *out, const struct request *req)
{
    if (!meta_has(req->letters, 'b')) {
        return put_bytes(out, req->key.ptr, req->key.len);
    }
    out += encode_base64(out, req->key);
    return put_letter(out, 'b');
}

/* Write what one flag of the request returns. flag: the whole word, token included. */
static inline char *put_flag(char *out, struct span flag, int64_t left_ms,
                             const struct request *req, const struct meta_facts *facts)
{
    char letter = flag.ptr[0];
    char *p = put_letter(out, letter);
    uint64_t number;

    switch (letter) {
#define META_FLAG(letter_, is_own, token)
#define META_SHOWN(letter_, is_own, token, value)                                              \
    case letter_:                                                                              \
        value;                                                                                 \
        break;
#include "proto/meta_flags.def"
    default:
        return out;
    }
    return num_put_short(p, number);
}

/* The time that a t or p before all other flags returns: those before a change. */
static inline int64_t time_at_first(const struct request *req, const struct meta_facts *facts)
{
    return meta_has(req->letters, 'T') || facts->is_made ? facts->left_before_ms
                                                         : facts->left_ms;
}

/*
 * put_flags() from `in` on, for flags with tokens (some of which change the time left) or more
 * than one space between them.
 */
static MF_NOINLINE char *put_long_flags(char *out, const char *in, uint64_t shows,
                                        const struct request *req,
                                        const struct meta_facts *facts)
{
    struct line line = {in, req->args.ptr + req->args.len};
    int64_t left_ms = time_at_first(req, facts);
    struct span flag;

    while (words_next(&line, &flag)) {
        char letter = flag.ptr[0];

        if (meta_is_time(flag)) {
            left_ms = facts->left_ms;
            continue;
        }
        if (meta_has(shows, letter)) {
            out = put_flag(out, flag, left_ms, req, facts);
        }
        if (letter == 'N' && facts->is_made) {
            left_ms = facts->left_made_ms;
        }
    }
    return out;
}

/* Write what was asked for and can be returned: the flags with a letter in `shows`. */
static inline char *put_flags(char *out, uint64_t shows, const struct request *req,
                              const struct meta_facts *facts)
{
    const char *in = req->args.ptr;
    const char *end = in + req->args.len;
    int64_t left_ms = time_at_first(req, facts);

    for (; in < end; in += 2) {
        if (*in == ' ' || (in + 1 < end && in[1] != ' ')) {
            return put_long_flags(out, in, shows, req, facts);
        }
        if (meta_has(shows, *in)) {
            out = put_flag(out, span_of(in, 1), left_ms, req, facts);
        }
    }
    return out;
}

static inline char *put_marks(char *out, const struct meta_facts *facts)
{
    if (facts->was_won) {
        out = put_letter(out, 'Z');
    }
    if (facts->is_stale) {
        out = put_letter(out, 'X');
    }
    return facts->is_won ? put_letter(out, 'W') : out;
}

size_t meta_compose(char *out, enum meta_code code, const struct request *req,
                    const struct meta_facts *facts)
{
    debug_must(code <= META_VA && req->cls == CLASS_META);

    uint64_t shows = facts->shows & req->letters;
    char *p = put_bytes(out, codes[code], 2);

    if (code == META_VA) {
        *p = ' ';
        p = num_put_short(p + 1, facts->size);
    }
    if (shows != 0) {
        p = put_flags(p, shows, req, facts);
    }
    p = put_marks(p, facts);
    memcpy(p, "\r\n", 2);
    must((size_t)(p + 2 - out) <= META_LINE_MAX);
    return (size_t)(p + 2 - out);
}

size_t meta_compose_debug(char *out, const struct request *req, const struct meta_debug *debug)
{
    char *p = put_bytes(out, "ME ", 3);

    debug_must(req->cls == CLASS_META);
    if (meta_has(req->letters, 'b')) {
        p += encode_base64(p, req->key);
    } else {
        p = put_bytes(p, req->key.ptr, req->key.len);
    }
    p = put_time(put_bytes(p, " exp=", 5), debug->exp);
    p = num_put_short(put_bytes(p, " la=", 4), debug->idle_s);
    p = num_put_short(put_bytes(p, " cas=", 5), debug->cas);
    p = put_bytes(p, debug->was_fetched ? " fetch=yes" : " fetch=no",
                  debug->was_fetched ? 10 : 9);
    p = num_put_short(put_bytes(p, " cls=1 size=", 12), debug->size);
    if (debug->shows_freq) {
        p = num_put_short(put_bytes(p, " freq=", 6), debug->freq);
    }
    memcpy(p, "\r\n", 2);
    must((size_t)(p + 2 - out) <= META_DEBUG_MAX);
    return (size_t)(p + 2 - out);
}
