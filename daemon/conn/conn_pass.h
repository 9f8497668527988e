/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that go along when the process becomes another program (net/passed_on.h): those
 * that are between two requests, with what was read of them and not executed, and what was
 * composed and not sent. One that is in the middle of something goes on with that while the
 * server stops, and goes along when it is through. TLS does not, nor does who watches, restores
 * or is in the middle of a login.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_PASS_H
#define MAYFLY_DAEMON_CONN_CONN_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/passed_conns.h"

struct conn;
struct worker;

/*
 * If connections go along, and this one can now: give it away and close it here (true).
 * Context: worker, outside a section; it stands in no round.
 */
bool conn_pass_on(struct conn *c);

/* Is there more to read, of what came before the stop, or to stream? Context: worker. */
bool conn_pass_has_input(const struct conn *c);

/* Will it go along when it is through with what it has begun? Context: worker. */
bool conn_passes_later(const struct conn *c);

/*
 * It would, but its client has sent and taken nothing for a while (WORKER_STALL_MS), and others
 * wait. Context: worker.
 */
bool conn_holds_others_up(const struct conn *c);

#endif
