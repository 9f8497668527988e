/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carrying the items of a shard over to others, for slots that move (migrate.c): segment by
 * segment, oldest first, so that the others get them in their order, and each segment is free
 * when nothing in it stays.
 *
 * Small items are copied some at a time, with both shards entered: what a reader or a writer
 * finds is the old block or the new one. Values that do not fit a block are copied outside, and
 * linked by an ordinary store.
 */
#ifndef MAYFLY_LIB_RESHARD_CARRY_H
#define MAYFLY_LIB_RESHARD_CARRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/engine/router.h"
#include "lib/memory/arena.h"
#include "lib/shard/shard.h"

struct engine;

/* How far it is: written by the thread that carries, read by any. */
struct carry_count {
    _Atomic uint64_t items;
    _Atomic uint64_t bytes;   /* of keys and values */
    _Atomic uint64_t expired; /* dropped, because they were due */
    _Atomic uint64_t evicted; /* dropped, to begin with some room: moving or not */
};

/* Items picked in one search, and those moved with both shards entered; and their bytes. */
#define CARRY_BATCH 32u
#define CARRY_BYTES (32u << 10)

struct carry_pick {
    uint64_t hash;
    handle_t handle; /* 0: done */
    uint16_t to;
};

/* The key of a large item. */
struct carry_large {
    uint64_t hash;
    uint16_t to;
    uint8_t key_len; /* 0: none */
    char key[ITEM_KEY_MAX];
};

enum carry_state {
    CARRY_GOES_ON,
    CARRY_DONE,
    CARRY_STOPPED, /* by *stop */
    CARRY_NO_ROOM, /* there is no memory for an item in its new shard */
};

struct carry {
    struct shard_leave leave; /* first: what the shard knows of it */
    /* [const] */
    struct engine *engine;
    struct shard *from;
    const struct route_slot *slots;  /* [borrowed] ROUTE_SLOTS of them, as published */
    uint64_t version;                /* of that table */
    const _Atomic bool *stop;        /* [borrowed] */
    struct carry_count *count;       /* [borrowed] */
    const _Atomic uint32_t *cpu_pct; /* [borrowed] of one CPU, at most */
    uint32_t leaving, owned;         /* slots that leave, of those that the shard has */
    /* the thread's */
    enum carry_state state;
    uint64_t bytes_left; /* to be carried, about */
    uint64_t epoch;      /* of the shard's memory: another one after a flush */
    unsigned chain;      /* how many were searched */
    segment_t at;        /* kept from the cursor; 0: none */
    segment_t next;      /* so is this: see look_at_next() */
    uint32_t offset;     /* of the next block */
    bool is_at_end;      /* there is none; a flush may have taken the segment since */
    bool is_emptied;     /* what stays in it closes ranks */
    unsigned fruitless;
    bool has_begun; /* with some room */
    bool may_evict; /* the new shard has to make room itself */
    usec_t used;    /* of CPU, when it rested last: in this shard or one before */
    unsigned turns; /* the same: each shard may take few */
    struct carry_pick pick[CARRY_BATCH];
    unsigned picks;
    struct shard *low; /* it has next to no free segments that are resident; or NULL */
    struct carry_large large;
    /* Slots of which a large value has found no room: they stay on their way. In shard. */
    bool waits[ROUTE_SLOTS];
    uint32_t waiting; /* how many */
};

/*
 * Carry over what the slots that leave `from` have, by a table that all threads know. Some of
 * it may be there again, or still, unless it ends with CARRY_DONE; and then in slots that wait.
 * Context: registered thread that is no worker, outside a section; one at a time in an engine.
 */
enum carry_state carry_shard(struct carry *c);

#endif
