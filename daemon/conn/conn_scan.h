/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check of all connections of a worker.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_SCAN_H
#define MAYFLY_DAEMON_CONN_CONN_SCAN_H

#include "lib/base/clock.h"

struct worker;

/*
 * Once a second or so: close idle connections (settings.idle_timeout). Context: worker.
 */
void conn_scan(struct worker *w, msec_t now);

#endif
