/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves of slots: see moves.h.
 */
#include "tests/common/moves.h"

#include <string.h>

#include "lib/engine/engine.h"

/* The move of move_start(). */
static struct {
    struct engine *engine;
    uint64_t ticket; /* of the mover's job */
    enum mf_err err; /* once it is over */
} background;

static void run_move(void *arg)
{
    background.err = move_run(arg);
}

enum mf_err move_start(struct move **m, struct engine *e, const struct move_config *cfg)
{
    enum mf_err err = move_make(m, e, cfg);
    uint64_t ticket;

    if (err != MF_OK) {
        return err;
    }
    ticket = standby_run(&e->mover, run_move, *m);
    if (ticket == 0) {
        move_free(m);
        return MF_EBUSY;
    }
    background.engine = e;
    background.ticket = ticket;
    return MF_OK;
}

enum mf_err move_end(struct move **m)
{
    standby_wait(&background.engine->mover, background.ticket);
    move_free(m);
    return background.err;
}

enum mf_err engine_move(struct engine *e, const struct move_config *cfg, struct move_info *info)
{
    struct move *m;
    enum mf_err err = move_make(&m, e, cfg);

    if (err != MF_OK) {
        return err;
    }
    err = move_run(m);
    if (info != NULL) {
        move_info(m, info);
    }
    move_free(&m);
    return err;
}

enum mf_err engine_move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};

    if (first > ROUTE_SLOTS || count > ROUTE_SLOTS - first) {
        return MF_EINVAL;
    }
    move_plan_init(&plan);
    for (uint32_t i = first; i < first + count; i++) {
        plan.to[i] = to;
    }
    return engine_move(e, &cfg, NULL);
}

enum mf_err router_publish(struct router *r, uint32_t first, uint32_t count,
                           struct route_slot state)
{
    struct route *now = atomic_load_explicit(&r->route, memory_order_relaxed);
    struct route_slot slots[ROUTE_SLOTS];

    if (first > ROUTE_SLOTS || count > ROUTE_SLOTS - first) {
        return MF_EINVAL;
    }
    memcpy(slots, now->slot, sizeof(slots));
    for (uint32_t i = first; i < first + count; i++) {
        slots[i] = state;
    }
    return router_publish_all(r, slots);
}
