/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is answered when a request cannot be executed, and every other fixed reply: from
 * the table replies.def, REPLY(name, text), in memcached's words.
 */
#ifndef MAYFLY_PROTO_RESPONSE_H
#define MAYFLY_PROTO_RESPONSE_H

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

#endif
