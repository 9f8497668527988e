/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats_parts.h. All work is done in slices of the task, none when the message arrives: so
 * any number of answers use no more of a turn of the loop than the budget of tasks.
 */
#include "daemon/stats/stats_parts.h"

#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* It arrived at a worker. */
static void on_arrival(struct message *m, void *receiver)
{
    struct stats_gather *g = MF_OUTER(m, struct stats_gather, message);

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

static bool has_portion(const struct stats_gather *g)
{
    return buf_len(g->out.buf) >= GATHER_PORTION_BYTES && g->stage != GATHER_IS_DROPPED;
}

bool stats_gather_pauses(const struct stats_gather *g, const struct worker *w)
{
    must_be_worker(w);
    return has_portion(g) || tasks_slice_is_over(w);
}

/* Pass it to the worker that continues it. */
static void route(struct stats_gather *g, struct worker *w)
{
    bool goes_home = g->stage == GATHER_FINISHES || has_portion(g);

    hand_over(g, w, goes_home ? g->asker : &w->crew->workers[g->next]);
}

/* On the requesting worker: end the answer and return the buffer. */
static void end(struct stats_gather *g, struct worker *w)
{
    struct buf *out = g->out.buf;
    stats_done_fn done = g->done;
    void *arg = g->done_arg;

    must(w == g->asker && w->later_count > 0);
    (void)stats_out_end(&g->out, 0);
    mem_free(g);
    w->later_count--;
    done(arg, out, NULL);
}

static void visit(struct stats_gather *g, struct worker *w)
{
    if (g->kind->visit(g, w)) {
        g->next++;
        if (g->next == g->workers) {
            g->stage = GATHER_FINISHES;
        }
    }
    route(g, w);
}

static void finish(struct stats_gather *g, struct worker *w)
{
    if (g->kind->finish == NULL || g->kind->finish(g) == GATHER_DONE) {
        end(g, w);
        return;
    }
    g->stage = GATHER_VISITS;
    g->next = 0;
    route(g, w);
}

/* First where it was under way, then at home. */
static void drop(struct stats_gather *g, struct worker *w)
{
    if (g->kind->drop != NULL && !g->was_dropped) {
        g->kind->drop(g, w);
        g->was_dropped = true;
    }
    if (w == g->asker) {
        end(g, w);
    } else {
        hand_over(g, w, g->asker);
    }
}

static void run_slice(struct task *task, struct worker *w)
{
    struct stats_gather *g = MF_OUTER(task, struct stats_gather, task);

    must_be_worker(w);
    if (has_portion(g)) {
        must(w == g->asker);
        g->done(g->done_arg, g->out.buf, g); /* it stays here until stats_go_on() */
        return;
    }
    switch (g->stage) {
    case GATHER_VISITS:
        visit(g, w);
        break;
    case GATHER_FINISHES:
        finish(g, w);
        break;
    case GATHER_IS_DROPPED:
        drop(g, w);
        break;
    }
}

void stats_go_on(struct stats_gather *g, bool is_wanted)
{
    bool is_visiting = g->stage == GATHER_VISITS;

    must_be_worker(g->asker);
    must(buf_len(g->out.buf) == 0 || !is_wanted); /* from here on another worker writes to it */
    if (!is_wanted) {
        g->stage = GATHER_IS_DROPPED;
    }
    hand_over(g, g->asker, is_visiting ? &g->asker->crew->workers[g->next] : g->asker);
}

enum stats_result stats_gather_begin(const struct gather_kind *kind, struct worker *asker,
                                     struct buf *out, stats_done_fn done, void *arg)
{
    struct stats_gather *g = mem_zalloc(kind->size);

    must_be_worker(asker);
    must(done != NULL && buf_len(out) == 0);
    if (g == NULL) {
        return STATS_NO_MEMORY;
    }
    g->kind = kind;
    g->asker = asker;
    g->workers = roster_created(&asker->crew->roster);
    g->out = stats_out_to(out);
    g->done = done;
    g->done_arg = arg;
    g->message.fn = on_arrival;
    g->task.run = run_slice;
    asker->later_count++;
    route(g, asker);
    return STATS_LATER;
}
