/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `moves`, which answers like `stats moves`, and `moves cancel`: no further slots move to other
 * shards, and those in transit arrive. See daemon/worker/crew.h.
 */
#include "daemon/command/exec.h"

#include "daemon/worker/crew.h"
#include "lib/reshard/reshard.h"

static enum turn_stop cancel(struct turn *t, const struct request *r)
{
    struct crew *crew = t->w->crew;
    struct moving_info info;

    if (t->client == NULL || (t->client->rights & RIGHT_CONFIG) == 0) {
        return turn_answer(t, r, REPLY_CONFIG_DENIED);
    }
    moving_look(crew, &info);
    if (!info.is_under_way) {
        return turn_answer(t, r, REPLY_NOT_FOUND);
    }
    return turn_answer(t, r,
                       engine_cancel_shards(&crew->engine) ? REPLY_OK : REPLY_MOVES_LIMIT);
}

enum turn_stop exec_moves(struct turn *t, const struct request *r)
{
    struct request as_stats = *r;

    if (span_is(r->args, "cancel")) {
        return cancel(t, r);
    }
    if (r->args.len != 0) {
        return turn_answer(t, r, REPLY_MOVES_USAGE);
    }
    as_stats.command = CMD_STATS;
    as_stats.args = span_str("moves");
    return exec_stats(t, &as_stats);
}
