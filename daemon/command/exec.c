/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the handlers of requests have in common. Runs on the worker of the connection, inside
 * the read-side section of the turn.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/worker/worker.h"
#include "lib/base/counters.h"

/* Times up to this many seconds are counted from now, later ones are unix time. */
#define RELATIVE_MAX_S (60 * 60 * 24 * 30)

/*
 * Clocks are cut down to milliseconds: a request that came late in one would see its item go up
 * to a millisecond early. One is added, so that nothing is dropped before its time.
 */
#define ROUNDING_MS 1

msec_t exec_deadline(const struct worker *w, int64_t exptime, msec_t now)
{
    int64_t unix_ms;
    msec_t deadline;

    if (exptime == 0) {
        return MSEC_NEVER;
    }
    if (exptime < 0) {
        return now;
    }
    if (exptime <= RELATIVE_MAX_S) {
        return now + ROUNDING_MS + exptime * 1000;
    }
    if (__builtin_mul_overflow(exptime, 1000, &unix_ms)) {
        return MSEC_NEVER;
    }
    unix_ms -= clock_unix_ms(&w->engine->clock);
    if (unix_ms <= 0) {
        return now;
    }
    if (__builtin_add_overflow(now + ROUNDING_MS, unix_ms, &deadline)) {
        return MSEC_NEVER;
    }
    return deadline;
}

void exec_tally(struct turn *t)
{
    struct counters *c = &t->w->counters;

    if (t->tally.stores > 0) {
        ctr_add(c, CTR_cmd_set, t->tally.stores);
    }
    ctr_add(c, CTR_cmd_get, t->tally.gets);
    ctr_add(c, CTR_get_hits, t->tally.hits);
    if (t->tally.misses > 0) {
        ctr_add(c, CTR_get_misses, t->tally.misses);
        ctr_add(c, CTR_get_expired, t->tally.expired);
        ctr_add(c, CTR_get_flushed, t->tally.flushed);
    }
    memset(&t->tally, 0, sizeof(t->tally));
}
