/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passing connections on when the process becomes another program (net/passed_on.h). A
 * connection between two requests is passed on, with input that was not executed, and replies
 * that were not sent. A connection in the middle of something continues while the server stops,
 * and is passed on when that is done. Connections are not passed on if they use TLS, watch,
 * restore or are in the middle of a login.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_PASS_H
#define MAYFLY_DAEMON_CONN_CONN_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/passed_conns.h"

struct conn;
struct worker;

/*
 * If connections are being passed on, and this one can be now: pass it on, close it here and
 * return true. Context: worker, outside a section; it is in no round.
 */
bool conn_pass_on(struct conn *c);

/* Is there input from before the stop to read, or output to stream? Context: worker. */
bool conn_pass_has_input(const struct conn *c);

/* Will it be passed on once its operation in progress has ended? Context: worker. */
bool conn_passes_later(const struct conn *c);

/*
 * Would it be, but its client has neither sent nor taken anything for WORKER_STALL_MS, while
 * other connections wait to be passed on? Context: worker.
 */
bool conn_holds_others_up(const struct conn *c);

#endif
