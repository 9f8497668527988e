/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's tasks besides requests: slices of active expiry and upkeep of its home shards
 * between turns of the loop, and the check of connections that have waited long. An idle worker
 * has no timer armed and does not wake up.
 */
#ifndef MAYFLY_DAEMON_WORKER_CRON_H
#define MAYFLY_DAEMON_WORKER_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/expiry/cycle.h"

struct message;
struct worker;

/* Make the worker's cron. Returns 0 or a libuv error. Context: worker, before its loop runs. */
int cron_start(struct worker *w);

/* Close its handles; cron_destroy() once the loop has let go of them. Context: worker. */
void cron_stop(struct worker *w);
void cron_destroy(struct worker *w);

/*
 * The two hooks of a turn. cron_after_events(): one slice of the work in progress.
 * cron_before_block(): a fast cycle when there is debt, and timers for later work; true when
 * there is more to do at once, so that the loop must not block. Context: worker.
 */
void cron_after_events(struct worker *w);
bool cron_before_block(struct worker *w);

/*
 * The worker is parked: stop all timers. Code that needs a timer sets it again. Context:
 * worker.
 */
void cron_rest(struct worker *w);

/*
 * Move homes that belong to another worker by now (roster.h). Context: worker, before the loop
 * blocks.
 */
void cron_give_homes(struct worker *w);

/*
 * The function of a message that brings a home (home.h). roster_may_go() has counted it as on
 * its way to this worker. Context: worker.
 */
void cron_on_home(struct message *m, void *receiver);

/*
 * Something this worker sleeps on has changed: its shard, the clock, a live option. Context:
 * worker.
 */
void cron_poked(struct worker *w);

enum cron_timer {
    CRON_STORES,    /* try all stores again that wait for room */
    CRON_DEADLINES, /* check handshakes and logins for those that take too long */
    CRON_PACE,      /* check for clients that are too slow */
    CRON_IDLE,      /* check for idle connections */
    CRON_TIMERS
};

/* Do that in this many milliseconds, once; an earlier request stays. Context: worker. */
void cron_in(struct worker *w, enum cron_timer which, uint64_t ms);

/*
 * Background ticks a second at present: settings.hz, doubled while there are many clients
 * (dynamic_hz). Context: any thread.
 */
uint32_t cron_hz(const struct worker *w);

/* The present settings of expiry. Context: any thread. */
void cron_expire_config(const struct worker *w, struct cycle_config *cfg);

#endif
