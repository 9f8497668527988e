/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are ready and wait for their next turn. Either they used up their share of a
 * turn, or their event came when the loop had done enough in this turn. They are served in
 * order of arrival, but those whose last turn was little work are served first. This file also
 * serves connections that wait for room or for the log, and those whose event has come.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_READY_H
#define MAYFLY_DAEMON_CONN_CONN_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/conn/conn_state.h"
#include "daemon/worker/worker.h"
#include "lib/base/budgets.h"

/*
 * Must an event wait, because others have had enough in this turn of the loop? Context: worker.
 */
static inline bool conn_ready_must_wait(const struct conn *c)
{
    uint32_t units = c->worker->loop_units;

    must_be_worker(c->worker);
    return MF_UNLIKELY(units >= BUDGET_loop_units) &&
           (!c->is_light || units >= BUDGET_light_all_units);
}

/* Defer the event of a connection until others had their turns. Context: worker. */
void conn_ready_defer(struct conn *c);

/*
 * Serve waiting connections: up to BUDGET_loop_units of work for light ones, and as much for
 * the others. Context: worker, outside a section.
 */
void conn_ready_serve(struct worker *w);

/* Its socket has input, or takes queued replies: continue. Context: worker. */
void conn_take_event(struct conn *c);

/*
 * Retry connections that wait for room, in order: all, or those whose turn has come. Context:
 * worker, outside a section.
 */
void conn_ready_retry(struct worker *w, bool all);

/*
 * More of the log is on the disk: send replies that waited for it. Context: worker.
 */
void conn_ready_release(struct worker *w);

#endif
