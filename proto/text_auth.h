/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef MAYFLY_PROTO_TEXT_AUTH_H
#define MAYFLY_PROTO_TEXT_AUTH_H

#include <stddef.h>

#include "lib/base/span.h"
#include "proto/reply.h"
#include "proto/request.h"
#include "proto/text_parse.h"

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
