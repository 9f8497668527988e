/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What connections keep between turns: input that is not a whole request yet, or waits behind
 * replies, and replies that a socket did not take. All workers together may keep a limit (-o
 * read_buf_mem_limit), and one connection a quarter of it. When three quarters are in use,
 * connections go that have not moved for seconds, the greatest first. When all is in use, the
 * one goes that is the greatest burden: its bytes times the time it has not moved for, or,
 * where its peer takes bytes, times the time it needs for one.
 *
 * A connection that keeps replies moves if its peer takes any byte of them; one that keeps only
 * input moves if bytes come from it at a least rate. What a peer took is looked up only when a
 * connection may have to go: the kernel knows how much of what it was given the peer has not
 * taken yet. So a reader whose buffers are large counts as what it is, however seldom its
 * socket reports room.
 *
 * Each worker has its holders in lists by size, a list for each power of two, in the order in
 * which they were last looked at. No step costs more when there are more connections.
 */
#ifndef MAYFLY_DAEMON_WORKER_HOLDERS_H
#define MAYFLY_DAEMON_WORKER_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "lib/base/clock.h"

struct io;
struct worker;

/* Powers of two from 1 byte to 2 GiB; what is larger is with the last. */
#define HOLDER_CLASSES 32u

/* One connection. */
struct holder {
    /* [worker] */
    struct io *io;      /* [borrowed] */
    size_t bytes;       /* what it keeps; 0: it is in no list */
    msec_t since;       /* when it was looked at last, or came to its list */
    msec_t moves_until; /* what it moved so far is enough until then */
    int64_t unsent;   /* not taken by its peer when that was last known; -1: keeps no output */
    msec_t out_since; /* when it began to keep output, if it does */
    uint64_t taken;   /* bytes that its peer is known to have taken since then */
    bool is_apart;    /* it counts for nobody, and never has to go */
    struct list_link link; /* in the list of its size, unless it is apart */
};

/* Those of a worker. */
struct holders {
    /* [worker] */
    struct list list[HOLDER_CLASSES]; /* the first was not looked at for the longest time */
    int64_t bytes;                    /* the sum of all */
    int64_t told;                     /* what of it is in the sum of all workers */
    msec_t looked;                    /* when a connection was last looked for that may go */
    msec_t told_others;               /* when the other workers were last asked to look */
    bool is_crowded;                  /* one may have to go: holders_victim() shall be asked */
};

/* Those of a worker that has no connections yet. Context: before start. */
void holders_init(struct holders *h);

/* Context: worker. */
void holder_init(struct holder *x, struct io *io);

/*
 * It keeps so many bytes of input and of output now. Sets is_crowded when it grew and too much
 * is kept. Context: worker.
 */
void holder_set(struct worker *w, struct holder *x, size_t in_bytes, size_t out_bytes);

/*
 * What it keeps leaves the worker with it, and joins another one: x->bytes stays as it is.
 * Context: worker, each.
 */
void holder_leave(struct worker *w, struct holder *x);
void holder_join(struct worker *w, struct holder *x);

/*
 * It is a replica's, whose parts of the stream are bounded, and which repl_timeout closes if it
 * does not move: what others keep is no reason to close it. Context: worker.
 */
void holder_set_apart(struct worker *w, struct holder *x);

/* Bytes came from it. Context: worker. */
void holder_sent(const struct worker *w, struct holder *x, uint64_t bytes);

/* Its socket took bytes of what it keeps, so its peer had taken some. Context: worker. */
void holder_wrote(const struct worker *w, struct holder *x, uint64_t bytes);

/* Does it keep more than any one connection may? Context: worker. */
bool holder_has_too_much(const struct worker *w, const struct holder *x);

/*
 * The one that has to go; NULL: none, or none of this worker. Context: worker, outside a
 * section.
 */
struct holder *holders_victim(struct worker *w, msec_t now);

/* What the connections of all workers together may keep. Context: any thread. */
int64_t holders_limit_bytes(const struct worker *w);

/* Do all workers together keep so much that connections may have to go? Context: worker. */
bool holders_are_many(const struct worker *w);

#endif
