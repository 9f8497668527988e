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

/* Most bytes that the decoded form of a key in base64 takes, and a little more. */
#define TEXT_KEY_ROOM 192

/*
 * A line without its end, longer than this, closes the connection, as in memcached, unless it
 * begins with "get ", "gets " or "unlink ", after 100 spaces at most. So this bounds what a
 * connection has to keep of any other line.
 */
#define TEXT_UNENDED_MAX 2048

/*
 * Longest line in bytes, without its '\n', that came with its end. A longer one closes the
 * connection. Lines of the get family carry many keys and have a bound of their own: 2 MiB is
 * 10 000 keys of 200 bytes, or 70 000 of 28.
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
     * Where the bytes of a key that came as base64 are written: there are TEXT_KEY_ROOM bytes
     * at *key_room. The bytes used are taken off its front; the request refers to them.
     */
    char **key_room;
    bool has_extensions; /* are commands and flags known that memcached does not have? */
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
 *              When req->invalidate is set, the value that req->key has must not be served any
 *              more: memcached drops the old value when a set is too large.
 * PARSE_CLOSE  close without a reply: the line is too long, or came from a browser.
 *
 * Every key is checked: a request that comes out with PARSE_OK or PARSE_BODY has only keys of 1
 * to REQUEST_KEY_MAX bytes, those in more included. A key is any bytes but space and line feed.
 *
 * A caller that waits for the rest of a line saves time by calling again only when a '\n' has
 * arrived, or TEXT_UNENDED_MAX or TEXT_GET_LINE_MAX is passed. Context: any thread.
 */
enum parse_status text_parse(const char *buf, size_t len, const struct text_limits *limits,
                             struct request *req, size_t *used, enum reply *reply);

/*
 * Take the next key of a get line off the front of *more; false when there is none. Context:
 * any thread.
 */
bool text_next_key(struct span *more, struct span *key);

#endif
