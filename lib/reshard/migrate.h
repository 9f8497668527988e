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
 *     move_plan_init(&plan); ...
 *     if (move_start(&m, engine, &config) == MF_OK) { the mover moves }
 *     move_info(m, &info), move_cancel(m)            any thread
 *     err = move_end(&m);                            waits for it
 *
 * A move that was cancelled, or found no memory, leaves slots between two shards; if that was
 * for a large value, only the slot of this one. Both shards serve them, more slowly. A plan
 * with the same target goes on with it; one with another has them arrive first. Another process
 * that takes over the items (lib/engine/attach.h) goes on so as well, and has them arrive by
 * move_finish().
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
 * The same in its parts, for a caller that has a thread: make one, carry it out, release it
 * (which nulls the address). Outcomes as move_start() and move_end(). Context of move_run(): a
 * registered thread that is no worker, outside a section; of the others: any thread.
 */
enum mf_err move_make(struct move **m, struct engine *e, const struct move_config *cfg);
enum mf_err move_run(struct move *m);
void move_free(struct move **m);

/*
 * Have the engine's mover, a thread that exists from the start, carry out a plan once no walk
 * is under way. MF_EINVAL: a shard is out of range. MF_EBUSY: the mover carries out another
 * plan; MF_ENOMEM. Context: registered thread, outside a section.
 */
enum mf_err move_start(struct move **m, struct engine *e, const struct move_config *cfg);

/*
 * The same, with a plan that has the slots arrive that are on their way when it begins, as
 * after another process has left a move half done.
 */
enum mf_err move_finish(struct move **m, struct engine *e, uint32_t cpu_pct);

/* How far it is. Context: any thread. */
void move_info(const struct move *m, struct move_info *info);

/* Change how much of a CPU it takes, as in struct move_config. Context: any thread. */
void move_set_cpu_pct(struct move *m, uint32_t cpu_pct);

/* It shall end soon, wherever it is. Context: any thread. */
void move_cancel(struct move *m);

/*
 * Wait for the end, and release it; takes the address and nulls it. MF_OK: it was carried out,
 * or cancelled. MF_ENOMEM: there is no memory for a table, or for an item in its new shard.
 * Context: a thread that is no worker,
 * outside a section and a shard; before engine_stop().
 */
enum mf_err move_end(struct move **m);

/*
 * Carry out a plan on this thread; outcomes as move_start() and move_end(). info may be NULL.
 * Context: a registered thread that is not a worker (it waits for grace periods), outside a
 * section.
 */
enum mf_err engine_move(struct engine *e, const struct move_config *cfg,
                        struct move_info *info);

/* The same for a range of slots that all go to one shard. */
enum mf_err engine_move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to);

#endif
