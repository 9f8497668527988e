/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `moves`, which answers as `stats moves` does, and `moves cancel`: no more slots go to other
 * shards, and those on their way arrive. See daemon/worker/moving.h.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_MOVES_H
#define MAYFLY_DAEMON_COMMAND_EXEC_MOVES_H

#include "daemon/command/turn.h"

/* Context: worker, outside a read-side section. */
enum turn_stop exec_moves(struct turn *t, const struct request *r);

#endif
