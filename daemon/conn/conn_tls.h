/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of a connection that differ with TLS.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_TLS_H
#define MAYFLY_DAEMON_CONN_CONN_TLS_H

#include <stdbool.h>

#include "lib/base/clock.h"

struct conn;

/* A handshake that takes longer is given up, milliseconds. */
#define TLS_HANDSHAKE_MS 10000

/* It was accepted: its handshake begins. Context: worker. */
void conn_tls_begin(struct conn *c);

/* Its input may have come, or be there. Context: worker. */
void conn_tls_input(struct conn *c);

/*
 * It was parked for a step of its handshake. *slice_end is 0 before the first connection of a
 * turn of the loop. Context: worker.
 */
void conn_tls_shake(struct conn *c, usec_t *slice_end);

#endif
