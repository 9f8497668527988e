/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one command of the text protocol before a client has said who it is:
 *
 *     set KEY FLAGS EXPTIME LENGTH\r\n
 *     USER PASSWORD\r\n
 *
 * Key, flags and exptime may be any words, and more words may follow. Nothing else of the text
 * protocol is looked at here, so nothing else can be reached.
 */
#ifndef MAYFLY_PROTO_TEXT_AUTH_H
#define MAYFLY_PROTO_TEXT_AUTH_H

#include <stddef.h>

#include "lib/base/span.h"
#include "proto/reply.h"
#include "proto/text.h"

/*
 * Longest line, without its line feed, and longest user and password together. They bound what
 * a client can make the server keep before it is known. A longer line closes the connection, as
 * in memcached; a longer value is dropped as it comes.
 */
#define TEXT_AUTH_LINE_MAX  2048
#define TEXT_AUTH_VALUE_MAX 4096

struct text_auth {
    struct span user;     /* [borrowed] in the caller's buffer */
    struct span password; /* [borrowed] */
    size_t need;    /* PARSE_MORE: so many bytes must be there before it can help; 0: any */
    size_t swallow; /* PARSE_REPLY: drop so many bytes behind *used as they come */
};

/*
 * Read one command at the front of buf. The result does not depend on how the input is cut.
 *
 *   PARSE_OK     user and password are set; both have at least one byte
 *   PARSE_MORE   not all there
 *   PARSE_REPLY  answer *reply and drop *used bytes
 *   PARSE_CLOSE  close without a word
 *
 * Context: any thread.
 */
enum parse_status text_auth_parse(const char *buf, size_t len, struct text_auth *auth,
                                  size_t *used, enum reply *reply);

#endif
