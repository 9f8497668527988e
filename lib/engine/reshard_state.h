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
    RESHARD_MOVES,     /* slots are carried */
    RESHARD_NO_ROOM,   /* the mover waits until there is room, and tries again */
    RESHARD_CANCELLED, /* what was on its way has arrived, the rest stays where it is */
};

/* The figures are of all moves since the mover last had nothing to do. */
struct reshard_info {
    enum reshard_state state;
    uint32_t wanted;            /* shards that slots shall be in */
    uint32_t shards;            /* there are, with those that have no slots */
    uint32_t active;            /* of these, those that slots are in or shall be in */
    uint32_t slots, slots_done; /* to be moved, with what is done; see struct move_info */
    uint64_t items_all, items;  /* the same; about, and moved */
    uint64_t bytes_all, bytes;  /* of keys and values; the same */
    uint64_t expired;           /* met past their deadline, and dropped */
    uint64_t evicted;           /* to have some room to begin with */
    uint64_t waits;             /* for room */
    uint64_t ms;                /* since it began, until it was over; with the waits */
};

/*
 * Called when the state has changed, or the number that is wanted while slots move, unless
 * there was nothing to move. It may neither wait nor call the engine. Context: the thread that
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
    struct move *move; /* [borrowed] that is carried out; NULL: none */
    uint64_t ticket;   /* of the mover's job; 0: there was none */
    uint64_t serial;   /* changes with wanted */
    uint32_t cpu_pct;
    bool is_running, is_cancelled, is_stopping;
    struct reshard_info past;  /* of moves that have ended: the figures */
    struct reshard_left left;  /* what the last of them has not done */
    bool finishes;             /* slots on their way arrive, of those that are left */
    usec_t began;              /* monotonic; 0: nothing has */
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
 * The number of shards that share the limit when the move is complete; sharers: those that
 * share it now. There may be other shards, which still have slots, or have none any more.
 * Context: any thread.
 */
static inline uint32_t reshard_to_be(const struct reshard *r, uint32_t sharers)
{
    const uint32_t wanted = atomic_load_explicit(&r->wanted, memory_order_relaxed);

    return wanted != 0 ? wanted : sharers;
}

#endif
