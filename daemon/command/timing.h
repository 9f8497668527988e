/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the latency of requests. The time of a request starts with the event that announced
 * its last bytes. Waiting in the server counts, so a request that was read but not executed yet
 * keeps its start time. The time ends when the socket has accepted the whole reply; for a
 * request without a reply, when it has accepted the replies around it.
 *
 * Requests that were read together share their start time, and those whose replies are sent
 * together share their end time. So the clock is read once for the events of a turn of the
 * loop, and once for each time that replies are sent.
 *
 * An upload counts from the event of its last bytes too; if it ever had to wait for room, from
 * the first wait.
 */
#ifndef MAYFLY_DAEMON_COMMAND_TIMING_H
#define MAYFLY_DAEMON_COMMAND_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/command/turn.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "proto/request.h"

/*
 * The requests of the client come next, in a turn that measures. Context: worker, in the turn,
 * after turn_take().
 */
void timing_begin(struct turn *t);

/* Remember which request is the first of those that are timed. Context: worker, in the turn. */
void timing_name(struct turn *t, const struct request *r);

/* The request is one of the samples for hot keys. Context: worker, in the turn. */
void timing_sample(struct turn *t, const struct request *r);

/* The same for the keys of a line of several. Context: worker, in a turn that measures. */
void timing_sample_keys(struct turn *t, const struct span *key, const uint64_t *hash,
                        unsigned n);

/* A request is executed, and its reply composed. Context: worker, in a turn that measures. */
static inline void timing_count(struct turn *t, const struct request *r)
{
    must_be_worker(t->w);
    t->timed.n[command_kinds[r->command]]++;
    if (MF_UNLIKELY(t->timed.first_state == FIRST_WANTED)) {
        timing_name(t, r);
    }
    if (MF_UNLIKELY(--t->w->insight.sample_left == 0)) {
        timing_sample(t, r);
    }
}

/*
 * The same for a request whose answer is not complete yet: it ends when timing_client_sent()
 * finds nothing left to send. Context: worker, in a turn that measures, in a section.
 */
void timing_late(struct turn *t, const struct request *r);

/*
 * The composed replies were passed to the socket or to the client's queue. Context: worker, in
 * a turn that measures.
 */
void timing_sent(struct turn *t);

/*
 * The requests of the client in this turn have ended. is_kept: some were read but not executed,
 * or wait for something; is_halfway: one was received in part. Context: worker, in a turn that
 * measures, after the last timing_sent().
 */
void timing_end(struct turn *t, bool is_kept, bool is_halfway);

/*
 * An event of the client came, and its handling is deferred. Context: worker.
 */
void timing_defer(struct client *c, struct worker *w);

/*
 * The client's socket accepted `bytes` bytes, possibly the last ones. Context: worker; c->timed
 * is not NULL.
 */
void timing_client_sent(struct client *c, struct worker *w, uint64_t bytes);

#endif
