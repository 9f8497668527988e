/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands on memcached's memory and LRU: slabs, lru, lru_crawler. Context of all: worker,
 * outside a read-side section.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_LRU_H
#define MAYFLY_DAEMON_COMMAND_EXEC_LRU_H

#include "daemon/command/turn.h"

enum turn_stop exec_slabs(struct turn *t, const struct request *r);
enum turn_stop exec_lru(struct turn *t, const struct request *r);
enum turn_stop exec_lru_crawler(struct turn *t, const struct request *r);

#endif
