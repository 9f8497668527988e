/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of items that no command asked for (expiry, eviction), as an observer sees them. */
#ifndef MAYFLY_LIB_SHARD_EVENT_H
#define MAYFLY_LIB_SHARD_EVENT_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/memory/item.h"

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
 * Wake the home worker of this shard, unless the calling thread is that worker: there is work
 * that it does not know of (see shard_wake_home()). Must not wait, and must not call the
 * engine. Context: in shard, on any thread.
 */
typedef void (*shard_wake_fn)(void *arg, uint32_t shard);

#endif
