/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meta commands: exec_meta.c has those that read and the dispatch, exec_meta_write.c those
 * that write. Context of all: worker, read side.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_META_H
#define MAYFLY_DAEMON_COMMAND_EXEC_META_H

#include "daemon/command/turn.h"

/* Any meta command; ms with its value in r->value. */
enum turn_stop exec_meta(struct turn *t, const struct request *r);

/* ms; body as in exec_store(). */
enum turn_stop exec_meta_set(struct turn *t, const struct request *r, struct body **body);

/* What r, an ms, asks of the engine. */
void exec_meta_prepare_set(const struct turn *t, const struct request *r, struct store *s);

/* The deadline of T, or of p with a number; none without either. */
struct meta_flags;
msec_t exec_meta_deadline(const struct turn *t, const struct meta_flags *flags);

enum turn_stop exec_meta_delete(struct turn *t, const struct request *r);
enum turn_stop exec_meta_arith(struct turn *t, const struct request *r);

#endif
