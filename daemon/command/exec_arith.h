/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr, decr, delete, touch: commands that change one item and answer in a word. Context of
 * all: worker, read side.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_ARITH_H
#define MAYFLY_DAEMON_COMMAND_EXEC_ARITH_H

#include "daemon/command/turn.h"

enum turn_stop exec_arith(struct turn *t, const struct request *r);
enum turn_stop exec_delete(struct turn *t, const struct request *r);
enum turn_stop exec_touch(struct turn *t, const struct request *r);

#endif
