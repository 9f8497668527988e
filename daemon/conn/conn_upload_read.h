/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads large values outside of turns, and aborts uploads that are too slow.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_UPLOAD_READ_H
#define MAYFLY_DAEMON_CONN_CONN_UPLOAD_READ_H

#include <stdbool.h>

#include "lib/base/clock.h"

struct conn;
struct worker;

/* Read what it waits for (conn_upload_wants_read()). Context: worker, outside a section. */
void conn_upload_read(struct conn *c);

/*
 * While uploads hold too much memory, shed those that come too slowly, with an error to their
 * clients. True: there are uploads, check again. Context: worker, outside a section.
 */
bool conn_upload_check(struct worker *w, msec_t now);

#endif
