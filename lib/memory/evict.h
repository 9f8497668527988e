/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of eviction policies. A policy is one file with one table, struct evict_policy.
 * It decides to which chain a new key is added, which segment is emptied next, and which of its
 * live items are kept. It may remember dropped keys. The cursor does the work.
 *
 * There are three chains: small, main, and big for large new items. A policy that needs only
 * one uses CHAIN_SMALL.
 */
#ifndef MAYFLY_LIB_MEMORY_EVICT_H
#define MAYFLY_LIB_MEMORY_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/engine_options.h"
#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/memory/arena.h"
#include "lib/memory/item.h"

struct memory;

/* The fate of a live item in a segment that is being emptied. */
enum verdict {
    VERDICT_PROMOTE, /* goes to the end of main */
    VERDICT_KEEP,    /* in main: moves to the end of it */
    VERDICT_YOUNG,   /* stored too recently to judge: moves to the end of its own chain */
    VERDICT_EVICT,
};

/* What a policy needs to judge an item of a segment, in addition to the item. */
struct evict_pass {
    enum chain_id chain;
    bool is_young;       /* the item was stored after its segment was sealed, into a hole */
    uint64_t mean_bytes; /* of all items; 0: not known yet */
    uint64_t kept;       /* bytes that VERDICT_KEEP kept recently, including earlier passes */
    uint64_t scanned;    /* bytes of main that were scanned in the same time */
};

/* How room is made. */
enum evict_way {
    EVICT_NOTHING,  /* only dead blocks are cleaned away */
    EVICT_SEGMENTS, /* the oldest segments are emptied: pick and judge */
    EVICT_ITEMS,    /* items die in place: see evict_item() */
};

/* Where a policy that evicts single items looks for them. */
enum evict_source {
    SOURCE_ALL,      /* all items, at random */
    SOURCE_VOLATILE, /* those with a deadline, at random */
    SOURCE_SOONEST,  /* those with the earliest deadlines */
};

/*
 * All functions are called in the shard, except past_create, past_destroy and past_touch, which
 * are called outside.
 */
struct evict_policy {
    const char *name; /* its word */
    enum evict_way way;

    /* EVICT_ITEMS */
    enum evict_source source;
    /* The item with the highest score is evicted first. NULL: the first one found. */
    uint64_t (*score)(const struct item *it, msec_t now, const struct engine_options *options);

    /* EVICT_SEGMENTS */
    /*
     * The sealed segment to empty next, from any chain; 0: none. May seal an open one.
     */
    segment_t (*pick)(struct memory *m);
    /* With VERDICT_PROMOTE and _KEEP, *heat is set to its new heat. */
    enum verdict (*judge)(const struct evict_pass *pass, const struct item *it, uint8_t *heat);

    /*
     * The past (ghost list): the hashes of dropped keys that the policy remembers. It is
     * created at the first eviction, and replaced by an empty one when the number of items has
     * become much larger or smaller. NULL for a policy that remembers nothing.
     */
    void *(*past_create)(uint64_t items, struct budget *budget); /* NULL: no memory */
    void (*past_destroy)(void *past, struct budget *budget);
    bool (*past_touch)(void *past, size_t *done); /* as mem_touch_next() */
    uint64_t (*past_capacity)(const void *past);  /* in keys */
    uint64_t (*past_bytes)(const void *past);
    /* An item of this chain was evicted. */
    void (*past_add)(void *past, enum chain_id chain, uint64_t hash);
    /*
     * The chain to which a new key is added, with a block or value of `bytes` bytes. Without a
     * past it is CHAIN_SMALL. mean_bytes: see struct evict_pass.
     */
    enum chain_id (*past_chain)(void *past, uint64_t hash, uint64_t bytes, uint64_t mean_bytes);
    /*
     * An item of this chain is about to be judged: prefetch what past_add() needs.
     */
    void (*past_prefetch)(const void *past, enum chain_id chain, uint64_t hash);
};

extern const struct evict_policy evict_density;
extern const struct evict_policy evict_none;
extern const struct evict_policy evict_allkeys_lru;
extern const struct evict_policy evict_allkeys_lfu;
extern const struct evict_policy evict_allkeys_random;
extern const struct evict_policy evict_volatile_lru;
extern const struct evict_policy evict_volatile_lfu;
extern const struct evict_policy evict_volatile_random;
extern const struct evict_policy evict_volatile_ttl;

extern const struct evict_policy *const evict_policies[EVICT_CHOICES];

/* A candidate for eviction. It no longer exists if its block holds another item. */
struct evict_candidate {
    uint64_t score;
    uint64_t cas;
    handle_t handle;
    uint32_t generation; /* of its segment */
};

#define EVICT_POOL 16u

/*
 * Eviction in one memory. The policy is an option that may change at any time, so it is read
 * each time. The state of a policy is kept while another policy is active; its past is kept as
 * long as its size suits the number of items.
 */
struct evict {
    /* [const] */
    const struct evict_policy *const *policies; /* by choice; tests use their own */
    const struct engine_options *options;       /* [borrowed] */
    const struct lock *lock;                    /* [borrowed] guards it */
    uint32_t sorting; /* bit per choice: does its policy sort items? See evict_sorts() */
    /* [lock] */
    struct evict_candidate pool[EVICT_POOL]; /* the last one is evicted first */
    unsigned pooled;
    const struct evict_policy *pool_policy; /* whose scores they are */
    uint64_t random;
    const struct evict_policy *past_policy; /* whose past it is */
    void *past;                             /* NULL: none yet */
    uint64_t past_capacity;
    bool past_is_wanted; /* something was evicted */
    /* A new past that is being made resident, or NULL; only the reclaimer uses its content. */
    const struct evict_policy *next_policy;
    void *next;
    size_t next_touched;
    uint64_t mean_bytes; /* of all items, when a segment was last picked; 0: never */
    uint64_t untried;    /* approximate bytes in main that were promoted without a hit */
    bool was_untried;    /* the last segment was taken from main because of these bytes */
};

/* Checks "Context: in shard" in debug builds. */
#define evict_must_be_entered(ev) lock_must_be_held((ev)->lock)

/* Remembers nothing yet. lock: of the shard. Context: before start. */
void evict_init(struct evict *ev, const struct engine_options *options,
                const struct lock *lock);

/* The present policy. Context: any thread. */
static inline const struct evict_policy *evict_policy(const struct evict *ev)
{
    return ev->policies[engine_option(ev->options, maxmemory_policy)];
}

/* Does a policy evict only items with a deadline, and keep them apart from the others? */
static inline bool evict_sorts(const struct evict_policy *policy)
{
    return policy->way == EVICT_ITEMS && policy->source != SOURCE_ALL;
}

/* The same for the present policy. Every set calls it, so it reads only a bit of `sorting`. */
static inline bool evict_sorts_now(const struct evict *ev)
{
    return (ev->sorting >> engine_option(ev->options, maxmemory_policy) & 1) != 0;
}

/* The chain in which such a policy keeps items with a deadline, and those without. */
static inline enum chain_id evict_sorted_chain(bool has_deadline)
{
    return has_deadline ? CHAIN_SMALL : CHAIN_MAIN;
}

/* Is there a past, and does it belong to the present policy? Context: in shard. */
static inline bool evict_has_past(const struct evict *ev)
{
    return ev->past != NULL && evict_policy(ev) == ev->past_policy;
}

/* Release the past of this memory. Context: outside a shard. */
void evict_forget(struct memory *m);

/* Release everything. Context: no thread uses it. */
void evict_fini(struct evict *ev, struct budget *budget);

/* The chain in which a new key with `bytes` bytes begins. Context: in shard. */
static inline enum chain_id evict_chain(struct evict *ev, uint64_t hash, uint64_t bytes)
{
    evict_must_be_entered(ev);
    return evict_has_past(ev)
               ? ev->past_policy->past_chain(ev->past, hash, bytes, ev->mean_bytes)
               : CHAIN_SMALL;
}

/* An item was evicted. Context: in shard. */
static inline void evict_remember(struct evict *ev, enum chain_id chain, uint64_t hash)
{
    evict_must_be_entered(ev);
    if (evict_has_past(ev)) {
        ev->past_policy->past_add(ev->past, chain, hash);
    }
}

/* An item is about to be judged. Context: in shard. */
static inline void evict_prefetch(const struct evict *ev, enum chain_id chain, uint64_t hash)
{
    evict_must_be_entered(ev);
    if (evict_has_past(ev)) {
        ev->past_policy->past_prefetch(ev->past, chain, hash);
    }
}

/*
 * Should the past (ghost list) be replaced by one for this number of items, because it is much
 * too small or much too large? Context: in shard.
 */
static inline bool evict_wants_past(const struct evict *ev, uint64_t items)
{
    evict_must_be_entered(ev);
    return ev->next == NULL && ((ev->past_is_wanted && ev->past_capacity < items / 2) ||
                                ev->past_capacity > 4 * items + 8192);
}

/*
 * Create a past, or a replacement, for this number of items. A large one is used only after the
 * reclaimer has made it resident. Context: outside the shard.
 */
void evict_make_past(struct memory *m, uint64_t items);

/*
 * Make part of it resident. True if there is more to do. Context: reclaimer, outside a shard.
 */
bool evict_touch_burst(struct memory *m);

/* Bytes of the past. Context: in shard. */
uint64_t evict_past_bytes(const struct evict *ev);

/* ---- trim.c ------------------------------------------------------------------------------ */

/*
 * The work of the reclaimer's thread for a memory: it releases segments after their grace
 * period, and returns to the system those that stayed free or exceed the budget. It works in
 * bursts and enters the shard only briefly.
 */

/* One burst. Return value as of reclaim_hook_fn. Context: reclaimer, outside a shard. */
uint64_t trim_burst(struct memory *m);

/* ---- evict_items.c ----------------------------------------------------------------------- */

/*
 * Eviction of single items, as in Redis. A few items are drawn at random (maxmemory_samples),
 * from all or from those with a deadline, and their scores are compared. The best candidates
 * are kept in a pool and compared with later draws. An evicted item dies in place: its block
 * becomes a hole, or is cleaned away.
 */

/*
 * Drop one item: the choice of the present policy, or a due item found by the search. Subtracts
 * the cost from *work. False if no item was found, or if the policy does not evict single
 * items. Context: in shard.
 */
bool evict_item(struct memory *m, msec_t now, int64_t *work);

#endif
