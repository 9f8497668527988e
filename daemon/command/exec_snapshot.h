/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands on the snapshot: bgsave, save, lastsave, bgrewriteaof.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_SNAPSHOT_H
#define MAYFLY_DAEMON_COMMAND_EXEC_SNAPSHOT_H

#include "daemon/command/turn.h"

/* bgsave [schedule|cancel]. Context: worker, outside a section, as for the others. */
enum turn_stop exec_bgsave(struct turn *t, const struct request *r);

/* save: answered when it is done. */
enum turn_stop exec_save(struct turn *t, const struct request *r);

/* lastsave: when the last good one began. */
enum turn_stop exec_lastsave(struct turn *t, const struct request *r);

/* bgrewriteaof: snapshot and log anew. */
enum turn_stop exec_bgrewriteaof(struct turn *t, const struct request *r);

#endif
