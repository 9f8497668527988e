/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes input in turns: what a connection has sent is parsed, executed and answered.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_EXECUTE_H
#define MAYFLY_DAEMON_CONN_CONN_EXECUTE_H

#include "daemon/conn/conn_batch.h"

struct conn;
struct task;
struct worker;

enum input_kind {
    INPUT_READ, /* bytes in the worker's read buffer; what is not consumed is kept */
    INPUT_KEPT, /* bytes at the front of c->in; what is consumed leaves it */
};

/* Input of a connection on its way through a turn. */
struct lot {
    struct conn *conn; /* [borrowed] */
    char *p;
    size_t len;
    size_t behind; /* free bytes after it in the worker's buffer */
    size_t grown;  /* of these, bytes read during the turn: they are input too */
    enum input_kind kind;
    bool is_parsed; /* batch has its first requests */
    bool is_lost;   /* the connection must be closed */
    struct batch batch;
};

/* Make a lot of unparsed input, with no free room after it. */
static inline void lot_init(struct lot *lot, struct conn *c, enum input_kind kind, char *p,
                            size_t len)
{
    lot->conn = c;
    lot->p = p;
    lot->len = len;
    lot->behind = 0;
    lot->grown = 0;
    lot->kind = kind;
    lot->is_parsed = false;
}

/*
 * Execute a lot, send its replies, keep the rest of its input. Context: worker, in a turn.
 */
void lot_execute(struct turn *t, struct lot *lot);

/*
 * After that: set what the connection waits for, or close it. Context: worker, outside a
 * section.
 */
void lot_finish(const struct lot *lot);

/*
 * Execute input in a separate turn, flush, keep the rest of the input, settle. Context: worker,
 * outside a section.
 */
void conn_execute(struct conn *c, enum input_kind kind, char *p, size_t len);

/* Continue with the kept input. Context: as above. */
void conn_execute_kept(struct conn *c);

/* The same when its task gets a slice. Context: as above. */
void conn_execute_task(struct task *task, struct worker *w);

#endif
