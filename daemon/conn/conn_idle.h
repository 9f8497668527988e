/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Disconnects idle clients (settings.idle_timeout). A connection is in the slot of the second
 * in which it will have been idle for too long. It is checked only when that second has come,
 * and is moved to a later slot if something arrived since. So a request costs nothing here, and
 * a check examines only connections that may be due, however many connections there are.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_IDLE_H
#define MAYFLY_DAEMON_CONN_CONN_IDLE_H

#include "daemon/conn/conn_state.h"
#include "lib/base/clock.h"

struct worker;

/* Start to check a connection; does nothing without a timeout. Context: worker. */
void conn_idle_begin(struct conn *c);

/* The timeout may have changed: sort all connections again. Context: worker. */
void conn_idle_changed(struct worker *w);

/*
 * Call about once a second: closes connections that were idle for too long. If there are very
 * many, closes some of them, and arranges a call in the next turn of the loop. Context: worker,
 * outside a section.
 */
void conn_idle_check(struct worker *w, msec_t now);

#endif
