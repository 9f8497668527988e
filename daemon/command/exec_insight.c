/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec_insight.h. Runs on the worker of the client, outside the read-side section of the
 * turn.
 */
#include "daemon/command/exec_insight.h"

#include "daemon/worker/crew.h"
#include "daemon/worker/latency.h"
#include "lib/base/context.h"
#include "proto/text_parse.h"

/* The words of a command, without a noreply at the end; more than `max` are counted as more. */
static unsigned cut(const struct request *r, struct span *word, unsigned max)
{
    struct span args = r->args;
    unsigned count = 0;
    struct span next;

    while (count <= max && text_next_key(&args, &next)) {
        if (count < max) {
            word[count] = next;
        }
        count++;
    }
    return count - (count > 0 && r->noreply && args.len == 0);
}

enum turn_stop exec_latency(struct turn *t, const struct request *r)
{
    struct span word[2];

    must_be_outside_section(t);
    if (cut(r, word, 2) != 1 || !span_is(word[0], "reset")) {
        return turn_answer(t, r, REPLY_LATENCY_USAGE);
    }
    latency_reset(t->w->crew);
    return turn_answer(t, r, REPLY_STATS_RESET);
}
