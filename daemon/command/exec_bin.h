/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers of the binary protocol, which work as those of exec.h do: a handler either does its
 * request as a whole and returns TURN_GOES_ON, or tells why not.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_BIN_H
#define MAYFLY_DAEMON_COMMAND_EXEC_BIN_H

#include "daemon/command/exec.h"
#include "lib/base/buf.h"
#include "proto/bin.h"

/*
 * A fixed answer; a quiet request gets none for success. Context: worker, in a turn.
 */
void exec_bin_reply(struct turn *t, const struct request *r, enum bin_reply reply,
                    uint64_t cas);

/* ---- exec_bin_store.c -------------------------------------------------------------------- */

/*
 * set, add, replace, append, prepend. body: the full value, or NULL when r->value has it.
 * Context: worker, read side.
 */
enum turn_stop exec_bin_store(struct turn *t, const struct request *r, struct body **body);

/* A request was refused by the parser: count and answer it. Context: worker, read side. */
void exec_bin_refused(struct turn *t, const struct request *r, enum bin_reply why);

enum turn_stop exec_bin_arith(struct turn *t, const struct request *r);
enum turn_stop exec_bin_delete(struct turn *t, const struct request *r);

/* ---- exec_bin_admin.c -------------------------------------------------------------------- */

/* CLASS_BINARY_ADMIN but stat. Context: worker, outside a read-side section. */
enum turn_stop exec_bin_admin(struct turn *t, const struct request *r);

/* Is there an answer to stat with this key? Those that dump keys have none. */
bool exec_bin_has_stat(struct span key);

/* Are the lines of its answer one statistic together? */
bool exec_bin_is_dump(struct span key);

/*
 * What stats_command() wrote, as frames in its place; r tells opcode and opaque. False when
 * there is no memory; *text is then unchanged. Context: worker.
 */
bool exec_bin_convert_stats(const struct request *r, bool is_dump, struct buf *text);

/* ---- exec_bin_sasl.c --------------------------------------------------------------------- */

/*
 * The opcodes BIN_SASL_*: mechanism in r->key, what it says in r->value. Context: worker, read
 * side.
 */
enum turn_stop exec_bin_sasl(struct turn *t, const struct request *r);

#endif
