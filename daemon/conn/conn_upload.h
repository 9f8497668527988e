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
 * A value was stored that might have been placed: shall the next one be? Context: worker.
 */
bool conn_upload_expects_place(struct conn *c);

/*
 * Is the value that r announces likely to be there, and may it be read into its place? Context:
 * worker, in a turn.
 */
bool conn_upload_may_place(const struct turn *t, const struct request *r);

/*
 * Begin to receive the value that r announces; may_place: conn_upload_may_place() of it.
 * Context: worker, in a turn.
 */
enum turn_stop conn_upload_begin(struct turn *t, const struct request *r, bool may_place);

/*
 * Go on with it: takes bytes of its value from p, then its line end, then stores. *used is what
 * was consumed; the lot grows by what was read after it. TURN_GOES_ON when it is through.
 * Context: worker, in a turn.
 */
enum turn_stop conn_upload_take(struct turn *t, struct lot *lot, const char *p, size_t len,
                                size_t *used);

/* Its upload's place in the line of a shard; NULL: it has no upload. Context: worker. */
const struct waiter *conn_upload_waiter(const struct conn *c);

/* Is it in the line of uploads (upload_line.h), so that it will be woken? Context: worker. */
bool conn_upload_has_place(const struct conn *c);

/* Are bytes missing that can be read directly into its room? Context: worker. */
bool conn_upload_wants_read(const struct conn *c);

/* Release it without a reply. Context: worker. */
void conn_upload_drop(struct conn *c);

#endif
