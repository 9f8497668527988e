/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long requests take. The time of a request begins when it could be read whole: with the
 * event that its last bytes came with. What the server makes it wait for counts, so a request
 * that was read and not executed yet keeps its time. It ends when all of its reply is with the
 * socket; of one without a reply, when the replies around it are.
 *
 * Requests that were read together share the first of these moments, and those whose replies
 * leave together the second: so the clock is read once for the events of a turn of the loop,
 * and once for each time that replies are sent.
 *
 * A large value that is on its way in counts from its last bytes too, or, if it ever had to
 * wait for room, from there.
 */
#ifndef MAYFLY_DAEMON_COMMAND_TIMING_H
#define MAYFLY_DAEMON_COMMAND_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/command/turn.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "proto/request.h"

struct client;
struct worker;

/*
 * The requests of the client come next, in a turn that measures. Context: worker, in the turn,
 * after turn_take().
 */
void timing_begin(struct turn *t);

/* Remember which request is the first of those that are timed. Context: worker, in the turn. */
void timing_name(struct turn *t, const struct request *r);

/* The request is one that is looked at for hot keys. Context: worker, in the turn. */
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
 * The same, but its answer is not complete: the client has it when timing_client_sent() finds
 * nothing left. Context: worker, in a turn that measures, in a section.
 */
void timing_late(struct turn *t, const struct request *r);

/*
 * What was composed is with the socket, or with the client's queue. Context: worker, in a turn
 * that measures.
 */
void timing_sent(struct turn *t);

/*
 * The client's requests are through. is_kept: some were read that could not be executed yet,
 * or wait for something; is_halfway: one has come in part. Context: worker, in a turn that
 * measures, after the last timing_sent().
 */
void timing_end(struct turn *t, bool is_kept, bool is_halfway);

/*
 * An event of the client came, which is taken only later. Context: worker.
 */
void timing_defer(struct client *c, struct worker *w);

/*
 * The client's socket took so many bytes, perhaps the last of what there was. Context: worker;
 * c->timed is not NULL.
 */
void timing_client_sent(struct client *c, struct worker *w, uint64_t bytes);

#endif
