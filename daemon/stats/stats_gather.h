/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that need other workers, or more time than one turn. A message goes from worker to
 * worker, is a task of each until its work there is done, and returns to the worker that was
 * asked, which ends the answer. Only one thread at a time has it, so it needs no lock.
 *
 * A long answer is sent in portions. Whenever GATHER_PORTION_BYTES are ready, the message
 * returns to its first worker, and stays there until the client has taken them. So clients that
 * do not read hold little memory.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_GATHER_H
#define MAYFLY_DAEMON_STATS_STATS_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/stats/stats.h"
#include "daemon/stats/stats_out.h"
#include "daemon/worker/worker.h"

struct worker;

/* Text that makes a portion. */
#define GATHER_PORTION_BYTES (8u * 1024)

enum gather_stage { GATHER_VISITS, GATHER_FINISHES, GATHER_IS_DROPPED };

/* The result of finish(). */
enum gather_end {
    GATHER_AGAIN, /* visit all workers once more */
    GATHER_DONE,
};

struct stats_gather;

/* What the gathers of one kind of answer have in common. */
struct gather_kind {
    size_t size; /* of a gather with what follows it; zero at the beginning */

    /* Work on one worker until stats_gather_pauses(). True: done there. Context: worker w. */
    bool (*visit)(struct stats_gather *g, struct worker *w);
    /*
     * All were visited: append what is left, and release what belongs to the gather unless all
     * are to be visited again. May be NULL. Context: worker, the asker.
     */
    enum gather_end (*finish)(struct stats_gather *g);
    /*
     * The answer is not wanted any more: release what belongs to the gather. May be NULL.
     * Context: worker w, the one that was or would have been visited next; or the asker.
     */
    void (*drop)(struct stats_gather *g, struct worker *w);
};

extern const struct gather_kind gather_conns;   /* `stats conns`: all sockets */
extern const struct gather_kind gather_hotkeys; /* the keys that are asked for most */
extern const struct gather_kind gather_bigkeys; /* the largest items, by a walk over all */
extern const struct gather_kind gather_detail;  /* `stats detail dump`: PREFIX lines */

/* The first member of the struct of each kind of answer, which is one block of mem_alloc(). */
struct stats_gather {
    const struct gather_kind *kind;

    struct message message;
    struct task task;     /* of the worker that has it */
    struct worker *asker; /* [borrowed] */
    uint32_t next;        /* the worker that is visited next */
    uint32_t workers;     /* workers that existed when it began; these are visited */
    enum gather_stage stage;
    bool was_dropped;
    struct stats_out out;
    stats_done_fn done;
    void *done_arg;
};

/*
 * Start a gather, on the first worker. It counts in later_count of the asker until done was
 * called for the last time. Same contract as stats_command(). Context: worker.
 */
enum stats_result stats_gather_begin(const struct gather_kind *kind, struct worker *asker,
                                     struct buf *out, stats_done_fn done, void *arg);

/* Is the slice over, or a portion complete? Context: worker w, which has it. */
bool stats_gather_pauses(const struct stats_gather *g, const struct worker *w);

#endif
