/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logins of the text protocol whose password may be stored as a hash: a thread of the pool
 * computes the hash, and the client waits. For conn_auth.c only.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_LOGIN_H
#define MAYFLY_DAEMON_CONN_CONN_LOGIN_H

#include "daemon/command/turn.h"
#include "proto/text_auth.h"

/*
 * Start the check of a login: TURN_LOGS_IN. If too many logins wait, the client gets an error
 * and may retry: TURN_CLOSES. Context: worker, in a turn.
 */
enum turn_stop conn_login_begin(struct turn *t, const struct text_auth *offer);

#endif
