/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text protocol: bytes to requests, outcomes to bytes. What is particular to meta commands is
 * in meta.h.
 */
#ifndef MAYFLY_PROTO_TEXT_H
#define MAYFLY_PROTO_TEXT_H

#include <string.h>

#include "lib/base/err.h"
#include "lib/base/num.h"
#include "proto/reply.h"
#include "proto/request.h"

/* Longest key, in bytes. */
#define TEXT_KEY_MAX 250

/* What a key in base64 can become, and a little more. */
#define TEXT_KEY_ROOM 192

/*
 * Longest line in bytes, without its '\n'. A longer one closes the connection, so this bounds
 * what a connection has to keep of a line whose end does not come. Lines of the get family
 * carry many keys and have a bound of their own: 2 MiB is 10 000 keys of 200 bytes, or 70 000
 * of 28.
 */
#define TEXT_LINE_MAX     (16 * 1024)
#define TEXT_GET_LINE_MAX (2 * 1024 * 1024)

/* Longest value a line can announce; more is not a length but a bad line. */
#define TEXT_VALUE_LEN_MAX (INT32_MAX - 2)

enum parse_status {
    /* *used bytes are one whole request. */
    PARSE_OK,
    /* The buffer ends inside a line: keep it and read on. */
    PARSE_MORE,
    /* The line of a storage command is whole (*used bytes), its value is not:
     * req->value_len + 2 bytes follow. */
    PARSE_BODY,
    /* Not executable: answer reply (enum reply), drop *used bytes, then swallow req->value_len
     * more as they come. */
    PARSE_REPLY,
    /* Close the connection after answering reply (REPLY_NONE: silently). */
    PARSE_CLOSE,
};

struct text_limits {
    /*
     * Most bytes that key and announced value may have together; above: REPLY_TOO_LARGE and
     * swallow.
     */
    size_t value_max;
    /*
     * Where the bytes of a key that came as base64 go: TEXT_KEY_ROOM bytes from *key_room on.
     * What is used is taken off its front; the request refers to it.
     */
    char **key_room;
};

/*
 * Parse one request at the front of buf. Never reads beyond len; allocates nothing; gives the
 * same result however the input is split. When the line asks for a value, and all of it is in
 * the buffer with its line end, the status is PARSE_OK and value is set.
 *
 * Every key is checked: a request that comes out with PARSE_OK or PARSE_BODY has only keys of 1
 * to TEXT_KEY_MAX bytes, those in more included. A key is any bytes but space and line feed.
 *
 * With PARSE_REPLY the reply is already REPLY_NONE when the client asked for noreply (meta
 * commands have no such thing: their q hides no error); when req->invalidate is set, the value
 * that req->key has must not be served any more (memcached drops the old value when a set is
 * too large); req->value_len counts the line end of the value too. A caller that waits for more
 * input of a long line saves time by calling again only when a '\n' arrived or TEXT_LINE_MAX is
 * passed. Context: any thread.
 */
enum parse_status text_parse(const char *buf, size_t len, const struct text_limits *limits,
                             struct request *req, size_t *used, enum reply *reply);

/*
 * The next key of a get line: takes it off the front of *more. False when there is none.
 * Context: any thread.
 */
bool text_next_key(struct span *more, struct span *key);

/* Longest line that text_compose_value() makes, without key: "VALUE  flags bytes cas\r\n". */
#define TEXT_VALUE_LINE_MAX (6 + 1 + 10 + 1 + 20 + 1 + 20 + 2)

/* Write "VALUE key flags bytes[ cas]\r\n" at out; returns its length. Context: any thread. */
size_t text_compose_value(char *out, const char *key, size_t key_len, uint32_t flags,
                          size_t value_len, bool with_cas, uint64_t cas);

/* Longest fixed reply or number, line end included. */
#define TEXT_REPLY_MAX 256

/*
 * Write the reply of an outcome to a request; nothing for noreply. Returns its length. Context:
 * any thread.
 */
size_t text_compose(char *out, const struct request *req, enum outcome outcome,
                    uint64_t number);

/* Write the reply to `version`; returns its length. Context: any thread. */
size_t text_compose_version(char *out, struct span version);

/*
 * text_compose() for OUT_STORED, without a call: that is what nearly all stores come to. The
 * text is that of REPLY_STORED. It is written for noreply too, into the room there is, and then
 * not counted. Context: any thread.
 */
static inline size_t text_compose_stored(char *out, const struct request *req)
{
    memcpy(out, REPLY_BYTES(STORED), REPLY_LEN(STORED));
    return req->noreply ? 0 : REPLY_LEN(STORED);
}

/* The same for OUT_TOUCHED. Context: any thread. */
static inline size_t text_compose_touched(char *out, const struct request *req)
{
    memcpy(out, REPLY_BYTES(TOUCHED), REPLY_LEN(TOUCHED));
    return req->noreply ? 0 : REPLY_LEN(TOUCHED);
}

/*
 * text_compose() for OUT_NUMBER, when the n digits of the number are at hand already. All
 * places of `digits` are copied, which takes two moves and no loop, and only the n are counted.
 * Context: any thread.
 */
static inline size_t text_compose_digits(char *out, const struct request *req,
                                         const char digits[NUM_DIGITS_MAX], size_t n)
{
    memcpy(out, digits, NUM_DIGITS_MAX);
    memcpy(out + n, "\r\n", 2);
    return req->noreply ? 0 : n + 2;
}

#endif
