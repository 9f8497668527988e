/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/engine: the storage engine as a whole. daemon/ and the tests create engines. An engine
 * has no process-wide state.
 *
 *     engine       clock, budget, reclaimer, shards: start, stop, limit, room from other shards
 *     share        how many shards a memory limit allows
 *     grow         adding a shard, while requests run
 *     router       hash -> shard
 *     moves        lets walks and moves of slots take turns
 *     flush        flushing all shards; prefix flushes the keys with a prefix
 *     guarding     loading older items beside requests
 *     attach       items that outlive the process, in a file: part of start and stop
 *     rings        the shards' records of changes, while there are readers
 *
 * Operations on items are in lib/store, the change of the number of shards in lib/reshard (its
 * state in the engine is reshard_state), copying items to a file or another server in lib/ship.
 */
#ifndef MAYFLY_LIB_ENGINE_ENGINE_H
#define MAYFLY_LIB_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/base/engine_options.h"
#include "lib/base/err.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/reclaim.h"
#include "lib/base/standby.h"
#include "lib/engine/moves.h"
#include "lib/engine/reshard_state.h"
#include "lib/engine/router.h"
#include "lib/memory/heat.h"
#include "lib/shard/changes.h"
#include "lib/shard/shard_group.h"

struct attach;
struct share_size;

/* What an engine is started with. */
struct engine_config {
    uint32_t shards;                      /* unless there are others in the file of attach */
    uint64_t limit_bytes;                 /* -m; see engine_set_limit() */
    uint64_t item_size_max;               /* -I */
    uint64_t items_hint;                  /* size the index for this many items; 0: small */
    bool is_in_cores;                     /* core files have the items: -r */
    uint64_t seed;                        /* of the key hash */
    bool has_past;                        /* clients may have cas values of earlier engines */
    uint64_t ring_bytes;                  /* of changes (ship/stream.h); 0: as the limit asks */
    int64_t hold_boot_ns;                 /* keep expired items until this clock_boot_ns() */
    bool is_passive;                      /* engine_follow_due(DUE_NOTHING) from the start on */
    struct attach *attach;                /* [borrowed] items are in its file; NULL: none */
    shard_observer_fn observer;           /* NULL: none */
    void *observer_arg;                   /* [borrowed] */
    const struct engine_options *options; /* [borrowed] read while the engine runs */
};

/* Fill in the defaults. Context: before start. */
void engine_config_init(struct engine_config *cfg);

struct shard;

/* Largest number of shards that an engine may grow to. One may be started with more. */
#define ENGINE_SHARDS_MAX 512u

struct engine {
    /* [const] */
    struct engine_config config;
    struct shard **shards; /* shard_capacity places: those below shard_count have one */
    uint32_t shard_capacity;
    struct reclaimer *reclaimer;
    uint64_t item_bytes_max;  /* longest key + value that a store takes */
    uint64_t plain_bytes_max; /* the part of that which always fits one block */
    msec_t started;           /* by the clock, which may have begun with an earlier process */
    /* [atomic] */
    _Atomic uint32_t shard_count; /* never falls (release, after the pointer): see grow.h */
    struct clock clock;
    struct budget budget;
    struct shard_group group;    /* the part of the engine that shards use */
    struct heat_rules heat;      /* how hits are counted */
    _Atomic uint32_t steal_next; /* where the next search for a full shard begins */
    msec_t lowered_at;           /* [reclaimer] last step towards a lower limit */
    /* under flush_lock: one flush, change of the limit or further shard at a time */
    pthread_mutex_t
        flush_lock;    /* shards are entered, and streams_lock taken, while it is held */
    uint64_t flush_id; /* number of flush commands */
    _Atomic uint64_t prefix_id; /* number of flushes of a prefix */
    _Atomic uint32_t prefixes;  /* number of those in group.prefixes */
    /* shared by streams (lib/ship/stream.h) */
    pthread_mutex_t streams_lock; /* only shards are entered while it is held */
    uint32_t streams;             /* under streams_lock: number of streams */
    struct changes_bell bell;
    _Atomic bool is_guarded; /* see guarding.h */
    struct moves moves;      /* walks and moves of slots take turns; nothing else is held */
    struct standby mover;    /* runs a move at a time: lib/reshard/ */
    struct reshard reshard;
    struct standby feeder; /* runs a feed at a time: ship/feed.h */
    /* [rcu] */
    struct router router;
};

/*
 * Build everything; all threads of the engine exist when this returns. With attach, items in
 * its file are taken over if they pass all checks (attach->state). MF_EINVAL when the config is
 * impossible; MF_ENOMEM; MF_ESYS, with the reason in attach->why if that is not empty. Context:
 * main, before start.
 */
enum mf_err engine_start(struct engine *e, const struct engine_config *cfg);

/*
 * Release everything. No worker may be inside, and the mover must have ended (reshard_stop()).
 * With attach, the items are left in the file for the next engine; on failure attach->why has
 * the reason. Context: main.
 */
void engine_stop(struct engine *e);

/*
 * A cas value above all values that earlier engines have drawn until this time of the wall
 * clock, in Unix milliseconds. It assumes that none has drawn more than 65 million values a
 * second. Context: any thread.
 */
static inline uint64_t engine_cas_past(int64_t unix_ms)
{
    const uint64_t max_ms = ITEM_CAS_DRAWN_MAX >> 16;

    return ((uint64_t)unix_ms < max_ms ? (uint64_t)unix_ms : max_ms) << 16;
}

/* Hash of a key. Context: any thread. */
static inline uint64_t engine_hash(const struct engine *e, const void *key, size_t len)
{
    return hash_key(e->config.seed, key, len);
}

/* Values up to this many bytes are stored from one span; larger ones may come as a body. */
#define ENGINE_SMALL_MAX                                                                       \
    (ITEM_SIZE_MAX * ITEM_UNIT - sizeof(struct item) - ITEM_TTL_BYTES - ITEM_WIDE_BYTES -      \
     ITEM_KEY_MAX)

/*
 * Total size of the shards' address ranges, in bytes: the largest limit that engine_set_limit()
 * accepts. Less than the limit if the address space of the process is limited. Context: any
 * thread.
 */
uint64_t engine_range(const struct engine *e);

/* What the limit of an engine that takes over its items has to suit. Context: any thread. */
struct share_size engine_size(const struct engine *e);

/*
 * Can this engine, with this number of shards, work with a limit in bytes? Context: any thread.
 */
bool engine_bears(const struct engine *e, uint32_t shards, uint64_t limit_bytes);

/*
 * The smallest and the largest number of shards with which this engine can work with a limit in
 * bytes. *most < *least: no number of shards suits this limit. Context: any thread.
 */
void engine_shard_bounds(const struct engine *e, uint64_t limit_bytes, uint32_t *least,
                         uint32_t *most);

/*
 * Number of items that the indexes are sized for at the start: items_hint, or fewer if the
 * limit does not allow that; 0: no hint. Context: any thread.
 */
uint64_t engine_items_hint(const struct engine *e);

/*
 * Change the memory limit (-m). False when the engine cannot work with it; nothing changes
 * then. Context: worker or main, outside a shard.
 */
bool engine_set_limit(struct engine *e, uint64_t limit_bytes);

/*
 * If anything waits for a grace period, try to complete one without waiting. False when that
 * failed. Context: worker, outside a section and a shard.
 */
bool engine_try_grace(struct engine *e);

/*
 * Call after an option of the engine has changed: wakes threads of the engine that computed
 * their sleep from the old value, and counts hits by the new options. Context: any thread, one
 * change at a time.
 */
void engine_options_changed(struct engine *e);

/*
 * Make this engine passive: it follows a primary, which decides when due items are removed.
 * Only items with a deadline at or before `due`, a time of this engine's clock, may be unlinked
 * as expired. Those with a later one stay, but are invisible once the clock has passed their
 * deadline. shard_due_now() describes the exceptions. A `due` after the present counts as the
 * present. A `due` before the previous one is ignored, except DUE_NOTHING, after which the next
 * one may be any time. MSEC_NEVER: the engine is no longer passive, and all due items may be
 * removed. When this returns, no thread unlinks by the previous value any more, and the home
 * workers of shards with due items have been woken. It enters every shard once. Context: any
 * one thread at a time, outside a shard.
 */
void engine_follow_due(struct engine *e, msec_t due);

/*
 * Is the engine passive? Then reads change only heat and last access of items, and evictions
 * also count as repl_evicted. Context: any thread.
 */
static inline bool engine_is_passive(const struct engine *e)
{
    return atomic_load_explicit(&e->group.due_limit, memory_order_relaxed) != MSEC_NEVER;
}

/*
 * From now on draw cas values above `past`, and above all values that earlier engines can have
 * drawn (engine_cas_past()). Context: any thread, outside a shard.
 */
void engine_raise_cas(struct engine *e, uint64_t past);

/*
 * Keep expired items, those that have expired already included, until this time; see
 * shard_due_now(). The present time ends the hold. The caller must wake workers that sleep
 * until an item is due. Context: any thread.
 */
void engine_hold_expired(struct engine *e, msec_t until);

/* Remaining time of that hold in milliseconds; 0: there is none. Context: any thread. */
msec_t engine_hold_left(const struct engine *e, msec_t now);

/* Hold the sampler (tests, forensics): nothing is expired actively. Context: any thread. */
void engine_hold_sampler(struct engine *e, bool held);

/*
 * From now on the observer is notified of these kinds of events (1 << enum shard_event_kind).
 * Context: any thread.
 */
void engine_observe(struct engine *e, uint32_t kinds);

/*
 * Set the function that wakes the home worker of a shard when another thread has added work for
 * it. NULL: none; when that returns, no call of the previous function is running any more. arg
 * is [borrowed] until then. Context: main, outside a shard.
 */
void engine_wake_homes(struct engine *e, shard_wake_fn wake, void *arg);

/* ---- room from other shards -------------------------------------------------------------- */

enum steal {
    STEAL_NOTHING, /* no sampled shard has clearly more */
    STEAL_LATER,   /* memory of another waits for a grace period: retry in 1 ms */
    STEAL_DONE,    /* the budget has room again */
};

/*
 * Make room for a shard that cannot make room itself. A few other shards are sampled, the next
 * ones in each call. One of them releases unused memory, or else the fullest evicts. Context:
 * outside a shard.
 */
enum steal engine_steal(struct engine *e, struct shard *needy);

/*
 * With a policy that evicts only items with a deadline: true if no shard has such an item, and
 * none has memory that is about to become free. Then a store need not wait for room. Visits
 * every shard, so call it only before a store is refused. Does not wait for locks: a shard
 * whose lock is held counts as one that may make room. Context: outside a shard.
 */
bool engine_is_barren(struct engine *e);

/* Sum of a counter of all shards. Context: any thread. */
uint64_t engine_counter(const struct engine *e, enum counter id);

/* Items that were stored, deleted or flushed since the start. Context: any thread. */
uint64_t engine_changes(const struct engine *e);

#endif
