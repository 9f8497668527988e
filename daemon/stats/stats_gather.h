/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that need more than the worker that was asked, or more time than one turn: a message
 * goes from worker to worker, is a task of each until its work there is done, and comes back to
 * the worker that asked, which ends the answer. Only one thread at a time has it, so it needs
 * no lock.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_GATHER_H
#define MAYFLY_DAEMON_STATS_STATS_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"
#include "daemon/stats/stats.h"
#include "daemon/stats/stats_out.h"
#include "daemon/worker/tasks.h"

struct worker;

/* The first field of what one kind of answer needs; all of it is one block of mem_alloc(). */
struct stats_gather {
    struct message message;
    struct task task;     /* of the worker that has it */
    struct worker *asker; /* [borrowed] */
    uint32_t next;        /* the worker that has it, or had it last */
    bool is_home;         /* all were visited, and the asker has it */
    struct stats_out out;
    size_t start; /* length of the caller's buffer when the answer began */
    stats_done_fn done;
    void *done_arg;

    /*
     * Go on on one worker until the slice is over (tasks_slice_is_over()). True: done there.
     * Context: worker w.
     */
    bool (*visit)(struct stats_gather *g, struct worker *w);
    /*
     * All were visited: append what is left, in slices too, and then release what belongs to
     * the gather. True: done. May be NULL. Context: worker, the asker.
     */
    bool (*finish)(struct stats_gather *g);
};

/*
 * Start, on the first worker; takes g. The asker counts it in later_count
 * until done was called. Always STATS_LATER. Context: worker.
 */
enum stats_result stats_gather_begin(struct stats_gather *g, struct worker *asker,
                                     struct buf *out, stats_done_fn done, void *arg);

#endif
