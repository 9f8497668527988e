/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta commands, the way in. Any thread.
 *
 * This is the general way, as there is one for the classic commands: the line is cut into
 * words, and every mistake has its reply. Nearly all lines take the direct way of
 * meta_inline.h, with the same result.
 */
#include "proto/meta_parse.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/num.h"
#include "proto/encode.h"
#include "proto/expiry_parse.h"

/* All flags, and those that memcached does not have. */
enum {
    ALL_FLAGS = UINT64_C(0)
#define META_FLAG(letter, is_own, token) | META_LETTER(letter)
#include "proto/meta_flags.def"
};
enum {
    OWN_FLAGS = UINT64_C(0)
#define META_FLAG(letter, is_own, token) | (is_own ? META_LETTER(letter) : 0)
#include "proto/meta_flags.def"
};

/* The letter as a set of one; empty when it is out of range. */
static inline uint64_t letter_of(char c)
{
    unsigned place = (unsigned char)c - (unsigned)'A';

    return place <= 'z' - 'A' ? UINT64_C(1) << place : 0;
}

/* ---- flags ------------------------------------------------------------------------------- */

/* A time in milliseconds, which is not later than pexpire takes it. */
static enum reply read_time_ms(struct span token, int64_t *out)
{
    int64_t n;

    if (num_i64(token, &n) != MF_OK || n > EXPIRY_MS_MAX) {
        return REPLY_META_BAD_TOKEN;
    }
    *out = n;
    return REPLY_NONE;
}

/* A time: 32 bits, as memcached has it. */
static enum reply read_time(struct span token, int64_t *out)
{
    return num_i32(token, out) == MF_OK ? REPLY_NONE : REPLY_META_BAD_TOKEN;
}

static enum reply read_unsigned(struct span token, enum reply why, uint64_t *out)
{
    return num_u64(token, out) == MF_OK ? REPLY_NONE : why;
}

/* T, or p with a number: what it means depends on which of R and N precede it. */
static inline void note_touch(struct meta_flags *flags)
{
    flags->touches_first = !meta_has(flags->letters, 'R');
    flags->makes_by_touch = true;
}

/* p, which is T in milliseconds if it has a number. */
static enum reply read_touch_ms(struct span token, struct meta_flags *flags)
{
    if (token.len == 0) {
        return REPLY_NONE;
    }
    flags->is_ms = true;
    note_touch(flags);
    return read_time_ms(token, &flags->exptime);
}

#define NO_TOKEN REPLY_NONE

/* Read the token of a flag, if it has one that means something. */
static enum reply read_token(char letter, struct span token, struct meta_flags *flags)
{
    switch (letter) {
#define META_FLAG(letter_, is_own, token_)                                                     \
    case letter_:                                                                              \
        return token_;
#include "proto/meta_flags.def"
    default:
        return REPLY_NONE;
    }
}

enum reply meta_read_flags(struct span args, bool is_extended, struct meta_flags *flags)
{
    const uint64_t known = is_extended ? ALL_FLAGS : ALL_FLAGS & ~OWN_FLAGS;
    struct line line = {args.ptr, args.ptr + args.len};
    enum reply why = REPLY_NONE;
    struct span word;

    memset(flags, 0, sizeof(*flags));
    flags->delta = 1;
    while (words_next(&line, &word)) {
        uint64_t letter = letter_of(meta_is_time(word) && is_extended ? 'T' : word.ptr[0]);
        struct span token = span_of(word.ptr + 1, word.len - 1);

        if ((flags->letters & letter) != 0) {
            return REPLY_META_DUPLICATE;
        }
        if ((known & letter) == 0) {
            return REPLY_META_INVALID;
        }
        enum reply reply = read_token(word.ptr[0], token, flags);
        if (reply != REPLY_NONE) {
            why = reply;
        }
        flags->letters |= letter;
    }
    return why;
}

/* ---- lines ------------------------------------------------------------------------------- */

/* Decode the key into the room that the caller provides. */
static bool decode_key(const struct text_limits *limits, struct request *req)
{
    char *room = *limits->key_room;
    size_t len;

    must(DECODE_BASE64_BYTES(req->key.len) <= TEXT_KEY_ROOM);
    if (!decode_base64(room, &len, req->key)) {
        return false;
    }
    debug_must(len >= 1 && len <= REQUEST_KEY_MAX);
    req->key = span_of(room, len);
    *limits->key_room = room + len;
    return true;
}

/* May a flag begin with this byte? Letters that are not flags are rejected later. */
static bool may_begin_flag(char c)
{
    return (c >= 'A' && c <= 'z') || words_is_digit(c);
}

/* Does a flag begin with a byte that is neither? Such a line is wrong as a whole. */
static bool has_odd_flag(struct span args)
{
    struct line line = {args.ptr, args.ptr + args.len};
    struct span word;

    while (words_next(&line, &word)) {
        if (!may_begin_flag(word.ptr[0])) {
            return true;
        }
    }
    return false;
}

/* More flags than a line may have? */
static bool has_many_flags(const struct request *req)
{
    struct line line = {req->args.ptr, req->args.ptr + req->args.len};
    unsigned most = req->command == CMD_MS ? META_MS_FLAGS_MAX : META_FLAGS_MAX;
    struct span word;
    unsigned count = 0;

    while (count <= most && words_next(&line, &word)) {
        count++;
    }
    return count > most;
}

static bool is_mode(char mode, const char *modes)
{
    return mode != '\0' && strchr(modes, mode) != NULL;
}

/* What depends on the command: checked after all flags and the key were found good. */
static enum reply check_flags(enum command command, const struct meta_flags *flags)
{
    if (meta_has(flags->letters, 'M')) {
        if (command == CMD_MS && !is_mode(flags->mode, "EAPRS")) {
            return REPLY_META_MS_MODE;
        }
        if (command == CMD_MA && !is_mode(flags->mode, "ID+-")) {
            return REPLY_META_MA_MODE;
        }
    }
    if (meta_has(flags->letters, 'p') && command != CMD_MG && command != CMD_MA) {
        return REPLY_META_BAD_TOKEN; /* nothing to show there: the number was forgotten */
    }
    if (meta_has(flags->letters, 'j') && command != CMD_MS) {
        return command == CMD_MA ? REPLY_META_BAD_FLAGS : REPLY_META_INVALID;
    }
    return flags->opaque_len > META_OPAQUE_MAX ? REPLY_META_OPAQUE : REPLY_NONE;
}

/* Read the flags of mg, ms, md, ma; decode the key if they say that it is base64. */
static enum reply read_flags(const struct text_limits *limits, struct request *req,
                             struct meta_flags *flags)
{
    if (req->key.len > REQUEST_KEY_MAX) {
        return REPLY_BAD_FORMAT;
    }
    if (has_many_flags(req)) {
        return REPLY_META_MANY;
    }
    enum reply reply = meta_read_flags(req->args, limits->has_extensions, flags);
    if (reply == REPLY_NONE && meta_has(flags->letters, 'b') && !decode_key(limits, req)) {
        reply = REPLY_META_BAD_KEY;
    }
    return reply;
}

/* The same, and what depends on the command. */
static enum reply take_flags(const struct text_limits *limits, struct request *req)
{
    enum command command = (enum command)req->command;
    struct meta_flags flags;

    if (has_odd_flag(req->args)) {
        return REPLY_BAD_FORMAT;
    }
    enum reply reply = read_flags(limits, req, &flags);
    if (reply != REPLY_NONE) {
        return command == CMD_MA ? REPLY_META_BAD_FLAGS : reply; /* one for all of them */
    }
    req->letters = flags.letters;
    return check_flags(command, &flags);
}

/* me: key [b]; other words are ignored. */
static enum reply parse_debug(struct line line, const struct text_limits *limits,
                              struct request *req)
{
    struct span word;

    req->args = span_of(line.end, 0);
    if (!words_next(&line, &req->key) || req->key.len > REQUEST_KEY_MAX) {
        return REPLY_BAD_FORMAT;
    }
    if (words_next(&line, &word) && span_is(word, "b")) {
        if (!decode_key(limits, req)) {
            return REPLY_BAD_FORMAT;
        }
        req->letters = META_LETTER('b');
    }
    return REPLY_NONE;
}

enum reply meta_parse_line(struct line line, const struct text_limits *limits,
                           struct request *req)
{
    struct span word;

    if (req->command == CMD_MN) {
        return REPLY_NONE;
    }
    if (req->command == CMD_ME) {
        return parse_debug(line, limits, req);
    }
    if (!words_next(&line, &req->key)) {
        return REPLY_BAD_FORMAT;
    }
    if (req->command == CMD_MS) {
        /* A length that cannot be trusted: swallow nothing. */
        if (!words_next(&line, &word) || !words_value_len(word, &req->value_len)) {
            return REPLY_BAD_FORMAT;
        }
    }
    debug_must(req->key.len >= 1 && !req->noreply);
    req->args = words_rest(line);
    enum reply reply = take_flags(limits, req);
    if (reply != REPLY_NONE && req->command == CMD_MS) {
        req->value_len += 2; /* the value is not a command, whatever was wrong before it */
    }
    return reply;
}
