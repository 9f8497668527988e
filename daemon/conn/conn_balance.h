/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves connections from a hot worker to another one (balance.h). They are moved by
 * conn_move.h, so none is closed. A connection that is in the middle of something stays.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_BALANCE_H
#define MAYFLY_DAEMON_CONN_CONN_BALANCE_H

#include <stdbool.h>

struct balance_order;
struct worker;

/* worker_duties. Context: worker, outside a section. */
void conn_balance_obey(struct worker *w, const struct balance_order *order);
bool conn_balance_some(struct worker *w);

#endif
