/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `config`: the options of the running server.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_CONFIG_H
#define MAYFLY_DAEMON_COMMAND_EXEC_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/command/turn.h"
#include "lib/base/span.h"
#include "proto/text_compose.h"

struct crew;

/*
 * Carry out `config set` or `config reset`, all of it or nothing, and log it. args: the words
 * of the command after `config`, with noreply if that was one. Writes the answer to out, whose
 * length is returned; 0 if noreply. Context: worker or main, as live_is_for_main() says of the
 * options, outside a read-side section.
 */
size_t exec_config_change(struct crew *crew, struct span args, bool noreply,
                          char out[TEXT_REPLY_MAX]);

/*
 * Change the memory limit, as cache_memlimit does. False when the engine cannot work with it.
 * Context: worker, outside a read-side section.
 */
bool exec_config_limit(struct turn *t, uint64_t bytes);

#endif
