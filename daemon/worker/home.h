/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The background work of one shard, on the thread of its home worker. Worker n is the home
 * worker of the shards n, n + workers, n + 2 workers, ...: of one shard, or of several if there
 * are more shards than workers (shards.h, roster.h), or of none if there are fewer. There are
 * three kinds of work:
 *
 * Expiry. The tick timer is armed for the moment when the shard's next item falls due, or for
 * when a cycle may begin if that is later. It begins a slow cycle if 1/hz has passed since the
 * last one began; otherwise the hook before the loop blocks begins a fast one. A cycle is a
 * series of slices; between two of them the loop serves its sockets and does not block.
 *
 * Upkeep. When the shard says that it wants work (resizing, room, a delayed flush), a slice of
 * it runs after each turn. For work that waits for a grace period, a timer checks again; its
 * interval doubles from 1 ms while nothing moves.
 *
 * Tidying. When the shard has many dead bytes, a timer checks whether they are about to be
 * reused (shard_tidy()). If not, slices of cleaning run between turns, like those of expiry,
 * until their common share of the CPU is spent.
 *
 * A writer on another worker may bring a deadline nearer, or leave work, while the home worker
 * sleeps. The shard notices when that changes, and wakes its home worker (shard_wake_home()).
 */
#ifndef MAYFLY_DAEMON_WORKER_HOME_H
#define MAYFLY_DAEMON_WORKER_HOME_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/mailbox.h"
#include "lib/base/clock.h"
#include "lib/expiry/cycle.h"

struct shard;
struct worker;

struct home {
    struct message message; /* must be first; on its way to another worker */
    /* [const] while it is at one worker */
    struct worker *worker; /* [borrowed] */
    struct shard *shard;   /* [borrowed] */
    uint32_t number;       /* of the shard */
    uint32_t closing;      /* timers that the loop has not released yet, while it leaves */
    /* [worker] */
    uv_timer_t tick;       /* expiry */
    uv_timer_t retry;      /* upkeep that waits for a grace period */
    uv_timer_t tidy;       /* the next check of dead bytes */
    uint64_t tick_at;      /* loop milliseconds that tick is armed for; 0: not armed */
    msec_t due_seen;       /* what fell due next when it was armed */
    uint64_t slow_at;      /* loop milliseconds at which the last slow cycle began; 0: never */
    uint64_t checked_seen; /* the shard's expire_checked when the running cycle began */
    enum cycle_kind kind;  /* of the running cycle */
    bool is_cycling;       /* a cycle runs and wants another slice */
    bool is_stuck;         /* the last cycle found nothing to do, although there is debt */
    bool is_tidying;       /* more should be cleaned at once */
    bool has_upkeep;       /* the shard wants more upkeep at once */
    unsigned retry_ms;     /* next interval of retry */
};

/* Zeroed before. Context: before the worker starts. */
void home_init(struct home *h, struct worker *w, struct shard *s);

/*
 * Make its timers, and close them; the struct must last until the loop has let go of them.
 * Context: worker.
 */
void home_start(struct home *h);
void home_stop(struct home *h);

/*
 * The same, and when the loop has released the timers, post it to another worker, where fn gets
 * it and continues the work in progress. Meanwhile the shard has no home. Context: worker.
 */
void home_leave(struct home *h, struct worker *to,
                void (*fn)(struct message *m, void *receiver));

/*
 * home_after_events(): after each turn of the loop, one slice of the work in progress. False:
 * there was nothing to do. home_put_off(): called instead if the worker has done enough for
 * another shard in this turn; only notes whether there is work. Context: worker.
 */
bool home_after_events(struct home *h);
void home_put_off(struct home *h);

/*
 * Before the loop blocks: a fast cycle when there is debt. True: there is more to do at once.
 * If there is nothing anywhere, home_arm() sets the timer for what comes next. Context: worker.
 */
bool home_before_block(struct home *h);
void home_arm(struct home *h);

/* Something that it sleeps on has changed. Context: worker. */
void home_poked(struct home *h);

#endif
