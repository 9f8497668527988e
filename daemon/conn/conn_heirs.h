/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections inherited from the previous program (conn_pass.h), on their way to the worker
 * that continues them.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_HEIRS_H
#define MAYFLY_DAEMON_CONN_CONN_HEIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/passed_conns.h"

struct conn_heirs;
struct conn_origin;
struct worker;

/* Make room for `max` connections for one worker. NULL: no memory. Context: any thread. */
struct conn_heirs *conn_heirs_create(uint32_t max);

/*
 * Add a connection with this origin. If it returns true it owns the descriptor, and has copied
 * the rest. False: no memory. Context: the thread that has them.
 */
bool conn_heirs_put(struct conn_heirs *h, const struct passed_conn *state,
                    const struct conn_origin *origin);

/*
 * Pass them to a worker, which serves them, and null the pointer; accepts NULL. They have been
 * counted as opened (crew_conn_opened()) already. Context: any thread.
 */
void conn_heirs_post(struct conn_heirs **h, struct worker *w);

#endif
