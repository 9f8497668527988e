/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of operators in the text protocol.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_ADMIN_H
#define MAYFLY_DAEMON_COMMAND_EXEC_ADMIN_H

#include "daemon/command/turn.h"

/* Commands of CLASS_ADMIN except stats. Context: worker, outside a read-side section. */
enum turn_stop exec_admin(struct turn *t, const struct request *r);

/*
 * flush_all, in the protocol r came in, unless -F forbids it. Context: worker, outside a
 * read-side section.
 */
enum turn_stop exec_flush(struct turn *t, const struct request *r);

#endif
