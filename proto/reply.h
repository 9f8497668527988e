/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixed replies of the text protocol and the meta commands, in memcached's words: the table
 * replies.def. The replies of the binary protocol are in bin_replies.def. No other file spells
 * out a reply; tests/check_replies.sh verifies that.
 */
#ifndef MAYFLY_PROTO_REPLY_H
#define MAYFLY_PROTO_REPLY_H

#include <stddef.h>

#include "lib/base/span.h"

enum reply {
    REPLY_NONE, /* nothing is sent */
#define REPLY(name, text) REPLY_##name,
#include "proto/replies.def"
#undef REPLY
    REPLY_COUNT
};

/* The bytes of a reply, line end included. Context: any thread. */
struct span reply_text(enum reply r);

/*
 * The same for code that knows which reply it sends: REPLY_BYTES(STORED), which has
 * REPLY_LEN(STORED) bytes. Compilers copy them with a move or two and no call.
 */
#define REPLY(name, text) static const char reply_bytes_##name[] = text;
#include "proto/replies.def"
#undef REPLY
#define REPLY_BYTES(name) reply_bytes_##name
#define REPLY_LEN(name)   (sizeof(reply_bytes_##name) - 1)

#endif
