/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing the text protocol: a line, and the value after it, to a request. Lines of meta
 * commands are passed to meta_parse.h.
 */
#ifndef MAYFLY_PROTO_TEXT_PARSE_H
#define MAYFLY_PROTO_TEXT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "proto/reply.h"
#include "proto/request.h"

/* Room for a decoded base64 key: most bytes that it takes, rounded up. */
#define TEXT_KEY_ROOM 192

/*
 * Most bytes of a line whose end has not arrived. If there are more, the connection is closed,
 * as in memcached, unless the line begins with "get ", "gets " or "unlink ", after at most 100
 * spaces. So a connection keeps at most this many bytes of any other line.
 */
#define TEXT_UNENDED_MAX 2048

/*
 * Most bytes of a line whose end has arrived, without its '\n'. A longer line closes the
 * connection. Lines of the get family have many keys and a limit of their own: 2 MiB are 10 000
 * keys of 200 bytes, or 70 000 of 28.
 */
#define TEXT_LINE_MAX     (16 * 1024)
#define TEXT_GET_LINE_MAX (2 * 1024 * 1024)

struct text_limits {
    /*
     * Most bytes that a key and its announced value may have together. When they have more, the
     * reply is REPLY_TOO_LARGE and the value is swallowed.
     */
    size_t value_max;
    /*
     * Buffer for keys that came in base64: *key_room points to TEXT_KEY_ROOM bytes. The parser
     * moves *key_room to the end of the bytes that it wrote; the request refers to them.
     */
    char **key_room;
    bool has_extensions; /* commands and flags that memcached does not have are known */
};

/*
 * Parse one request at the front of buf. Never reads beyond len; gives the same result however
 * the input is split, except for lines longer than TEXT_UNENDED_MAX. When the line announces a
 * value, and all of it is in the buffer with its line end, the status is PARSE_OK and value is
 * set.
 *
 * PARSE_BODY   the line of a storage command is whole, *used bytes; req->value_len + 2 bytes
 *              follow, not all of which are there.
 * PARSE_REPLY  *reply says what is wrong; it is not sent when req->noreply is set (meta
 *              commands never set it: their q flag does not hide errors). req->value_len
 *              counts the line end of the value too, and is 0 when its length is not known.
 *              When req->invalidate is set, the caller deletes the item of req->key: memcached
 *              drops the old value when a set is too large.
 * PARSE_CLOSE  close without a reply: the line is too long, or came from a browser.
 *
 * With PARSE_OK and PARSE_BODY all keys have 1 to REQUEST_KEY_MAX bytes, those in req->more
 * included. A key has any bytes but space and line feed.
 *
 * A caller that waits for the rest of a line saves time by calling again only when a '\n' has
 * arrived, or TEXT_UNENDED_MAX or TEXT_GET_LINE_MAX is passed. Context: any thread.
 */
enum parse_status text_parse(const char *buf, size_t len, const struct text_limits *limits,
                             struct request *req, size_t *used, enum reply *reply);

/*
 * Remove the next key of a get line from the front of *more; false when there is none. Context:
 * any thread.
 */
bool text_next_key(struct span *more, struct span *key);

/* ---- text_auth.c ------------------------------------------------------------------------- */

/*
 * The only command of the text protocol that a client may send before it has authenticated:
 *
 *     set KEY FLAGS EXPTIME LENGTH\r\n
 *     USER PASSWORD\r\n
 *
 * The first space ends the user; the rest is the password, so it may have spaces. Key, flags
 * and exptime may be any words, and more words may follow. Nothing else of the text protocol is
 * parsed here, so an unauthenticated client cannot reach the rest.
 */

/*
 * Longest line, without its line feed, and longest user and password together. They bound what
 * a client can make the server keep before it has authenticated. A longer line closes the
 * connection, as in memcached; a longer value is dropped as it arrives.
 */
#define TEXT_AUTH_LINE_MAX  2048
#define TEXT_AUTH_VALUE_MAX 4096

struct text_auth {
    struct span user;     /* [borrowed] in the caller's buffer */
    struct span password; /* [borrowed] */
    size_t need;          /* PARSE_MORE: bytes that a whole request has; 0: not known yet */
    size_t swallow;       /* PARSE_REPLY: drop this many bytes after *used as they arrive */
};

/*
 * Read one command at the front of buf. The result does not depend on how the input is split.
 *
 * PARSE_OK     user and password are set; either may be empty
 * PARSE_MORE   not all of it is there
 * PARSE_REPLY  answer *reply and drop *used bytes
 * PARSE_CLOSE  close without a reply
 *
 * Context: any thread.
 */
enum parse_status text_auth_parse(const char *buf, size_t len, struct text_auth *auth,
                                  size_t *used, enum reply *reply);

#endif
