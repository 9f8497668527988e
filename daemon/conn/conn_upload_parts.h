/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of an upload: for conn_upload.c, which handles it in turns, and
 * conn_upload_read.c, which reads it outside of turns. On the worker of the connection.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_UPLOAD_PARTS_H
#define MAYFLY_DAEMON_CONN_CONN_UPLOAD_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/pace.h"
#include "daemon/conn/conn_state.h"
#include "daemon/worker/upload_line.h"
#include "lib/store/body.h"

/* A large value on its way in. */
struct upload {
    struct request req;        /* its key points to `key`, its args to `args` */
    struct body *body;         /* owned */
    struct conn *conn;         /* [borrowed] */
    struct pace pace;          /* in the worker's list */
    size_t len;                /* announced bytes */
    size_t held;               /* by the body, as counted in body_pending_bytes */
    struct waiter waiter;      /* among those that wait for segments of the shard */
    struct upload_place place; /* among those that met the bound of what they hold */
    uint32_t moves; /* of their line, when it was last looked at for an end of waiting */
    bool may_place; /* to be tried in the next turn: read it into its place */
    bool is_shed;   /* it has to give way to others */
    char key[ITEM_KEY_MAX];
    char args[]; /* of ms: the flags */
};

/* What uploads of all workers hold, and may hold, bytes. */
uint64_t upload_held_by_all(const struct worker *w);
uint64_t upload_held_max(const struct worker *w);

/* As body_room(), within what uploads may hold. */
enum outcome upload_find_room(struct conn *c, bool may_wait, char **to, size_t *room);

/*
 * Take more segments for the next read, within the same; and after the last read of a turn give
 * back those beyond that of the next byte.
 */
void upload_take_ahead(struct conn *c);
void upload_give_ahead(struct conn *c);

/* n bytes have come. What is waited for next may take a second of its own. */
void upload_note_filled(struct conn *c, size_t n);

/* Bytes of its value that have come. */
int64_t upload_received(const struct upload *u);

#endif
