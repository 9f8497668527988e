/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands on memcached's memory and LRU: slabs, lru, lru_crawler; and expire_hold, which words
 * of lru_crawler do as well. Context of all: worker, outside a read-side section.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_LRU_H
#define MAYFLY_DAEMON_COMMAND_EXEC_LRU_H

#include "daemon/command/turn.h"

enum turn_stop exec_slabs(struct turn *t, const struct request *r);
enum turn_stop exec_lru(struct turn *t, const struct request *r);
enum turn_stop exec_lru_crawler(struct turn *t, const struct request *r);

/* Keep what has expired for some seconds: expire_hold SECONDS, 0 ends it. */
enum turn_stop exec_expire_hold(struct turn *t, const struct request *r);

#endif
