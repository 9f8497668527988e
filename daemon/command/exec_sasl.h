/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL, which is in the binary protocol only.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_SASL_H
#define MAYFLY_DAEMON_COMMAND_EXEC_SASL_H

#include "daemon/command/turn.h"

/*
 * The opcodes BIN_SASL_*: mechanism in r->key, what the client says in r->value. Context:
 * worker, read side.
 */
enum turn_stop exec_sasl(struct turn *t, const struct request *r);

#endif
