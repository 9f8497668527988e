/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `config`: the options of the running server.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_CONFIG_H
#define MAYFLY_DAEMON_COMMAND_EXEC_CONFIG_H

#include "daemon/command/turn.h"

/*
 * config get, set, reset, reload, rewrite. Context: worker, outside a read-side section, in a
 * turn.
 */
enum turn_stop exec_config(struct turn *t, const struct request *r);

/*
 * Change the limit, as cache_memlimit does; false when it cannot be reached. Context: worker,
 * outside a read-side section.
 */
bool exec_config_limit(struct turn *t, uint64_t bytes);

#endif
