/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `save -`: the client is sent a snapshot, as a file would have it (lib/snapshot/format.h). The
 * answer is portions, each as "PART <n>", a line's end and n bytes, and then a line: END with
 * the number of items, or an error, and what came is not whole.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_EXPORT_H
#define MAYFLY_DAEMON_COMMAND_EXEC_EXPORT_H

#include "daemon/command/turn.h"

/* Context: worker, outside the section; as the next. */
enum turn_stop exec_export(struct turn *t, const struct request *r);

/* The same for a replica: everything, and then the words of exec_replication.h. */
enum turn_stop exec_sync(struct turn *t, const struct request *r);

#endif
