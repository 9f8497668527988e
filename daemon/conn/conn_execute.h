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
    size_t behind; /* bytes of room in the worker's buffer after it */
    size_t grown;  /* bytes that were read there in the turn: they are input too */
    enum input_kind kind;
    bool is_parsed; /* batch has the first of it */
    bool is_lost;   /* the connection is to be closed */
    struct batch batch;
};

/* What came is alone in the buffer, as far as is known, and nothing is parsed. */
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
 * Execute a lot, send its replies, keep what is left of its input. Context: worker, in a turn.
 */
void lot_execute(struct turn *t, struct lot *lot);

/* Then wait for the right thing next, or close. Context: worker, outside a section. */
void lot_finish(const struct lot *lot);

/*
 * Execute input in a turn of its own, flush, keep what has to be kept, settle. Context: worker,
 * outside a section.
 */
void conn_execute(struct conn *c, enum input_kind kind, char *p, size_t len);

/* Continue with the kept input. Context: as above. */
void conn_execute_kept(struct conn *c);

/* The same when its task gets a slice. Context: as above. */
void conn_execute_task(struct task *task, struct worker *w);

#endif
