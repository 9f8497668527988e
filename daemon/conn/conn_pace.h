/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regular checks for clients that hold memory and are too slow, or wait for too long.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_PACE_H
#define MAYFLY_DAEMON_CONN_CONN_PACE_H

struct worker;

/* Interval of checks while there are readers of pinned values, or uploads; milliseconds. */
#define CONN_PACE_PINS_MS    500
#define CONN_PACE_UPLOADS_MS 100

/*
 * Check them, and schedule the next check if any are left. Examines only clients that hold such
 * memory, and a bounded number of them. Context: worker, outside a section.
 */
void conn_pace_check(struct worker *w);

/*
 * Close connections whose handshake, login or header is late and, if the disk does not take the
 * log, those whose replies wait for it. Context: worker, outside a section.
 */
void conn_pace_check_deadlines(struct worker *w);

/* Options may have changed: redo what depends on the old values. Context: as above. */
void conn_pace_options_changed(struct worker *w);

#endif
