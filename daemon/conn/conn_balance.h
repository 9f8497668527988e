/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that go to another worker because theirs is hot (balance.h). They go as
 * conn_move.h says, so nothing is closed; one that is in the middle of something stays.
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
