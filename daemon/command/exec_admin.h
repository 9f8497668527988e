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
 * flush_all or flush_prefix, in the protocol r came in, unless -F forbids it. Context: worker,
 * outside a read-side section.
 */
enum turn_stop exec_flush(struct turn *t, const struct request *r);

/*
 * Is a command of CLASS_ADMIN the first that its turn took from the input, or the first after
 * an mn? As in memcached, dumps and watching have to be: replies before them would still wait
 * to be sent. Context: worker, outside a read-side section.
 */
bool exec_is_first(const struct turn *t, const struct request *r);

#endif
