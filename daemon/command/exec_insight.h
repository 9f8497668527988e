/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands on what is measured of requests.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_INSIGHT_H
#define MAYFLY_DAEMON_COMMAND_EXEC_INSIGHT_H

#include "daemon/command/turn.h"

/* latency reset. Context: worker, outside a section. */
enum turn_stop exec_latency(struct turn *t, const struct request *r);

/* slowlog get, len, reset. Context: worker, outside a section. */
enum turn_stop exec_slowlog(struct turn *t, const struct request *r);

#endif
