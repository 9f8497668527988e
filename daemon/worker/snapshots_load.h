/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of snapshots.h, for its own files: how the file is loaded at the start, and what becomes of
 * one that is not.
 */
#ifndef MAYFLY_DAEMON_WORKER_SNAPSHOTS_LOAD_H
#define MAYFLY_DAEMON_WORKER_SNAPSHOTS_LOAD_H

#include "daemon/worker/snapshots.h"

/* What the load has to know; whether it runs beside requests is decided here. Context: main. */
void snapshots_prepare_load(struct snapshots *s);

/* Load the file that is open, with its logs. Context: the thread. */
void snapshots_load_now(struct snapshots *s);

/*
 * Rename a file that cannot be used, with its logs, to NAME.bad, or to NAME.2.bad and so on if
 * that is there. False: it has kept its name; that was logged.
 * Context: the thread, or main before it.
 */
bool snapshots_keep_as_bad(const struct snapshots *s);

/*
 * The log does not belong to the file any more: remove the file. Context: a thread of the log,
 * or the thread.
 */
void snapshots_on_gap(void *arg);

#endif
