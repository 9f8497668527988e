/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands in the words of Redis that memcached does not have. Context of all: worker, read
 * side.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_EXPIRY_H
#define MAYFLY_DAEMON_COMMAND_EXEC_EXPIRY_H

#include "daemon/command/turn.h"

/* expire, pexpire, expireat, pexpireat, persist: 1 if the item was changed, else 0. */
enum turn_stop exec_deadline(struct turn *t, const struct request *r);

/* ttl, pttl, expiretime, pexpiretime: -2 if there is no item, -1 if it has no deadline. */
enum turn_stop exec_ttl(struct turn *t, const struct request *r);

/* unlink: how many items there were. */
enum turn_stop exec_unlink(struct turn *t, const struct request *r);

#endif
