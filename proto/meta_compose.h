/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the reply lines of meta commands. The caller provides enough room at `out`; no
 * function fails.
 */
#ifndef MAYFLY_PROTO_META_COMPOSE_H
#define MAYFLY_PROTO_META_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/encode.h"
#include "proto/meta_parse.h"
#include "proto/reply.h"
#include "proto/request.h"

/* The codes that replies begin with, as two letters. */
enum meta_code { META_HD, META_EN, META_NF, META_NS, META_EX, META_VA };

/* Sets of flags: k and O, which return bytes of the request; all that return something. */
#define META_SHOWS_KEY (META_LETTER('k') | META_LETTER('O'))
enum {
    META_SHOWS_ITEM = UINT64_C(0)
#define META_FLAG(letter, is_own, token)
#define META_SHOWN(letter, is_own, token, value) | META_LETTER(letter)
#include "proto/meta_flags.def"
};

/*
 * Facts of an item that a reply can return; a comment begins with the flag that asks for it.
 * Only facts that `shows` names and the request asked for are read.
 */
struct meta_facts {
    uint64_t shows; /* set of letters (META_LETTER()) */
    uint64_t cas;   /* c */
    uint64_t size;  /* s: bytes of the value; also the length after VA */
    /* t and p: milliseconds left; -1: no deadline */
    int64_t left_ms;
    int64_t left_before_ms; /* for t or p before T */
    int64_t left_made_ms;   /* for t or p after N, with is_made */
    uint32_t client;        /* f */
    uint32_t idle_s;        /* l */
    bool was_fetched;       /* h */
    bool is_made;           /* vivified by N, which then counts at its place as T does */
    bool was_won;           /* adds Z */
    bool is_stale;          /* adds X */
    bool is_won;            /* adds W */
};

/* Seconds for flag t, from milliseconds left: rounded up; -1 (no deadline) stays. */
static inline int64_t meta_seconds(int64_t left_ms)
{
    return left_ms < 0 ? -1 : (int64_t)(((uint64_t)left_ms + 999) / 1000);
}

/*
 * Most bytes of a reply line: a code, a length, every flag with its token (the key as base64 at
 * worst), the flags W, X and Z, the line end.
 */
#define META_LINE_MAX                                                                          \
    (2 + 21 + (2 + ENCODE_BASE64_BYTES(REQUEST_KEY_MAX) + 2) + (2 + META_OPAQUE_MAX) +         \
     __builtin_popcountll(META_SHOWS_ITEM & ~META_SHOWS_KEY) * (2 + 20) + 3 + 6 + 2)

/* Write a reply line; returns its length, at most META_LINE_MAX. Context: any thread. */
size_t meta_compose(char *out, enum meta_code code, const struct request *req,
                    const struct meta_facts *facts);

/*
 * meta_compose() of META_HD without any flags, without a call: nearly all stores end like this.
 * Context: any thread.
 */
static inline size_t meta_compose_done(char *out)
{
    memcpy(out, REPLY_BYTES(META_DONE), REPLY_LEN(META_DONE));
    return REPLY_LEN(META_DONE);
}

/* The facts that the command me returns about an item. */
struct meta_debug {
    int64_t exp; /* seconds left; -1: no deadline */
    uint32_t idle_s;
    uint64_t cas;
    uint64_t size;
    bool was_fetched;
    bool shows_freq;
    uint32_t freq; /* the counter of the lfu policies; with shows_freq */
};

/* Most bytes of a reply to me. */
#define META_DEBUG_MAX (ENCODE_BASE64_BYTES(REQUEST_KEY_MAX) + 180)

/* Write the reply to me for a found item; returns its length. Context: any thread. */
size_t meta_compose_debug(char *out, const struct request *req, const struct meta_debug *debug);

#endif
