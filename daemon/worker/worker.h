/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: one thread, one libuv loop, its timers, its connections, and the background work of
 * its home shards.
 */
#ifndef MAYFLY_DAEMON_WORKER_WORKER_H
#define MAYFLY_DAEMON_WORKER_WORKER_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "daemon/net/tls_session.h"
#include "daemon/worker/balance.h"
#include "daemon/worker/holders.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"
#include "lib/expiry/cycle.h"
#include "lib/memory/line.h"

struct crew;
struct task;

/* ---- pulse.c ----------------------------------------------------------------------------- */

/*
 * Watchdog of the workers' loops. Each worker is sent a message and answers when it processes
 * it. A worker that is stuck in a turn does not answer.
 */

/* Of one worker. */
struct pulse {
    struct message message;
    _Atomic usec_t asked_us; /* [atomic] by the monotonic clock; 0: nothing is unanswered */
};

/* Context: the worker's, before it is shared. */
void pulse_init(struct pulse *p);

/*
 * Ask every worker that is not parked and does not owe an answer already. Context: any thread,
 * while workers run.
 */
void pulse_ask(struct crew *crew);

/*
 * The time that the slowest worker has taken to answer until now, in microseconds; 0: all have
 * answered. Context: any thread, while workers run.
 */
usec_t pulse_delay_us(const struct crew *crew);

/* ---- tasks.c ----------------------------------------------------------------------------- */

/*
 * Work on a worker that takes longer than a request: dumps, walks over all items, statistics.
 * It is done in slices. All tasks of a worker share one time budget per turn of the loop, so
 * the delay of other clients does not depend on the number of tasks. Tasks that find the budget
 * used up wait in a FIFO list.
 */

/* Run one slice; call task_add() again if work is left. Context: worker. */
typedef void (*task_fn)(struct task *task, struct worker *w);

/* Embedded in the object that has the task. */
struct task {
    task_fn run;
    struct list_link link; /* in the list of those that wait */
};

/* Those of a worker. [worker] */
struct tasks {
    struct list waiting; /* for a slice, the oldest first */
    usec_t spent_us;     /* in this turn of the loop, outside of tasks_run() */
    usec_t slice_begin;  /* of the slice that runs */
    usec_t slice_end;
    bool is_running; /* tasks_run() runs one */
    bool is_fresh;   /* and nothing was done in its slice yet */
};

/* Does it wait for a slice? */
static inline bool task_is_waiting(const struct task *task)
{
    return list_has_link(&task->link);
}

/* Queue for a slice; nothing happens if the task is queued already. Context: worker. */
void task_add(struct worker *w, struct task *task);

/* Leave the queue; nothing happens if the task is not in it. Context: worker. */
void task_remove(const struct worker *w, struct task *task);

/*
 * May such work be done now? Within a task's slice: yes, until the slice ends. Otherwise: if no
 * task waits and the budget of this turn of the loop is not used up. True starts a slice, which
 * tasks_end_slice() ends. False: queue a task instead. Context: worker.
 */
bool tasks_begin_slice(struct worker *w);

/* Context: worker. */
void tasks_end_slice(struct worker *w);

/* Is the time of the running slice used up? Reads the clock. Context: worker. */
bool tasks_slice_is_over(const struct worker *w);

/*
 * Run waiting tasks within the remaining budget, at least one of them. Context: worker, outside
 * a section.
 */
void tasks_run(struct worker *w);

/* ---- worker.c ---------------------------------------------------------------------------- */

#define WORKER_MAGIC 0x776f726bu

/* Bytes of the shared buffers of a worker. */
#define WORKER_RBUF_BYTES (256u * 1024)
#define WORKER_OBUF_BYTES (128u * 1024)

/*
 * A grace period is tried after the first number of bytes read. If another worker was inside a
 * section, it is retried after the second.
 */
#define WORKER_GRACE_STEP_BYTES  (512u << 10)
#define WORKER_GRACE_AGAIN_BYTES (128u << 10)

/*
 * Times of a stopping worker, in milliseconds. Until the first it executes received requests.
 * Until the second clients can read queued replies. The third is the interval at which it
 * checks its connections.
 */
#define WORKER_ANSWER_MS      500u
#define WORKER_DRAIN_MS       1500u
#define WORKER_DRAIN_CHECK_MS 25u

/*
 * During an upgrade all clients wait until connections are passed on. So a client in the
 * middle of a request is waited for only if it has sent or taken something in the last
 * WORKER_STALL_MS milliseconds.
 */
#define WORKER_STALL_MS 300u

/* A worker's measurements of its requests; see insight.h. */
struct insight {
    struct latency *latency; /* [const] owned; the words in it are atomic */
    /* [worker] */
    struct hotkeys *hotkeys; /* owned; NULL until first used */
    uint32_t sampling;       /* one of this many accesses is sampled for hot keys */
    uint32_t sample_left;    /* accesses up to the next one that is */
    uint64_t random;         /* state of the generator of these distances */
    uint32_t on;             /* the measurements enabled in this turn of the loop */
    uint64_t slow_ns;        /* requests that take this long are slow, if the slow log is on */
    /* Time of the first event of this turn; 0: none came. Not 0 while nothing is measured. */
    uint64_t readable_ns;
};

enum worker_phase {
    WORKER_SERVING,
    WORKER_DRAINING,  /* received requests are answered */
    WORKER_FINISHING, /* connections finish sending their current reply */
    WORKER_OVERDUE,   /* the time for that has passed: connections are closed at once */
    WORKER_DRAINED,   /* no connection is left; messages of other workers are still answered */
    WORKER_ENDING,    /* every worker is drained: handles are being closed */
};

/* Work of a worker before its loop blocks, one bit each. */
enum worker_deals {
    DEALS_OUT = 1 << 0,     /* it may have objects to move to other workers: roster.h */
    DEALS_WEIGHED = 1 << 1, /* the work of its connections is added up: balance.h */
};

struct worker {
    /* [const] */
    uint32_t magic;
    uint32_t id;
    struct crew *crew;               /* [borrowed] */
    struct engine *engine;           /* [borrowed] */
    const struct settings *settings; /* [borrowed] */
    uint32_t gate;                   /* [worker] enum gate_bits, in this turn */
    struct thread thread;
    uv_sem_t drained; /* posted once: the last connection was closed */

    /* [worker] */
    uv_loop_t loop;
    uv_prepare_t before_block;
    uv_check_t after_events;
    uv_idle_t no_block; /* active while there is work that must not wait for an event */
    uv_timer_t drain_timer;
    uv_timer_t deal_rest; /* active while it pauses between moves of objects */
    struct cron *cron;
    struct home **homes;         /* owned; the shards that it is at home in (home.c) */
    uint32_t home_count;         /* how many of them; perhaps none */
    struct stats_sizes *sizes;   /* walk of stats sizes; NULL: none; owned */
    struct detail_table *detail; /* of stats detail; NULL until first used */
    char *rbuf;                  /* read buffer of turns */
    char *obuf;                  /* replies of a turn are composed here */
    struct tls_worker tls;       /* shared by its TLS sessions */
    struct conns *conns;         /* owned: its connections and where they wait */
    uint32_t conn_count;
    struct holders holders;    /* memory that its connections keep */
    struct watcher *watchers;  /* list of those of its connections that watch */
    uint32_t loop_units;       /* of work for connections, in this turn of the loop */
    uint32_t adopted_count;    /* connections that began in this turn of the loop */
    uint32_t deferred_batches; /* of accepted sockets, until the next one */
    uint32_t ready_count;      /* connections that wait for their next turn */
    /* For appends that copy: one at a time has a place in the line for segments. */
    struct waiter copy_waiter;
    struct client *copy_owner; /* [borrowed] whose append it is; NULL: none waits */
    uint32_t whole_count;      /* long statistics answers that are composed at once */
    struct tasks tasks;        /* work that is more than a request's */
    uint64_t hold_ticket;      /* the newest that was drawn for replies that wait for the log */
    uint64_t changes_seen;     /* changes_made() when a reply was last checked */
    uint32_t later_count;      /* answers started here that wait for other workers' parts */
    msec_t now;                /* of the turn that runs */
    struct heat_user heat;     /* notes hits */
    struct insight insight;
    uint64_t grace_mark;  /* bytes_read when a grace period was last tried */
    uint32_t grace_step;  /* bytes to be read until the next try */
    uint8_t deals;        /* enum worker_deals: work to do before the loop blocks */
    uint32_t doubts;      /* crew->doubts when it last processed them */
    uint32_t farewells;   /* the same */
    bool is_stopping;     /* draining: received requests are answered, nothing new is read */
    uint64_t drain_began; /* by the loop's clock, milliseconds */
    enum worker_phase phase;
    char note[32]; /* shown by a failed check */

    /* Posted by main and by other workers; each is in flight at most once. */
    struct message drain_message;
    struct message hurry_message;
    struct message end_message;
    struct message settle; /* see crew_settle() */
    uv_sem_t settled;      /* posted by it */
    struct notice poke;
    struct notice deal;                 /* see roster.h */
    struct notice balance;              /* see balance.h */
    struct balance_order balance_order; /* [main] until that is posted, then [worker] */
    struct notice doubt;
    struct notice farewell; /* see crew_close_clients() */
    struct notice retry;
    struct notice logged;
    _Atomic bool awaits_log; /* [atomic] seq_cst: replies wait for the log */
    struct pulse pulse;

    /* [atomic] events for watchers: made by the first watch command; owned */
    _Atomic(struct byte_ring *) watch_ring;

    /* any thread posts, the worker takes */
    alignas(64) struct mailbox mailbox;

    /* [atomic] */
    alignas(64) struct counters counters;
};

/*
 * Create a worker and start its thread; the engine runs, signals are blocked. Its resources are
 * allocated before, so the thread itself cannot fail, and the caller need not wait for it. A
 * worker that is parked from the start allocates nothing. Returns 0, or a libuv error after
 * releasing everything. Context: main.
 */
int worker_start(struct worker *w, struct crew *crew, uint32_t id);

/* Undo worker_start(), before another thread knows the worker. Context: main. */
void worker_undo(struct worker *w);

/*
 * More of the log is on the disk: wake a worker whose replies wait for it. Context: any thread.
 */
void worker_tell_logged(struct worker *w);

/*
 * Stopping workers has four steps, each done for all workers before the next: drain and wait
 * for it (bounded by WORKER_DRAIN_MS), end the loop, join the thread, release. While one
 * drains, the others still answer its messages. A sender may be about to wake a worker that has
 * processed its message already, so loops are closed only after all threads have ended.
 * Context: main.
 */
void worker_stop(struct worker *w);
void worker_hurry(struct worker *w); /* the time to drain is over; at most once */
void worker_wait_drained(struct worker *w);
void worker_end(struct worker *w);
void worker_join(struct worker *w);
void worker_release(struct worker *w);

/*
 * Make a worker check its home shards soon, because another worker left work there. Pokes
 * coalesce: while one is pending, another costs one load. Context: any thread.
 */
static inline void worker_poke(struct worker *w)
{
    if (!atomic_load(&w->poke.is_posted)) {
        notice_post(&w->poke, &w->mailbox);
    }
}

/*
 * Room was made for which a connection of the worker waits: make the worker retry. Coalesces.
 * Context: any thread, also in shard.
 */
static inline void worker_retry(struct worker *w)
{
    notice_post(&w->retry, &w->mailbox);
}

/* Read the clock for the turn that begins. Context: worker. */
static inline msec_t worker_now(struct worker *w)
{
    must_be_worker(w);
    w->now = clock_now(&w->engine->clock);
    return w->now;
}

/* ---- cron.c ------------------------------------------------------------------------------ */

/*
 * A worker's tasks besides requests: slices of active expiry and upkeep of its home shards
 * between turns of the loop, and the check of connections that have waited long. An idle worker
 * has no timer armed and does not wake up.
 */

/* Make the worker's cron. Returns 0 or a libuv error. Context: worker, before its loop runs. */
int cron_start(struct worker *w);

/* Close its handles; call cron_destroy() once the loop has released them. Context: worker. */
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
 * Move homes that now belong to another worker (roster.h). Context: worker, before the loop
 * blocks.
 */
void cron_give_homes(struct worker *w);

/*
 * The function of a message that brings a home (home.c). roster_may_go() has counted it as on
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

/* Schedule that once, in this many milliseconds, unless it is due sooner. Context: worker. */
void cron_in(struct worker *w, enum cron_timer which, uint64_t ms);

/*
 * Background ticks a second at present: settings.hz, doubled while there are many clients
 * (dynamic_hz). Context: any thread.
 */
uint32_t cron_hz(const struct worker *w);

/* The present settings of expiry. Context: any thread. */
void cron_expire_config(const struct worker *w, struct cycle_config *cfg);

/* ---- home.c ------------------------------------------------------------------------------ */

/*
 * The background work of one shard, on the thread of its home worker. Worker n is the home
 * worker of the shards n, n + workers, n + 2 workers, ...: of one shard, or of several if there
 * are more shards than workers (crew.h, roster.h), or of none if there are fewer. There are
 * three kinds of work:
 *
 * Expiry. The tick timer is armed for the time when the shard's next item becomes due, or when
 * a cycle may start, if that is later. It starts a slow cycle if 1/hz has passed since the last
 * one started; otherwise the hook before the loop blocks starts a fast one. A cycle is a series
 * of slices; between two of them the loop serves its sockets and does not block.
 *
 * Upkeep. When the shard requests work (resizing, room, a delayed flush), a slice of it runs
 * after each turn. For work that waits for a grace period, a timer checks again; its interval
 * doubles from 1 ms while there is no progress.
 *
 * Tidying. When the shard has many dead bytes, a timer checks whether they are about to be
 * reused (shard_tidy()). If not, slices of cleaning run between turns, like those of expiry,
 * until their common share of the CPU is spent.
 *
 * A writer on another worker may set an earlier deadline, or leave work, while the home worker
 * sleeps. The shard then wakes its home worker (shard_wake_home()).
 */

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
 * Create its timers, and close them; the struct must exist until the loop has released them.
 * Context: worker.
 */
void home_start(struct home *h);
void home_stop(struct home *h);

/*
 * The same, and when the loop has released the timers, post it to another worker, where fn
 * receives it and continues the work in progress. Meanwhile the shard has no home. Context:
 * worker.
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
 * Before the loop blocks: run a fast cycle if there is debt. True: there is more to do at once.
 * If no home has work, home_arm() sets the timer for the next. Context: worker.
 */
bool home_before_block(struct home *h);
void home_arm(struct home *h);

/* Something that it sleeps on has changed. Context: worker. */
void home_poked(struct home *h);

#endif
