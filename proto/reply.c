/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixed replies as a table of spans, so that no caller measures a string. Constant data,
 * any thread.
 */
#include "proto/reply.h"

#include "lib/base/check.h"

static const struct span replies[REPLY_COUNT] = {
    [REPLY_NONE] = {"", 0},
#define REPLY(name, text) [REPLY_##name] = {text, sizeof(text) - 1},
#include "proto/replies.def"
#undef REPLY
};

struct span reply_text(enum reply r)
{
    must((unsigned)r < REPLY_COUNT);
    return replies[r];
}
