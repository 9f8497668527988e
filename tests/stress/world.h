/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of a stress test: an engine, one worker thread for each shard that serves requests
 * and does the background work of its shard as in the daemon, readers, a thread that moves
 * slots, and the main thread, which moves the clock, flushes, changes the limit, walks and
 * verifies. Workers flush prefixes as well.
 *
 * Most keys have one owner: the only worker that writes them, and so knows which must be
 * present. The clock is frozen, and the main thread moves it: nothing depends on the speed of
 * the machine.
 *
 * In a scenario with few items a segment, wild phases and calm ones follow each other. What the
 * cursor sifts is what is nearly all alive, so in a calm phase little dies but by overwrites
 * and evictions.
 */
#ifndef MAYFLY_TESTS_STRESS_WORLD_H
#define MAYFLY_TESTS_STRESS_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/engine/engine.h"
#include "lib/expiry/cycle.h"
#include "lib/shard/value.h"
#include "tests/common/rng.h"
#include "tests/stress/content.h"

#define WORKERS_MAX 16u
#define PINS_HELD   4u

/* The parameters of a run. */
struct scenario {
    const char *name;
    uint32_t shards;     /* and workers */
    uint32_t shards_max; /* their number changes between 1 and that; 0: it does not */
    uint32_t readers;    /* threads that only read */
    uint64_t limit_bytes;
    uint64_t item_size_max;
    uint64_t seed;
    double seconds;
    uint32_t large_bytes_max;  /* of ordinary large values */
    uint32_t value_bytes;      /* of most other values: segments are sifted; 0: all are small */
    uint32_t keys[KIND_COUNT]; /* of each owner; shared kinds: in all */
    bool evicts;               /* the limit is so small that any key may be missing */
    bool flushes;
    bool moves_slots;
    uint32_t mover_rest_us; /* between two moves */
    bool changes_limit;
    uint64_t ring_bytes; /* size of the rings that feed a mirror; 0: no mirror */
    bool follows;        /* and a replica follows */
};

/* What the owner of a key knows about it. */
struct own {
    bool is_present;
    bool is_unsure;        /* a store failed half way: present or absent, both are right */
    bool is_stale, is_won; /* the marks it has, while it is present */
    uint32_t len;
    uint64_t version; /* of the last store tried; KIND_NUMBER: the number */
    uint64_t held;    /* the version that is present */
    uint64_t cas;
    msec_t deadline;
    uint32_t lap; /* KIND_LOG */
    int32_t first, last;
    uint64_t flushes_done_before; /* world.flush_done when the last store began */
    uint64_t flushes_begun_after; /* world.flush_begun when it had returned */
    uint64_t prefixes_done_before, prefixes_begun_after; /* likewise: any_done, all_begun */
    msec_t began, ended;                                 /* the clock then */
};

/* What a thread counted: plain numbers, read while it rests. */
struct tally {
    uint64_t gets, hits, misses, stores, waits, no_memory, deletes, ariths, touches, erases,
        bodies, aborts, pins, slices, graces, placed;
};

/*
 * Flushes of prefixes, for the keys of a kind and an owner whose numbers have the same first
 * digit: those that any of these keys has, and those that all have.
 */
struct prefix_count {
    _Atomic uint64_t any_begun, any_done;
    _Atomic uint64_t all_begun, all_done; /* none that failed */
};

struct held_pin {
    struct value_pin pin;
    struct value_walk walk;
    uint32_t id;
    size_t whole; /* bytes of the value */
    size_t len;   /* of them before the tail, which is copied at once */
    size_t done;  /* number read */
    char *copy;   /* of the value */
    bool is_held;
};

struct world;

struct worker {
    /* [const] */
    struct world *world;
    uint32_t id;  /* readers come after the workers */
    bool is_home; /* also the number of its shard */
    pthread_t thread;
    struct own *own[KIND_COUNT];
    uint64_t *seen[KIND_COUNT]; /* highest version met, by owner and index */
    char *scratch;              /* of world.scratch_bytes */
    char *scratch2;
    /* [worker] */
    struct rng rng;
    struct heat_user heat;
    struct tally tally;
    struct cycle_config expire;
    msec_t next_tick;
    bool is_cycling;
    bool is_growing; /* KIND_CHURN: filling or emptying */
    uint32_t churn_at;
    uint64_t turns;
    uint64_t shared_sum[256];   /* what it added to each shared number */
    int32_t shared_next[256];   /* records it appended to each shared log */
    uint64_t shared_swaps[256]; /* cas that it won on each shared value */
    struct held_pin pins[PINS_HELD];
    char padding[64];
};

struct world {
    /* [const] */
    const struct scenario *scenario;
    struct engine_options options;
    struct engine engine;
    size_t scratch_bytes;
    uint32_t worker_count; /* with a home shard */
    uint32_t thread_count; /* workers and readers */
    struct worker *workers;
    pthread_t mover;
    struct mirror *mirror;
    struct follower *follower;
    pthread_barrier_t barrier; /* all threads and main meet twice in a pause */
    /* [atomic] */
    _Atomic bool is_pausing, is_stopping;
    _Atomic bool mover_shall_pause, mover_pauses;
    _Atomic bool is_calm, has_rested;         /* set by worker 0, where segments are sifted */
    _Atomic uint64_t flush_begun, flush_done; /* immediate flushes */
    struct prefix_count prefixes[KIND_COUNT][WORKERS_MAX + 1][10]; /* the last: of no owner */
    _Atomic uint64_t prefixes_flushed;
    struct {
        _Atomic msec_t maybe_at; /* the newest delayed flush, which the engine may know */
        _Atomic msec_t sure_at;  /* and which it surely knows */
        _Atomic msec_t past_at;  /* the previous one, whose instant has passed */
    } delayed;
    _Atomic uint64_t slots_moved;
};

/* Print what went wrong, where and how to run it again, then abort. Context: any thread. */
_Noreturn void stress_fail(const struct world *w, uint32_t key, const char *fmt, ...)
    MF_PRINTF(3, 4);

/* In a calm phase, is this one of the many requests that should do no harm? */
static inline bool world_spares(const struct world *w, struct rng *rng)
{
    return atomic_load_explicit(&w->is_calm, memory_order_relaxed) && rng_below(rng, 32) != 0;
}

/*
 * Run a scenario; returns when all is verified and released, aborts on the first
 * contradiction. Context: main.
 */
void world_run(const struct scenario *scenario);

/* Seconds from MAYFLY_STRESS_SECONDS, 3 by default. Context: main. */
double stress_seconds(void);

/*
 * Some work of a client; one call is one request or one batch. client.c. Context: that
 * worker.
 */
void client_turn(struct worker *w);
void client_read_turn(struct worker *w);

/*
 * Store the keys that exist from the start and the keys without an owner. Context: main,
 * registered.
 */
void client_setup(struct worker *w);

/* Unpin all held values. Context: that worker. */
void client_rest(struct worker *w);

/*
 * Flush a prefix that many keys have, or few, or none. Context: registered thread, outside a
 * section.
 */
void client_flush_prefix(struct world *world, struct rng *rng);

/* Flushes of prefixes of this key. */
struct prefix_count *client_prefixes(struct world *world, uint32_t id);

/*
 * While no other thread works: what all threads counted must be what is stored, and a walk must
 * meet every key that must be present. Context: main, registered.
 */
void client_audit(struct world *world);

/* The background duties of a worker, as the daemon's cron does them. Context: that worker. */
void worker_duties(struct worker *w);

#endif
