/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of uploads, shared by conn_upload.c, which runs in turns, and conn_upload_read.c,
 * which reads outside of turns. On the worker of the connection.
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

/* A large value that is being received. */
struct upload {
    struct request req;        /* its key points to `key`, its args to `args` */
    struct body *body;         /* owned */
    struct conn *conn;         /* [borrowed] */
    struct pace pace;          /* in the worker's list */
    size_t len;                /* announced bytes */
    size_t held;               /* bytes of the body, as counted in body_pending_bytes */
    struct waiter waiter;      /* in the shard's queue for segments */
    struct upload_place place; /* in the queue of uploads at their memory limit */
    uint32_t moves; /* the queue's counter of moves when the timeout was last checked */
    bool may_place; /* try in the next turn to read it directly into its segments */
    bool is_shed;   /* must be aborted in favour of others */
    char key[ITEM_KEY_MAX];
    char args[]; /* of ms: the flags */
};

/* Bytes that the uploads of all workers hold, and their limit. */
uint64_t upload_held_by_all(const struct worker *w);
uint64_t upload_held_max(const struct worker *w);

/* body_room(), within the memory limit of uploads. */
enum outcome upload_find_room(struct conn *c, bool may_wait, char **to, size_t *room);

/*
 * body_take_ahead() within the same limit, before a read; body_give_ahead() after the last read
 * of a turn.
 */
void upload_take_ahead(struct conn *c);
void upload_give_ahead(struct conn *c);

/* n bytes were received. Restarts the time limit of the next wait. */
void upload_note_filled(struct conn *c, size_t n);

/* Bytes of its value received so far. */
int64_t upload_received(const struct upload *u);

#endif
