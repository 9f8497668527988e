/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats_gather.h. Nothing is done when the message arrives, only in slices of the task: so
 * any number of answers under way take no more of a turn of the loop than the budget of tasks.
 */
#include "daemon/stats/stats_gather.h"

#include <stddef.h>

#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

static struct stats_gather *gather_of(struct message *m)
{
    return (struct stats_gather *)(void *)m; /* the message stands first */
}

static struct stats_gather *gather_of_task(struct task *task)
{
    return (struct stats_gather *)(void *)((char *)task - offsetof(struct stats_gather, task));
}

/* It arrived at a worker. */
static void on_arrival(struct message *m, void *receiver)
{
    struct stats_gather *g = gather_of(m);

    must_be_worker(receiver);
    task_add(receiver, &g->task);
}

/* Hand it to a worker: through its mailbox, unless it is this one. */
static void hand_over(struct stats_gather *g, struct worker *from, struct worker *to)
{
    if (from == to) {
        task_add(to, &g->task);
    } else {
        mailbox_post(&to->mailbox, &g->message);
    }
}

/* Back on the asker: end the answer and give the buffer back. */
static void end(struct stats_gather *g, struct worker *w)
{
    struct buf *out = g->out.buf;
    stats_done_fn done = g->done;
    void *arg = g->done_arg;

    must(w == g->asker && w->later_count > 0);
    (void)stats_out_end(&g->out, g->start);
    mem_free(g);
    w->later_count--;
    done(arg, out);
}

/* Done on a worker: on to the next, or home. */
static void move_on(struct stats_gather *g, struct worker *w)
{
    if (g->next + 1 < w->crew->worker_count) {
        g->next++;
        hand_over(g, w, &w->crew->workers[g->next]);
    } else {
        g->is_home = true;
        hand_over(g, w, g->asker);
    }
}

static void run_slice(struct task *task, struct worker *w)
{
    struct stats_gather *g = gather_of_task(task);

    must_be_worker(w);
    if (g->is_home) {
        if (g->finish == NULL || g->finish(g)) {
            end(g, w);
            return;
        }
    } else if (g->visit(g, w)) {
        move_on(g, w);
        return;
    }
    task_add(w, task);
}

enum stats_result stats_gather_begin(struct stats_gather *g, struct worker *asker,
                                     struct buf *out, stats_done_fn done, void *arg)
{
    must_be_worker(asker);
    must(g->visit != NULL && done != NULL);
    g->asker = asker;
    g->next = 0;
    g->start = buf_len(out);
    g->out.buf = out;
    if (g->out.prefix == NULL) {
        g->out.prefix = "";
    }
    g->done = done;
    g->done_arg = arg;
    g->is_home = false;
    g->message.fn = on_arrival;
    g->task.run = run_slice;
    asker->later_count++;
    hand_over(g, asker, &asker->crew->workers[0]);
    return STATS_LATER;
}
