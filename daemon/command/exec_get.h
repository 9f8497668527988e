/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get, gets, gat, gats of any number of keys.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_GET_H
#define MAYFLY_DAEMON_COMMAND_EXEC_GET_H

#include "daemon/command/turn.h"

/* Context: worker, read side. */
enum turn_stop exec_get(struct turn *t, const struct request *r);

/*
 * Answer the keys of a get line and its END. When it stops, t->rest has the keys not answered
 * (maybe none, with ptr set): call again with them. r has the command. Context: worker, read
 * side.
 */
enum turn_stop exec_get_keys(struct turn *t, const struct request *r, struct span keys);

#endif
