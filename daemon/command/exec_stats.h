/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stats command, of both protocols.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_STATS_H
#define MAYFLY_DAEMON_COMMAND_EXEC_STATS_H

#include "daemon/command/turn.h"

/* Context: worker, outside a read-side section. */
enum turn_stop exec_stats(struct turn *t, const struct request *r);

#endif
