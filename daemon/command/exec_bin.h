/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binary protocol: exec_bin.c has the requests that read, the few of operators and the
 * dispatch, exec_bin_store.c those that write. Statistics are in exec_stats.c, SASL in
 * exec_sasl.c.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_BIN_H
#define MAYFLY_DAEMON_COMMAND_EXEC_BIN_H

#include "daemon/command/turn.h"

/* Everything of CLASS_BINARY. Context: worker, read side. */
enum turn_stop exec_bin(struct turn *t, const struct request *r);

/* CLASS_BINARY_ADMIN except stat. Context: worker, outside a read-side section. */
enum turn_stop exec_bin_admin(struct turn *t, const struct request *r);

/*
 * set, add, replace, append, prepend. body: the full value, or NULL when r->value has it.
 * Context: worker, read side.
 */
enum turn_stop exec_bin_store(struct turn *t, const struct request *r, struct body **body);

/* What r, one of these, asks of the engine. Context: worker, read side. */
void exec_bin_prepare_store(const struct turn *t, const struct request *r, struct store *s);

/* A request was refused by the parser: count and answer it. Context: worker, read side. */
void exec_bin_refused(struct turn *t, const struct request *r, enum bin_reply why);

/* Context: worker, read side. */
enum turn_stop exec_bin_arith(struct turn *t, const struct request *r);
enum turn_stop exec_bin_delete(struct turn *t, const struct request *r);

#endif
