/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that read large values slowly: what their sockets did not take at once stays pinned
 * until it is sent.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_PIN_H
#define MAYFLY_DAEMON_CONN_CONN_PIN_H

#include "daemon/conn/conn_state.h"

struct worker;

/* So many bytes of its queue were written, pinned or not. Context: worker. */
void conn_pin_wrote(struct kept *k, uint64_t bytes);

/* Are there such connections? Context: worker. */
bool conn_pin_has_any(const struct worker *w);

/*
 * Close readers that do not progress if all that is pinned and dead is too much. Context:
 * worker, outside a section.
 */
void conn_pin_check(struct worker *w, msec_t now);

#endif
