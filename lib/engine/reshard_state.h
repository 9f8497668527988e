/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a change of the number of shards, in the engine: see lib/reshard/reshard.h.
 */
#ifndef MAYFLY_LIB_ENGINE_RESHARD_STATE_H
#define MAYFLY_LIB_ENGINE_RESHARD_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/cond.h"

struct move;

enum reshard_state {
    RESHARD_IDLE,      /* all slots are in place, or no move was requested */
    RESHARD_WAITS,     /* for a walk to end (ship/walk.h) */
    RESHARD_MOVES,     /* slots are moving */
    RESHARD_NO_ROOM,   /* the mover waits for memory, then retries */
    RESHARD_CANCELLED, /* slots that were moving have arrived, the others stay */
};

/* The figures cover all moves since the mover was last idle. */
struct reshard_info {
    enum reshard_state state;
    uint32_t wanted;            /* requested number of shards that have slots */
    uint32_t shards;            /* existing shards, also those without slots */
    uint32_t active;            /* of these, those that have slots or will have some */
    uint32_t slots, slots_done; /* in all, and moved; see struct move_info */
    uint64_t items_all, items;  /* in all (an estimate), and moved */
    uint64_t bytes_all, bytes;  /* the same of keys and values */
    uint64_t expired;           /* items dropped because their deadline had passed */
    uint64_t evicted;           /* items evicted to make room for the first moves */
    uint64_t waits;             /* number of waits for memory */
    uint64_t ms;                /* duration until now or the end, with the waits */
};

/*
 * Called when the state has changed, or the wanted number of shards while slots move; not if
 * there was nothing to move. It must neither wait nor call the engine. Context: the thread that
 * changes it, under the mutex of struct reshard.
 */
typedef void (*reshard_told_fn)(void *arg, const struct reshard_info *info);

/* What is still to be moved. */
struct reshard_left {
    uint32_t slots;
    uint64_t items, bytes; /* about */
};

/* Part of struct engine. */
struct reshard {
    pthread_mutex_t mutex; /* flush_lock, streams_lock and shards are taken under it */
    pthread_cond_t changed;
    _Atomic uint32_t wanted; /* [atomic] written under mutex and flush_lock; 0: as started */
    /* [mutex] */
    enum reshard_state state;
    struct move *move; /* [borrowed] in progress; NULL: none */
    uint64_t ticket;   /* of the mover's job; 0: there was none */
    uint64_t serial;   /* changes with wanted */
    uint32_t cpu_pct;
    bool is_running, is_cancelled, is_stopping;
    struct reshard_info past;  /* of moves that have ended: the figures */
    struct reshard_left left;  /* what the last of them has left undone */
    bool finishes;             /* the move only completes slots that were on their way */
    usec_t began;              /* monotonic start of the moves; 0: none has begun */
    reshard_told_fn on_change; /* NULL: no callback */
    void *on_change_arg;       /* [borrowed] */
    enum reshard_state told;   /* the state of its last call */
    uint64_t told_serial;
};

/* Context: before start; after stop. */
static inline void reshard_init(struct reshard *r)
{
    *r = (struct reshard){0};
    pthread_mutex_init(&r->mutex, NULL);
    cond_init(&r->changed);
}

static inline void reshard_fini(struct reshard *r)
{
    must(!r->is_running);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

/*
 * The number of shards that share the limit when the move is complete; sharers: the number that
 * shares it now. Further shards may exist, with slots that still leave, or without slots.
 * Context: any thread.
 */
static inline uint32_t reshard_to_be(const struct reshard *r, uint32_t sharers)
{
    const uint32_t wanted = atomic_load_explicit(&r->wanted, memory_order_relaxed);

    return wanted != 0 ? wanted : sharers;
}

#endif
