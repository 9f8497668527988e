/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving slots of the routing table from shards to others while requests run.
 *
 * A plan has the target shard of each slot. It is executed shard by shard: all slots that leave
 * a shard move together, in one pass over its items (carry.h), through the states of
 * lib/engine/router.h. A move loses almost no items of a full cache, and none if memory is
 * free. Due items are dropped instead of moved.
 *
 *     struct move *m;
 *
 *     move_plan_even(&plan, engine, shards);
 *     err = move_make(&m, engine, &config);
 *     err = move_run(m);                     meanwhile move_info(), move_cancel(): any thread
 *     move_free(&m);
 *
 * A move that was cancelled, or found no memory, leaves slots between two shards; if only a
 * large value found no memory, just the slot of that value. Requests for these slots search
 * both shards, which is slower. A later plan with the same target continues the move; a plan
 * with another target completes it first. A process that takes over the items
 * (lib/engine/attach.h) inherits such slots.
 */
#ifndef MAYFLY_LIB_RESHARD_MIGRATE_H
#define MAYFLY_LIB_RESHARD_MIGRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/engine/router.h"

struct engine;
struct move;

#define MOVE_STAYS UINT16_MAX /* the slot does not move */

struct move_plan {
    uint16_t to[ROUTE_SLOTS]; /* numbers of shards */
};

/* A plan that moves no slot. Context: any thread. */
void move_plan_init(struct move_plan *plan);

/*
 * Distribute all slots evenly among the first `shards` shards of the engine, with as few moves
 * as possible. Context: registered thread, outside a section.
 */
void move_plan_even(struct move_plan *plan, struct engine *e, uint32_t shards);

struct move_config {
    const struct move_plan *plan; /* copied */
    uint32_t cpu_pct;             /* maximum share of one CPU; 0: no limit */
    bool finishes; /* instead of a plan: complete the moves that are half done at the start */
    void (*on_begin)(void *arg); /* called by move_run() once no walk is running; or NULL */
    void *arg;
};

enum move_state {
    MOVE_WAITS, /* for a walk to end (ship/walk.h) */
    MOVE_RUNS,
    MOVE_DONE,
    MOVE_CANCELLED,
    MOVE_NO_ROOM,
};

struct move_info {
    enum move_state state;
    uint32_t slots, slots_done; /* slots to move, and slots moved. A slot that must complete an
                                 * earlier move first counts twice. */
    uint64_t items_all;         /* estimated number of items in these slots at the start */
    uint64_t items;             /* moved */
    uint64_t bytes_all, bytes;  /* the same in bytes of keys and values */
    uint64_t expired;           /* items dropped because their deadline had passed */
    uint64_t evicted;           /* items evicted to make room for the first ones */
};

/*
 * The three steps of a move: make it, carry it out once no walk is under way, release it and
 * null the pointer. move_make(): MF_EINVAL: a shard is out of range; MF_ENOMEM. move_run():
 * MF_OK: it was carried out, or cancelled; MF_ENOMEM: there is no memory for a table, or for an
 * item in its new shard. Context of move_run(): a registered thread that is no worker, outside
 * a section; of the others: any thread.
 */
enum mf_err move_make(struct move **m, struct engine *e, const struct move_config *cfg);
enum mf_err move_run(struct move *m);
void move_free(struct move **m);

/* The progress of the move. Context: any thread. */
void move_info(const struct move *m, struct move_info *info);

/* Change cpu_pct of struct move_config. Context: any thread. */
void move_set_cpu_pct(struct move *m, uint32_t cpu_pct);

/* Ask the move to end soon, even in the middle of a slot. Context: any thread. */
void move_cancel(struct move *m);

#endif
