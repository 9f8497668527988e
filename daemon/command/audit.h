/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of the log for those who have to know who did what: logins and commands of operators,
 * with -o audit_log. There are at most AUDIT_BURST of each kind in LOG_LIMIT_S seconds, so that
 * no client fills a disk; the next line says how many were left out. Passwords and values are
 * in none of them.
 */
#ifndef MAYFLY_DAEMON_COMMAND_AUDIT_H
#define MAYFLY_DAEMON_COMMAND_AUDIT_H

#include <stdbool.h>

#include "daemon/command/turn.h"

#define AUDIT_BURST 100u

/* What is shown of a name, bytes. */
#define AUDIT_NAME_MAX 64u

/* A name for the log: short, and with nothing that could be taken for more than a name. */
void audit_put_name(struct span name, char out[AUDIT_NAME_MAX + 1]);

/*
 * A login has ended. user: what the client called itself, empty if that is not known. Context:
 * worker.
 */
void audit_login(const struct client *c, const struct worker *w, struct span user,
                 bool is_good);

/* A command of operators was executed, or refused. Context: worker. */
void audit_command(const struct turn *t, const struct request *r, bool is_allowed);

#endif
