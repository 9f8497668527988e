/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving ("carrying") the items of a shard to other shards, for slots that move (migrate.c).
 * The items are moved segment by segment, oldest first, so that the new shards get them in
 * order of age, and a segment becomes free when none of its items stays.
 *
 * Small items are copied in small batches, with both shards entered: a reader or a writer finds
 * either the old block or the new one. Values that do not fit a block are copied outside the
 * shards, and linked by an ordinary store if the value is still the same: see carry_large.c.
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

/* Progress: written by the thread that carries, read by any. */
struct carry_count {
    _Atomic uint64_t items;
    _Atomic uint64_t bytes;   /* of keys and values */
    _Atomic uint64_t expired; /* dropped, because they were due */
    _Atomic uint64_t evicted; /* evicted to make room for the first items, moving or not */
};

/* Items picked in one search; also items, and bytes, moved with both shards entered. */
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
    struct shard_leave leave; /* must be first: the part that the shard knows */
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
    unsigned chain;      /* number of chains searched */
    segment_t at;        /* the segment being searched, kept from the cursor; 0: none */
    segment_t next;      /* also kept from the cursor: see look_at_next() */
    uint32_t offset;     /* of the next block in `at` */
    bool is_at_end;      /* `at` has no more blocks; a flush may have taken it since */
    bool is_emptied;     /* items that stay are moved out of `at` too */
    unsigned fruitless;
    bool has_begun; /* some room was made */
    bool may_evict; /* the new shard has to make room itself */
    usec_t used;    /* CPU time of the thread at its last rest, in this or an earlier shard */
    unsigned turns; /* turns since that rest, also over several shards */
    struct carry_pick pick[CARRY_BATCH];
    unsigned picks;
    struct shard *low; /* a shard that lacks resident free segments; NULL: none does */
    struct carry_large large;
    /* Slots with a large value that found no room: they remain between two shards. In shard. */
    bool waits[ROUTE_SLOTS];
    uint32_t waiting; /* number of such slots */
};

/*
 * Move the items of the slots that leave `from`, by a routing table that all threads have seen.
 * After CARRY_DONE only slots in `waits` still have items in `from`; after any other result all
 * slots may. Context: registered thread that is no worker, outside a section; one at a time in
 * an engine.
 */
enum carry_state carry_shard(struct carry *c);

/*
 * The rest is for the parts of carry.c. Context: the thread that carries, outside a section and
 * a shard, unless it says otherwise.
 */

/* ---- carry_room.c: room, and the pace ---------------------------------------------------- */

/* Old buckets of an index that is resized, moved with each batch of items. */
#define CARRY_BUCKETS 16

/*
 * Yield the CPU to other threads. Then sleep as long as cpu_pct requires for the CPU time used
 * since the last rest; a stop ends the sleep.
 */
void carry_pace(struct carry *c);

/*
 * Call between two turns, each of about ten microseconds: calls carry_pace() when it is due.
 * False: the move was stopped.
 */
bool carry_turn(struct carry *c);

/*
 * Is there room in a shard beyond what it wants for itself? Context of carry_has_room_in(): in
 * shard.
 */
bool carry_has_room_in(const struct memory *m);
bool carry_has_room(struct shard *s);

/* Run a grace period here, so that all memory that waits for one becomes free. */
void carry_end_period(const struct carry *c);

/*
 * Release the free segments of the old shard, so that another shard may take them. If it keeps
 * some slots it also keeps the segments that it wants free, as stores in it would evict
 * otherwise. True when more memory waits for a grace period.
 */
bool carry_give_back(struct carry *c);

/*
 * Make room for `to` from memory of the old shard. If that fails, `to` makes room itself until
 * the next segment is emptied (c->may_evict). Does nothing if the system gives `to` no more
 * memory: then an item waits until `to` itself releases some.
 */
void carry_make_room(struct carry *c, struct shard *to);

/* An item found no room in `to`: wait for memory, or for a larger index. False: give it up. */
bool carry_wait_for(struct carry *c, struct shard *to);

/* Add to a counter of struct carry_count. */
void carry_count_add(_Atomic uint64_t *n, uint64_t by);

/* ---- carry_large.c ----------------------------------------------------------------------- */

/*
 * Carry over the item whose key is in c->large, unless it is gone. If there is no room for it,
 * its slot is added to c->waits. c->state says whether the move was stopped. Context: the
 * thread that carries, outside a section.
 */
void carry_value(struct carry *c);

#endif
