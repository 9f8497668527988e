/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes input in turns: requests of a connection are parsed, executed and answered.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_EXECUTE_H
#define MAYFLY_DAEMON_CONN_CONN_EXECUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/command/turn.h"
#include "proto/bin_compose.h"
#include "proto/request.h"
#include "proto/text_parse.h"

struct conn;
struct task;

/* ---- conn_batch.c ------------------------------------------------------------------------ */

/*
 * Requests parsed before the first of them is executed, so that their cache misses overlap.
 * Parsing ahead only prefetches: each request still sees the effects of the previous one. For
 * conn_*.c only.
 */

struct step {
    struct request req;
    const char *end; /* its end in the input; not set if the last request is incomplete */
};

/*
 * Room for parsed requests, of one connection or of several. An incomplete request takes a step
 * too, so there is room for the key of each.
 */
struct steps {
    unsigned used;
    char *key_room; /* the free part of `keys` */
    struct step step[TURN_BATCH];
    char keys[TURN_BATCH * TEXT_KEY_ROOM]; /* keys decoded from base64 */
};

/* Requests parsed from one connection's input. */
struct batch {
    struct step *step; /* [borrowed] n of them */
    unsigned n;
    /* the input after them, when status is not PARSE_OK */
    enum parse_status status;
    struct request *last; /* [borrowed] */
    size_t last_used;
    enum reply reply;
    enum bin_reply bin_reply; /* the same of the binary protocol */
};

static inline void steps_clear(struct steps *steps)
{
    steps->used = 0;
    steps->key_room = steps->keys;
}

static inline bool steps_are_full(const struct steps *steps)
{
    return steps->used == TURN_BATCH;
}

/*
 * Parse requests of c into the free steps until these are full, the input ends, or it has
 * something other than a complete request. The first byte of a connection decides its protocol
 * if that is PROTOCOL_AUTO. is_alone: no other input is parsed before these requests are
 * executed. Context: worker, in a turn.
 */
void batch_parse(const struct turn *t, struct conn *c, struct steps *steps, struct batch *b,
                 const char *p, size_t len, bool is_alone);

/*
 * Its client is guarded: determine its rights, and turn requests that are not allowed into
 * refusals (guard.h). Context: worker, in its turn, before they are executed.
 */
void batch_guard(struct turn *t, struct batch *b);

/*
 * Prefetch the items of all parsed requests; their buckets were prefetched while parsing.
 * Context: worker, in a turn.
 */
static inline void steps_prefetch(const struct turn *t, const struct steps *steps)
{
    must_be_in_turn(t);
    if (steps->used > 1) {
        engine_prefetch_items(t->route, &steps->step[0].req.hash, sizeof(steps->step[0]),
                              steps->used);
    }
}

/* ---- conn_execute.c ---------------------------------------------------------------------- */

enum input_kind {
    INPUT_READ, /* bytes in the worker's read buffer; unconsumed ones are kept */
    INPUT_KEPT, /* bytes at the front of c->in; consumed ones are removed */
};

/* Input of a connection on its way through a turn. */
struct lot {
    struct conn *conn; /* [borrowed] */
    char *p;
    size_t len;
    size_t behind; /* free bytes after the input in the worker's buffer */
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

/* ---- conn_round.c ------------------------------------------------------------------------ */

/*
 * A round: several readable connections are read in sequence, and then served in one turn, in
 * that order. For conn*.c and the worker.
 *
 * This has two benefits. Requests are parsed before the first is executed, so the cache misses
 * of clients that do not pipeline overlap, like those of one that does. And the kernel's code
 * for reading and the server's code for executing are each used several times while they are in
 * the cache. Clock, section and routing table are read once a round.
 *
 * The input stays in the worker's buffer until the round is run. It is run when it is full,
 * when the buffer is needed for something else or another connection is served, and at the
 * latest before the worker asks for new events. A connection is in a round only once, and
 * nothing else happens to it meanwhile.
 */

/* Connections in a round. */
#define ROUND_LOTS 32u

/*
 * The round is run when its input has this many bytes: the rest of the buffer is for one read.
 */
#define ROUND_FILL_BYTES (16u * 1024)

struct round {
    unsigned n;
    size_t filled; /* bytes of the worker's buffer that are in use */
    struct lot lot[ROUND_LOTS];
    struct steps steps;
};

/* NULL: no memory. Context: any thread. */
struct round *round_create(void);

/* Takes NULL. Context: any thread; the round is empty. */
void round_destroy(struct round *r);

/*
 * Add len bytes of input of c, at p, which is the start of the buffer's free part. Context:
 * worker; c is in no round, and the round is not full.
 */
void round_add(struct conn *c, char *p, size_t len);

/* Is the round full? */
static inline bool round_is_full(const struct round *r)
{
    return r->n == ROUND_LOTS || r->filled >= ROUND_FILL_BYTES;
}

/*
 * Serve the connections of the round: their input was read and waits in the worker's buffer,
 * which is free then. Context: worker, outside a section.
 */
void conn_round_run(struct worker *w);

#endif
