/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves of slots by a plan of the test (lib/reshard/migrate.h). The server has plans for a
 * number of shards only (lib/reshard/reshard.h).
 */
#ifndef MAYFLY_TESTS_COMMON_MOVES_H
#define MAYFLY_TESTS_COMMON_MOVES_H

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/reshard/migrate.h"

/*
 * Start a move on the engine's mover, one at a time in a process. MF_EINVAL: a shard is out of
 * range. MF_EBUSY: the mover carries out another plan. MF_ENOMEM. Context: registered thread,
 * outside a section.
 */
enum mf_err move_start(struct move **m, struct engine *e, const struct move_config *cfg);

/*
 * Wait for its end, release it and set the pointer to NULL. Returns the result of move_run().
 * Context: a thread that is no worker, outside a section and a shard; before engine_stop().
 */
enum mf_err move_end(struct move **m);

/*
 * Carry out a plan on this thread. Returns the error of move_make() or move_run(); info may be
 * NULL. Context: as move_run().
 */
enum mf_err engine_move(struct engine *e, const struct move_config *cfg,
                        struct move_info *info);

/* The same for a range of slots that all go to one shard. */
enum mf_err engine_move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to);

/*
 * Publish a copy in which a range of slots [first, first + count) has the given states; the
 * old table is retired. MF_EINVAL when slots or shards are out of range; MF_ENOMEM; the
 * table is then unchanged. Context: one writer at a time.
 */
enum mf_err router_publish(struct router *r, uint32_t first, uint32_t count,
                           struct route_slot state);

#endif
