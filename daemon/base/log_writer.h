/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that writes the log. If standard error is a pipe that nobody reads or a terminal
 * that was stopped, only this thread waits. Before it runs and after it has stopped, callers
 * write their lines themselves; no client is connected then.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_WRITER_H
#define MAYFLY_DAEMON_BASE_LOG_WRITER_H

#include <stdbool.h>

#include "lib/base/span.h"

/* Is the thread running, so that clients may be connected? Context: any thread. */
bool log_writer_is_on(void);

/*
 * Write a line, or hand it to the thread. False: it was dropped. Never waits while the thread
 * runs. Context: any thread.
 */
bool log_writer_put(struct span line);

/* See log_start(), log_flush() and log_stop() in log.h. */
bool log_writer_start(void);
void log_writer_flush(void);
void log_writer_stop(void);

#endif
