/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues of replies for a socket. struct out is a run of bytes with at most one large value in
 * it, which is sent without a copy. struct outq owns the unsent part: bytes are copied, whole
 * segments of a value are pinned.
 */
#ifndef MAYFLY_DAEMON_NET_OUTQ_H
#define MAYFLY_DAEMON_NET_OUTQ_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/net/conn_io.h"
#include "lib/base/buf.h"
#include "lib/base/context.h"
#include "lib/base/span.h"
#include "lib/shard/value.h"

struct out {
    char *base;             /* [borrowed] where bytes are composed; in an outq: owned */
    size_t cap;             /* bytes at base */
    size_t len;             /* bytes composed */
    size_t sent;            /* of these, sent; never beyond mark while value_left */
    size_t mark;            /* the value goes before byte `mark` */
    size_t value_left;      /* unsent bytes of the value, with `part`; 0: no value */
    struct span part;       /* [borrowed] the rest of the part that is being sent */
    struct value_walk walk; /* the parts after it */
    bool part_is_pinnable;  /* part is in a whole segment */
};

enum send_status {
    SEND_ALL,     /* everything was taken */
    SEND_BLOCKED, /* the socket is full: wait until it is writable */
    SEND_BROKEN,  /* the connection is lost */
};

/* Discard the composed bytes, sent or not. Context: worker. */
static inline void out_clear(struct out *o)
{
    must_be_a_worker();
    o->len = 0;
    o->sent = 0;
    o->mark = 0;
    o->value_left = 0;
    o->part = span_of(NULL, 0);
    o->part_is_pinnable = false;
}

/* Start composing at base. Context: worker. */
static inline void out_init(struct out *o, char *base, size_t cap)
{
    must_be_a_worker();
    o->base = base;
    o->cap = cap;
    out_clear(o);
}

/*
 * Append the whole value of an item to the composed bytes; there must be no value yet. Borrows
 * the item until all is sent or kept. Context: read side.
 */
void out_value(struct out *o, const struct shard *shard, const struct item *item);

/* Number of unsent bytes. Context: worker. */
static inline size_t out_left(const struct out *o)
{
    must_be_a_worker();
    return o->len - o->sent + o->value_left;
}

/*
 * Write to a connection until all is sent or the socket is full, and add the number of sent
 * bytes to *written. Context: worker; read side while there is a value that is not pinned.
 */
enum send_status out_send(struct out *o, struct io *io, uint64_t *written);

struct outq {
    struct out out;       /* base is owned; NULL while nothing waits */
    struct value_pin pin; /* [const] while is_pinned */
    bool is_pinned;
};

/* Make an empty queue; takes no memory. Context: worker. */
void outq_init(struct outq *q);

/* Drop everything: release the bytes, undo the pin. Context: worker. */
void outq_fini(struct outq *q);

static inline bool outq_is_empty(const struct outq *q)
{
    return out_left(&q->out) == 0;
}

/* Bytes of memory that it owns. Context: worker. */
static inline size_t outq_held_bytes(const struct outq *q)
{
    must_be_a_worker();
    return q->out.cap;
}

/*
 * Copy bytes to the end. False when there is no memory; the queue is unchanged. Context:
 * worker.
 */
bool outq_append(struct outq *q, const char *bytes, size_t n);

/*
 * Keep the rest of o for after the section: copy bytes, pin whole segments. o is empty then.
 * Only an empty queue can keep a value. Returns false without memory: the rest of o is lost,
 * and the connection must be closed. Context: worker; read side while o refers to a value.
 */
bool outq_keep(struct outq *q, struct out *o);

/*
 * Append the whole queue to `to`, including the bytes of a pinned value; the queue is not
 * changed. False: no memory. Context: worker.
 */
bool outq_copy(const struct outq *q, struct buf *to);

/* As out_send(); a queue that becomes empty releases its memory. Context: worker. */
enum send_status outq_send(struct outq *q, struct io *io, uint64_t *written);

#endif
