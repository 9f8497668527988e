/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Input that is kept between two turns, and the accounting of its bytes.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_KEEP_H
#define MAYFLY_DAEMON_CONN_CONN_KEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/conn/conn_execute.h"

/*
 * Keep what a turn did not consume. False when there is no memory for it, or the connection
 * keeps too much; counted. Context: worker.
 */
bool conn_keep_input(struct conn *c, enum input_kind kind, const char *p, size_t len,
                     size_t used);

/*
 * What is kept of its input has changed, or n bytes of it came. False: it is too much. Context:
 * worker.
 */
bool conn_count_kept(struct conn *c, size_t n);

#endif
