/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data shared by the shards of an engine. The engine fills it in before it creates the first
 * shard. A shard points to it, and knows nothing else of the engine.
 */
#ifndef MAYFLY_LIB_SHARD_SHARD_GROUP_H
#define MAYFLY_LIB_SHARD_SHARD_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/engine_options.h"
#include "lib/base/mem.h"
#include "lib/base/reclaim.h"
#include "lib/memory/arena.h"
#include "lib/memory/item.h"

struct prefixes;
struct shard;

/* A due_limit before every deadline: no item is unlinked for being due. */
#define DUE_NOTHING INT64_MIN

/* Removals of items without a command (expiry, eviction), as reported to an observer. */
enum shard_event_kind {
    SHARD_EVICTED,
    SHARD_EXPIRED_LAZY,    /* found by a command */
    SHARD_EXPIRED_ACTIVE,  /* found by the sampler */
    SHARD_EXPIRED_RECLAIM, /* found while room was made */
    SHARD_FLUSHED,         /* its prefix was flushed */
};

/* The bits of engine_observe() for all kinds of expiry. */
#define SHARD_EXPIRED_KINDS                                                                    \
    (1u << SHARD_EXPIRED_LAZY | 1u << SHARD_EXPIRED_ACTIVE | 1u << SHARD_EXPIRED_RECLAIM)

struct shard_event {
    enum shard_event_kind kind;
    const struct item *item; /* [borrowed] for the call; it is about to be unlinked */
    msec_t now;
};

/*
 * Called for each event that engine_observe() asked for, before the item is unlinked. Must not
 * wait, and must not call the engine. Context: in shard, on any thread.
 */
typedef void (*shard_observer_fn)(void *arg, const struct shard_event *ev);

/*
 * Wake the home worker of this shard, unless the calling thread is that worker: there is new
 * work (see shard_wake_home()). Must not wait, and must not call the engine. Context: in shard,
 * on any thread.
 */
typedef void (*shard_wake_fn)(void *arg, uint32_t shard);

struct shard_group {
    /* [const] */
    struct shard **shards;        /* [borrowed] */
    struct arena_shape shape;     /* of the memory of each */
    uint64_t seed;                /* of the key hash */
    uint64_t items_hint;          /* total number of items that the indexes are sized for; 0:
                                     small */
    uint64_t range_bytes;         /* of address space for each shard */
    const struct region *regions; /* [borrowed] one per shard, of a file; NULL: none */
    bool is_in_cores;             /* core files have the items */
    const struct clock *clock;    /* [borrowed] */
    struct budget *budget;        /* [borrowed] */
    struct reclaimer *reclaimer;  /* [borrowed] */
    const struct engine_options *options; /* [borrowed] */
    shard_observer_fn observer;           /* NULL: none */
    void *observer_arg;                   /* [borrowed] */
    /* [atomic] */
    _Atomic uint32_t count;   /* of shards; never falls (release, after the pointer) */
    _Atomic uint32_t sharers; /* shards that share the limit; see shard_fit_limit() */
    _Atomic bool has_move;    /* slots are moving: shards create no past (ghost list) */
    _Atomic uint32_t
        observed; /* bits of shard_event_kind that the observer wants; seldom set */
    _Atomic msec_t hold_until;        /* expired items are kept until then: shard_due_now() */
    _Atomic msec_t due_limit;         /* later deadlines wait; see engine_follow_due() */
    _Atomic msec_t due_since;         /* when due_limit was set, by the clock */
    _Atomic(shard_wake_fn) wake_home; /* NULL: there are no home workers; see
                                         engine_wake_homes() */
    void *wake_arg;                   /* [borrowed] set before wake_home */
    _Atomic uint64_t cas_next;        /* shards draw blocks of CAS values from here */
    /* [rcu] prefixes in force (prefix.h), written under the engine's flush_lock; NULL: none */
    _Atomic(const struct prefixes *) prefixes;
};

#endif
