/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are ready and wait for their next turn: those that were cut off because they
 * had their share, and those whose event came when the turn of the loop had done enough. They
 * are served in the order in which they came, but those whose last turn was little work before
 * the others. For conn*.c and the worker.
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
 * Count bytes read or sent without a turn, and the event that caused it, as work of this turn
 * of the loop; turns are counted by lot_execute(). Context: worker.
 */
static inline void conn_ready_count(struct conn *c, size_t bytes)
{
    must_be_worker(c->worker);
    c->worker->loop_units += (uint32_t)(bytes / COST_UNIT_BYTES) + COST_EVENT_UNITS;
}

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

/* Its event has to wait: its turn comes after those of others. Context: worker. */
void conn_ready_defer(struct conn *c);

/*
 * Serve those that wait, up to BUDGET_loop_units of work for those that need little and as much
 * for the others. Context: worker, outside a section.
 */
void conn_ready_serve(struct worker *w);

#endif
