/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta commands: mg, ms, md, ma, mn, me. A line is a name, a key, for ms a length, then flags:
 * words that begin with a letter, behind which some have a token.
 *
 * The flags of a line are read twice, once to check it and once when it is executed; between
 * the two a request has their text and the set of their letters. So a request stays small.
 */
#ifndef MAYFLY_PROTO_META_H
#define MAYFLY_PROTO_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/span.h"
#include "proto/encode.h"
#include "proto/reply.h"
#include "proto/request.h"
#include "proto/text.h"
#include "proto/words.h"

/* A letter in a set of letters: 'A' to 'z'. */
#define META_LETTER(letter) (UINT64_C(1) << ((letter) - 'A'))

/* Most flags of a line, and most bytes of an opaque token. */
#define META_FLAGS_MAX  17
#define META_OPAQUE_MAX 31

/* What the flags of a line say. What was not given is 0. */
struct meta_flags {
    uint64_t letters;    /* those given */
    int64_t exptime;     /* T */
    int64_t vivify;      /* N */
    int64_t recache;     /* R */
    uint64_t cas;        /* C */
    uint64_t cas_new;    /* E */
    uint64_t delta;      /* D; 1 when not given */
    uint64_t initial;    /* J */
    uint32_t client;     /* F */
    char mode;           /* M; not checked */
    size_t opaque_len;   /* O */
    bool touches_first;  /* T stands before R */
    bool makes_by_touch; /* T is the last of N and T: what is made gets its time */
};

static inline bool meta_has(uint64_t letters, char letter)
{
    return (letters & META_LETTER(letter)) != 0;
}

/*
 * Read flags, words apart by spaces. REPLY_NONE, or what is wrong: with the first letter that
 * is none or comes twice, else with the last wrong token; then *flags is undefined. Context:
 * any thread.
 */
enum reply meta_read_flags(struct span args, struct meta_flags *flags);

/*
 * A whole meta line, without its end, to a request whose command is set; `line` begins behind
 * the name. The request gets its key (the bytes themselves when it came as base64, then in the
 * room of limits), args with the flags, their letters in cas, the announced length of ms in
 * value_len. Never sets noreply: errors are answered in quiet mode too.
 *
 * PARSE_OK (the value of ms is not looked for), or PARSE_REPLY; then value_len is what is to be
 * swallowed, the line end of a value included. Context: any thread.
 */
enum parse_status meta_parse_line(struct line line, const struct text_limits *limits,
                                  struct request *req, enum reply *reply);

/* ---- replies ----------------------------------------------------------------------------- */

/* The codes that replies begin with, as two letters. */
enum meta_code { META_HD, META_EN, META_NF, META_NS, META_EX, META_VA };

/* The letters that return something, in the order in which they were asked for. */
#define META_SHOWS_KEY (META_LETTER('k') | META_LETTER('O'))
#define META_SHOWS_ITEM                                                                        \
    (META_SHOWS_KEY | META_LETTER('c') | META_LETTER('f') | META_LETTER('h') |                 \
     META_LETTER('l') | META_LETTER('s') | META_LETTER('t'))

/* What a reply can tell. Only what `shows` names and the request asked for is looked at. */
struct meta_facts {
    uint64_t shows;       /* set of letters */
    uint64_t cas;         /* c */
    uint64_t size;        /* s: bytes of the value; the length behind VA, too */
    int64_t ttl_s;        /* t: seconds left; -1: without end */
    int64_t ttl_before_s; /* t where it stands before T */
    int64_t ttl_made_s;   /* t where it stands behind N, with is_made */
    uint32_t client;      /* f */
    uint32_t idle_s;      /* l */
    bool was_fetched;     /* h */
    bool is_made;         /* by N, which counts in its place then, as T does */
    bool was_won;         /* adds Z */
    bool is_stale;        /* adds X */
    bool is_won;          /* adds W */
};

/*
 * Longest reply line: a code, a length, every flag with what it returns (the key as base64 at
 * worst), the marks, the line end.
 */
#define META_LINE_MAX                                                                          \
    (2 + 21 + (2 + ENCODE_BASE64_BYTES(TEXT_KEY_MAX) + 2) + (2 + META_OPAQUE_MAX) + 5 * 22 +   \
     3 + 6 + 2)

/* Write the line of a reply; returns its length. Context: any thread. */
size_t meta_compose(char *out, enum meta_code code, const struct request *req,
                    const struct meta_facts *facts);

/*
 * meta_compose() of META_HD for a request that asked for nothing, and no marks, without a call:
 * that is what nearly all stores come to. Context: any thread.
 */
static inline size_t meta_compose_done(char *out)
{
    memcpy(out, REPLY_BYTES(META_DONE), REPLY_LEN(META_DONE));
    return REPLY_LEN(META_DONE);
}

/* What me tells of an item. */
struct meta_debug {
    int64_t exp; /* -1: no deadline */
    uint32_t idle_s;
    uint64_t cas;
    uint64_t size;
    bool was_fetched;
};

/* Longest line of me. */
#define META_DEBUG_MAX (ENCODE_BASE64_BYTES(TEXT_KEY_MAX) + 160)

/* Write the line of me for an item that is there; returns its length. Context: any thread. */
size_t meta_compose_debug(char *out, const struct request *req, const struct meta_debug *debug);

#endif
