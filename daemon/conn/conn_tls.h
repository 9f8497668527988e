/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a TLS connection does differently from a plain one.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_TLS_H
#define MAYFLY_DAEMON_CONN_CONN_TLS_H

#include <stdbool.h>

#include "lib/base/clock.h"

struct conn;

/* A handshake that takes longer is given up, milliseconds. */
#define TLS_HANDSHAKE_MS 10000

/* What it waits for may have come; it is in no list. Context: worker. */
void conn_tls_event(struct conn *c);

/*
 * It left the ready list. *slice_end is 0 before the first connection of a turn of the loop.
 * Context: worker.
 */
void conn_tls_serve(struct conn *c, usec_t *slice_end);

#endif
