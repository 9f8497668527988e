/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats moves`: workers, connections and items that are on the move.
 */
#include "daemon/stats/stats_general.h"

#include "daemon/worker/crew.h"
#include "daemon/worker/moving.h"
#include "lib/base/context.h"

#define PUT_U64  stats_put_u64
#define PUT_I64  stats_put_i64
#define PUT_TEXT stats_put_text

void stats_moves(struct worker *w, struct stats_out *o)
{
    struct moving_info info;
    const struct moving_info *i = &info;

    must_be_worker(w);
    moving_look(w->crew, &info);
#define MOVES(name, unit, form, shown, kind, sample, help) PUT_##form(o, name, shown);
#include "daemon/base/moves.def"
}
