/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work on a worker that is longer than a request: dumps, walks over all items, statistics. It
 * is done in slices. All tasks of a worker share one time budget in a turn of the loop, so
 * other clients wait for that budget, whatever the number of tasks. Tasks that find the budget
 * used up wait in a list, and are served in turn.
 */
#ifndef MAYFLY_DAEMON_WORKER_TASKS_H
#define MAYFLY_DAEMON_WORKER_TASKS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/list.h"
#include "lib/base/clock.h"

struct task;
struct worker;

/* Do one slice; task_add() it again if more is left. Context: worker. */
typedef void (*task_fn)(struct task *task, struct worker *w);

/* Embedded in what it is a task of. */
struct task {
    task_fn run;
    struct list_link link; /* in the list of those that wait */
};

/* Those of a worker. [worker] */
struct tasks {
    struct list waiting; /* for a slice, the oldest first */
    usec_t spent_us;     /* in this turn of the loop, outside of tasks_run() */
    usec_t slice_begin;  /* of the slice that runs */
    usec_t slice_end;
    bool is_running; /* tasks_run() runs one */
    bool is_fresh;   /* and nothing was done in its slice yet */
};

/* Does it wait for a slice? */
static inline bool task_is_waiting(const struct task *task)
{
    return list_has_link(&task->link);
}

/* Queue for a slice; nothing happens if the task is queued already. Context: worker. */
void task_add(struct worker *w, struct task *task);

/* Leave the queue; nothing happens if the task is not in it. Context: worker. */
void task_remove(const struct worker *w, struct task *task);

/*
 * May such work be done now? Within a task's slice: yes, until the slice is over. Otherwise: if
 * no task waits and the budget of this turn of the loop is not used up. True begins a slice,
 * which tasks_end_slice() ends. False: queue a task instead. Context: worker.
 */
bool tasks_begin_slice(struct worker *w);

/* Context: worker. */
void tasks_end_slice(struct worker *w);

/* Is the slice that was begun over? Reads the clock. Context: worker. */
bool tasks_slice_is_over(const struct worker *w);

/*
 * Serve those that wait from what is left of the budget, one of them at least. Context: worker,
 * outside a section.
 */
void tasks_run(struct worker *w);

#endif
