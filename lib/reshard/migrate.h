/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving slots of the routing table from shards to others while requests run.
 *
 * A plan says for each slot where it shall be. It is carried out shard by shard: all slots that
 * leave one go at once, in one pass over its items (carry.h), through the states of
 * lib/engine/router.h. In a full cache next to nothing is lost by it; in one with room nothing
 * is. What is due is left behind.
 *
 *     struct move *m;
 *
 *     move_plan_even(&plan, engine, shards);
 *     err = move_make(&m, engine, &config);
 *     err = move_run(m);                     meanwhile move_info(), move_cancel(): any thread
 *     move_free(&m);
 *
 * A move that was cancelled, or found no memory, leaves slots between two shards; if that was
 * for a large value, only the slot of this one. Both shards serve them, more slowly. A plan
 * with the same target goes on with it; one with another has them arrive first. Another process
 * that takes over the items (lib/engine/attach.h) continues in the same way.
 */
#ifndef MAYFLY_LIB_RESHARD_MIGRATE_H
#define MAYFLY_LIB_RESHARD_MIGRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/engine/router.h"

struct engine;
struct move;

#define MOVE_STAYS UINT16_MAX /* the slot is left as it is */

struct move_plan {
    uint16_t to[ROUTE_SLOTS]; /* numbers of shards */
};

/* Every slot stays. Context: any thread. */
void move_plan_init(struct move_plan *plan);

/*
 * The first so many shards of an engine have all slots in equal parts, and as few as possible
 * move for it. Context: registered thread, outside a section.
 */
void move_plan_even(struct move_plan *plan, struct engine *e, uint32_t shards);

struct move_config {
    const struct move_plan *plan; /* copied */
    uint32_t cpu_pct;             /* of one CPU, at most; 0: all of it */
    bool finishes; /* instead of the plan: what is on its way when it begins arrives */
    void (*on_begin)(void *arg); /* called by move_run() when no walk is under way; or NULL */
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
    uint32_t slots, slots_done; /* of the plan: those that are not there yet; and are now. One
                                 * that has to arrive elsewhere first counts for each way. */
    uint64_t items_all;         /* in these slots when it began, about */
    uint64_t items;             /* moved */
    uint64_t bytes_all, bytes;  /* of the keys and values; the same */
    uint64_t expired;           /* met past their deadline, and dropped */
    uint64_t evicted;           /* to have some room to begin with */
};

/*
 * Make a move, carry it out once no walk is under way, and release it (which sets the pointer
 * to NULL).
 * move_make(): MF_EINVAL: a shard is out of range; MF_ENOMEM. Context: any thread.
 * move_run(): MF_OK: it was carried out, or cancelled. MF_ENOMEM: there is no memory for a
 * table, or for an item in its new shard. Context: a registered thread that is no worker,
 * outside a section.
 */
enum mf_err move_make(struct move **m, struct engine *e, const struct move_config *cfg);
enum mf_err move_run(struct move *m);
void move_free(struct move **m);

/* How far it is. Context: any thread. */
void move_info(const struct move *m, struct move_info *info);

/* Change how much of a CPU it takes, as in struct move_config. Context: any thread. */
void move_set_cpu_pct(struct move *m, uint32_t cpu_pct);

/* It shall end soon, wherever it is. Context: any thread. */
void move_cancel(struct move *m);

#endif
