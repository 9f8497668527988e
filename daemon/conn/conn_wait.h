/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose next store or flush waits for room. They are in a list of their own, in the
 * order in which they began to wait, so trying them again does not touch the others.
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

/* Does it stand in a line, and is not called? Then it would find nothing. Context: worker. */
bool conn_wait_is_in_vain(const struct conn *c);

/* It has been told to wait: when it is tried again if nobody wakes it. Context: worker. */
void conn_wait_settle(struct conn *c);

#endif
