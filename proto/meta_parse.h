/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses meta commands: mg, ms, md, ma, mn, me. A line has a name, a key, for ms a length, then
 * flags. A flag is a word: a letter, which a token may follow.
 *
 * The flags of a line are read twice, once to check them and once to execute them. In between,
 * a request has only their text and the set of their letters, which keeps it small.
 */
#ifndef MAYFLY_PROTO_META_PARSE_H
#define MAYFLY_PROTO_META_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "proto/reply.h"
#include "proto/request.h"
#include "proto/text_parse.h"
#include "proto/words.h"

/* A letter in a set of letters: 'A' to 'z'. */
#define META_LETTER(letter) (UINT64_C(1) << ((letter) - 'A'))

/* Is the letter in the set? */
static inline bool meta_has(uint64_t letters, char letter)
{
    return (letters & META_LETTER(letter)) != 0;
}

/* Most flags of a line (the length of ms counts as one); most bytes of an opaque token. */
#define META_FLAGS_MAX    18
#define META_MS_FLAGS_MAX (META_FLAGS_MAX - 1)
#define META_OPAQUE_MAX   31

/* The flags of a line. A field whose flag was not sent is 0. Times are in seconds. */
struct meta_flags {
    uint64_t letters;    /* the set of those sent */
    int64_t exptime;     /* T, or p with a number (is_ms) */
    int64_t vivify;      /* N */
    int64_t recache;     /* R */
    uint64_t cas;        /* C */
    uint64_t cas_new;    /* E */
    uint64_t delta;      /* D; 1 when not sent */
    uint64_t initial;    /* J */
    uint32_t client;     /* F */
    uint32_t jitter;     /* j: percent, 0 to 100 */
    char mode;           /* M: the first letter of its token, or NUL; not checked */
    size_t opaque_len;   /* O */
    bool is_ms;          /* exptime came with p: it is in milliseconds */
    bool touches_first;  /* T precedes R */
    bool makes_by_touch; /* T follows N: a vivified item gets T's time */
};

/*
 * Read flags: words separated by spaces. Returns REPLY_NONE, or the error; then *flags is
 * undefined. The error is that of the first letter that is unknown or comes twice, else that of
 * the last bad token. is_extended: flags that memcached does not have are known too.
 *
 * p with a number is T in milliseconds, and the set of letters gets T for it. The set has p
 * only for a p without a number, which asks for the milliseconds left. Context: any thread.
 */
enum reply meta_read_flags(struct span args, bool is_extended, struct meta_flags *flags);

/* Does the word of a flag set the deadline: T, or p with a number? */
static inline bool meta_is_time(struct span flag)
{
    return flag.ptr[0] == 'T' || (flag.ptr[0] == 'p' && flag.len > 1);
}

/*
 * Parse a whole meta line, without its end, to a request whose command is set; `line` begins
 * after the name. Sets the key, args (the flags), the set of their letters, and for ms
 * value_len. A key in base64 is decoded into limits->key_room. Never sets noreply: errors are
 * answered in quiet mode too.
 *
 * Returns REPLY_NONE (the value of ms is not looked for), or why it cannot be executed; then
 * value_len is the number of bytes to swallow, the line end of a value included. Context: any
 * thread.
 */
enum reply meta_parse_line(struct line line, const struct text_limits *limits,
                           struct request *req);

#endif
