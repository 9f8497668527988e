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
#include <stdint.h>
#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "daemon/net/tls_session.h"
#include "daemon/worker/balance.h"
#include "daemon/worker/holders.h"
#include "daemon/worker/home.h"
#include "daemon/worker/pulse.h"
#include "daemon/worker/roster.h"
#include "daemon/worker/tasks.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/thread.h"
#include "lib/engine/engine.h"
#include "lib/memory/line.h"

struct byte_ring;
struct client;
struct conns;
struct crew;
struct cron;
struct detail_table;
struct hotkeys;
struct latency;
struct settings;
struct stats_sizes;
struct watcher;

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
 * Times of a stopping worker, in milliseconds. It executes what was received until the first.
 * Clients can take what is queued for them until the second. The third is the interval at which
 * it checks its connections.
 */
#define WORKER_ANSWER_MS      500u
#define WORKER_DRAIN_MS       1500u
#define WORKER_DRAIN_CHECK_MS 25u

/*
 * If another program takes over, clients wait for that. Then a client is waited for only while
 * it has sent or taken something in the last WORKER_STALL_MS milliseconds.
 */
#define WORKER_STALL_MS 300u

/* What a worker measures of the requests that it serves; see insight.h. */
struct insight {
    struct latency *latency; /* [const] owned; the words in it are atomic */
    /* [worker] */
    struct hotkeys *hotkeys; /* owned; NULL until first used */
    uint32_t sampling;       /* one of this many accesses is sampled for hot keys */
    uint32_t sample_left;    /* accesses up to the next one that is */
    uint64_t random;         /* state of what draws these distances */
    uint32_t on;             /* what is measured, in this turn of the loop */
    uint64_t slow_ns;        /* requests that take as long are slow, if that is asked for */
    /* When its first event came; 0: none has; not 0 while nothing is on. */
    uint64_t readable_ns;
};

enum worker_phase {
    WORKER_SERVING,
    WORKER_DRAINING,  /* what was received is answered */
    WORKER_FINISHING, /* connections finish the reply that was begun */
    WORKER_OVERDUE,   /* the time for that is over: connections are closed at once */
    WORKER_DRAINED,   /* no connection is left; messages of other workers are still answered */
    WORKER_ENDING,    /* every worker is drained: handles are being closed */
};

/* What it does before its loop blocks, a bit each. */
enum worker_deals {
    DEALS_OUT = 1 << 0,     /* it may have something to give away: roster.h */
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
    uv_sem_t drained; /* posted once: the last connection is gone */

    /* [worker] */
    uv_loop_t loop;
    uv_prepare_t before_block;
    uv_check_t after_events;
    uv_idle_t no_block; /* active while there is work that must not wait for an event */
    uv_timer_t drain_timer;
    uv_timer_t deal_rest; /* active while it has something to give away, and rests */
    struct cron *cron;
    struct home **homes;         /* owned; the shards that it is at home in (home.h) */
    uint32_t home_count;         /* how many of them; perhaps none */
    struct stats_sizes *sizes;   /* walk of stats sizes; NULL: nobody asks; owned */
    struct detail_table *detail; /* of stats detail; NULL until first used */
    char *rbuf;                  /* what a turn reads lands here first */
    char *obuf;                  /* replies of a turn are composed here */
    struct tls_worker tls;       /* shared by its TLS sessions */
    struct conns *conns;         /* owned: its connections and where they wait */
    uint32_t conn_count;
    struct holders holders;    /* what its connections keep */
    struct watcher *watchers;  /* list of those of its connections that watch */
    uint32_t loop_units;       /* of work for connections, in this turn of the loop */
    uint32_t adopted_count;    /* connections that began in this turn of the loop */
    uint32_t deferred_batches; /* of accepted sockets, until the next one */
    uint32_t ready_count;      /* connections that wait for their next turn */
    /* For appends that copy: one at a time has a place in the line for segments. */
    struct waiter copy_waiter;
    struct client *copy_owner; /* [borrowed] whose append it is; NULL: none waits */
    uint32_t whole_count;      /* long answers of statistics that are composed as a whole */
    struct tasks tasks;        /* work that is more than a request's */
    uint64_t hold_ticket;      /* the newest that was drawn for replies that wait for the log */
    uint64_t changes_seen;     /* changes_made() when a reply was last looked at */
    uint32_t later_count;      /* answers begun here that other workers still contribute to */
    msec_t now;                /* of the turn that runs */
    struct heat_user heat;     /* notes hits */
    struct insight insight;
    uint64_t grace_mark;  /* bytes_read when a grace period was last tried */
    uint32_t grace_step;  /* bytes to be read until the next try */
    uint8_t deals;        /* enum worker_deals: what it does before the loop blocks */
    uint32_t doubts;      /* crew->doubts, when it was last told of them */
    uint32_t farewells;   /* the same */
    bool is_stopping;     /* draining: what was received is answered, nothing new is read */
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
 * Taking workers down has four steps, each done for all workers before the next: ask to drain
 * and wait until that is done (bounded by WORKER_DRAIN_MS), let the loop end, wait for the
 * thread, release. While one drains, the others still answer its messages. A poster may be
 * about to send the wake-up for a message that the worker has taken already, so loops are
 * closed only when all threads have ended. Context: main.
 */
void worker_stop(struct worker *w);
void worker_hurry(struct worker *w); /* the time to drain is over; at most once */
void worker_wait_drained(struct worker *w);
void worker_end(struct worker *w);
void worker_join(struct worker *w);
void worker_release(struct worker *w);

/*
 * Make a worker check its home shards soon, because another worker left work there. Pokes
 * coalesce; if one is on its way already, another costs one load. Context: any thread.
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

#endif
