/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The audit log (-o audit_log): log lines about logins and commands of operators. At most
 * AUDIT_BURST of each kind are written in LOG_LIMIT_S seconds, so that no client fills a disk;
 * the next line says how many were left out. No line contains a password or a value.
 */
#ifndef MAYFLY_DAEMON_COMMAND_AUDIT_H
#define MAYFLY_DAEMON_COMMAND_AUDIT_H

#include <stdbool.h>

#include "daemon/command/turn.h"

#define AUDIT_BURST 100u

/* Bytes of a name that are shown. */
#define AUDIT_NAME_MAX 64u

/* Write a name for the log: cut to AUDIT_NAME_MAX, with unusual characters replaced. */
void audit_put_name(struct span name, char out[AUDIT_NAME_MAX + 1]);

/*
 * A login has succeeded or failed. user: the name that the client sent; empty if unknown.
 * Context: worker.
 */
void audit_login(const struct client *c, const struct worker *w, struct span user,
                 bool is_good);

/* A command of operators was executed, or refused. Context: worker. */
void audit_command(const struct turn *t, const struct request *r, bool is_allowed);

#endif
