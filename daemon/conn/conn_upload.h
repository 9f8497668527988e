/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uploads: values that do not fit the connection's buffer, while they are being received over
 * several turns. conn_upload_read.h reads them from the socket straight into their segments.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_UPLOAD_H
#define MAYFLY_DAEMON_CONN_CONN_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/conn/conn_execute.h"

struct conn;
struct worker;

/*
 * A value was stored that could have been placed (body_place()): try to place the next one?
 * Context: worker.
 */
bool conn_upload_expects_place(struct conn *c);

/*
 * Has the value that r announces probably arrived, and may it be read directly into its
 * segments? Context: worker, in a turn.
 */
bool conn_upload_may_place(const struct turn *t, const struct request *r);

/*
 * Begin to receive the value that r announces; may_place: the result of
 * conn_upload_may_place(). Context: worker, in a turn.
 */
enum turn_stop conn_upload_begin(struct turn *t, const struct request *r, bool may_place);

/*
 * Continue: take bytes of the value from p, then its line end, then store it. *used is the
 * number of bytes consumed; the lot grows by bytes that are read after it. TURN_GOES_ON when
 * the upload has ended. Context: worker, in a turn.
 */
enum turn_stop conn_upload_take(struct turn *t, struct lot *lot, const char *p, size_t len,
                                size_t *used);

/* Its upload's waiter in the line of a shard; NULL: it has no upload. Context: worker. */
const struct waiter *conn_upload_waiter(const struct conn *c);

/* Is it in the line of uploads (upload_line.h), so that it will be woken? Context: worker. */
bool conn_upload_has_place(const struct conn *c);

/* Leave both lines, if it is in one. A retry joins again, at the end. Context: worker. */
void conn_upload_leave_lines(struct conn *c);

/* Are bytes missing that can be read directly into its room? Context: worker. */
bool conn_upload_wants_read(const struct conn *c);

/* Release it without a reply. Context: worker. */
void conn_upload_drop(struct conn *c);

#endif
