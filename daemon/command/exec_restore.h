/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `restore begin [items]` and `restore end`: between them what a connection adds by meta
 * commands is older than what is here. A key that was deleted, has expired or was evicted
 * since, whoever did it, is not stored, nor is anything after a flush (lib/engine/guarding.h).
 * One connection at a time; its end is the end of it.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_RESTORE_H
#define MAYFLY_DAEMON_COMMAND_EXEC_RESTORE_H

#include "daemon/command/turn.h"
#include "lib/engine/store.h"

/* Context: worker, outside the section. */
enum turn_stop exec_restore(struct turn *t, const struct request *r);

/* engine_store() of an add of such a connection. Context: worker, read side. */
enum outcome restore_store(struct turn *t, struct store *s);

#endif
