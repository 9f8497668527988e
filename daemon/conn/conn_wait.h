/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose next store or flush waits for room. They are in a separate list in the
 * order in which they began to wait, so retrying them does not touch other connections.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_WAIT_H
#define MAYFLY_DAEMON_CONN_CONN_WAIT_H

#include <stdbool.h>

#include "daemon/conn/conn_state.h"

struct worker;

/* It waits from now on, or waits on. Context: worker. */
void conn_wait_begin(struct conn *c);

/* It does not wait any more; nothing happens if it did not. Context: worker. */
void conn_wait_end(struct conn *c);

/* Is it in a line without having been woken? Then a retry would fail. Context: worker. */
bool conn_wait_is_in_vain(const struct conn *c);

/* It has to wait: set when it is retried if it is not woken. Context: worker. */
void conn_wait_settle(struct conn *c);

#endif
