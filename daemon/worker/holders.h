/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that connections keep between turns: incomplete requests, input that waits for earlier
 * replies, and unsent replies. The connections of all workers together have a limit (-o
 * read_buf_mem_limit), and one connection may keep a quarter of it. When three quarters are in
 * use, connections without progress for seconds are closed, the largest first. When all is in
 * use, the connection with the highest burden is closed. Its burden is its bytes times the time
 * since its last progress, or, if its peer is reading, times the time per byte.
 *
 * A connection that keeps replies makes progress if its peer reads any byte of them. A
 * connection that keeps only input makes progress if bytes arrive at a minimum rate. The bytes
 * read by a peer are determined only when its connection may have to be closed: the kernel
 * knows how many bytes the peer has not acknowledged. So a reader with large buffers is judged
 * correctly, even if its socket rarely becomes writable.
 *
 * Each worker has its holders in lists by size, one list per power of two, in the order in
 * which they were last examined. The cost of a step does not depend on the number of
 * connections.
 */
#ifndef MAYFLY_DAEMON_WORKER_HOLDERS_H
#define MAYFLY_DAEMON_WORKER_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "lib/base/clock.h"

struct worker;

/* Powers of two from 1 byte to 2 GiB; the last class has all larger sizes. */
#define HOLDER_CLASSES 32u

/* One connection. */
struct holder {
    /* [worker] */
    struct io *io;      /* [borrowed] */
    size_t bytes;       /* bytes that it keeps; 0: it is in no list */
    msec_t since;       /* when it was last examined, or joined its list */
    msec_t moves_until; /* it counts as moving until then, by what it moved already */
    int64_t unsent;   /* not taken by its peer when that was last known; -1: keeps no output */
    msec_t out_since; /* when it began to keep output, if it does */
    uint64_t taken;   /* bytes that its peer is known to have taken since then */
    bool is_apart;    /* not counted, and never closed because of its bytes */
    struct list_link link; /* in the list of its size, unless it is apart */
};

/* Those of a worker. */
struct holders {
    /* [worker] */
    struct list list[HOLDER_CLASSES]; /* in the order of the last examination, oldest first */
    int64_t bytes;                    /* the sum of all */
    int64_t told;                     /* the part of it that is in the sum of all workers */
    msec_t looked;                    /* when the last search for a connection to close was
                                         made */
    msec_t told_others;               /* when the other workers were last asked to look */
    bool is_crowded;                  /* one may have to be closed: call holders_victim() */
};

/* For a worker that has no connections yet. Context: before start. */
void holders_init(struct holders *h);

/* Context: worker. */
void holder_init(struct holder *x, struct io *io);

/*
 * Set the bytes of input and of output that it keeps. Sets is_crowded if it grew and too much
 * is kept. Context: worker.
 */
void holder_set(struct worker *w, struct holder *x, size_t in_bytes, size_t out_bytes);

/*
 * Move the account of a connection from one worker to another; x->bytes is unchanged. Context:
 * the worker that it leaves, or joins.
 */
void holder_leave(struct worker *w, struct holder *x);
void holder_join(struct worker *w, struct holder *x);

/*
 * It belongs to a replica, whose parts of the stream are bounded, and which repl_timeout closes
 * if it does not move. So bytes kept by others are no reason to close it. Context: worker.
 */
void holder_set_apart(struct worker *w, struct holder *x);

/* Bytes were received from it. Context: worker. */
void holder_sent(const struct worker *w, struct holder *x, uint64_t bytes);

/* Its socket accepted kept bytes, so its peer had read some. Context: worker. */
void holder_wrote(const struct worker *w, struct holder *x, uint64_t bytes);

/* Does it exceed the limit of a single connection? Context: worker. */
bool holder_has_too_much(const struct worker *w, const struct holder *x);

/*
 * The connection to be closed; NULL: none, or one of another worker. Context: worker, outside a
 * section.
 */
struct holder *holders_victim(struct worker *w, msec_t now);

/* Limit of bytes kept by the connections of all workers together. Context: any thread. */
int64_t holders_limit_bytes(const struct worker *w);

/*
 * Do all workers together keep enough that connections may have to be closed? Context: worker.
 */
bool holders_are_many(const struct worker *w);

#endif
