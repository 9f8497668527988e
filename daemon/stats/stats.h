/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats` and its sub-commands.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_H
#define MAYFLY_DAEMON_STATS_STATS_H

#include <stdbool.h>

#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"

struct worker;

enum stats_result { STATS_DONE, STATS_LATER, STATS_NO_MEMORY };

/*
 * Called once, on the worker that asked, when an answer that was STATS_LATER is complete; out
 * is the caller's again.
 */
typedef void (*stats_done_fn)(void *arg, struct buf *out);

/*
 * Answer `stats <args>`: appends the whole reply with its last line (END, RESET, OK or an
 * error) to out. STATS_LATER: other workers have to be asked (conns, sizes, detail); out and
 * done are kept until done is called; the caller reads nothing more from that client meanwhile.
 * Context: worker, outside a read-side section.
 */
enum stats_result stats_command(struct worker *w, struct span args, struct buf *out,
                                stats_done_fn done, void *arg);

/*
 * stats detail: count by key prefix while it is on. One relaxed load when off. Context: worker.
 */
enum stats_detail_op {
    STATS_DETAIL_GET_HIT,
    STATS_DETAIL_GET_MISS,
    STATS_DETAIL_SET,
    STATS_DETAIL_DELETE
};
static inline bool stats_detail_is_on(const struct worker *w)
{
    return setting_get(w->settings, detail_enabled);
}

void stats_detail_count(struct worker *w, enum stats_detail_op op, const char *key,
                        size_t key_len);

#endif
