/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats_gather.h. A message that posts itself to the worker it is on runs again in that
 * worker's next turn, after its sockets (mailbox.c).
 */
#include "daemon/stats/stats_gather.h"

#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

static struct stats_gather *gather_of(struct message *m)
{
    return (struct stats_gather *)(void *)m; /* the message stands first */
}

/* Back on the asker: end the answer and give the buffer back. */
static void on_back(struct message *m, void *receiver)
{
    struct stats_gather *g = gather_of(m);
    struct worker *w = receiver;
    struct buf *out = g->out.buf;
    stats_done_fn done = g->done;
    void *arg = g->done_arg;

    must_be_worker(w);
    must(w == g->asker && w->later_count > 0);
    if (g->finish != NULL) {
        g->finish(g);
    }
    (void)stats_out_end(&g->out, g->start);
    mem_free(g);
    w->later_count--;
    done(arg, out);
}

static void post_to(struct stats_gather *g, struct worker *w)
{
    mailbox_post(&w->mailbox, &g->message);
}

static void on_asker(struct message *m, void *receiver)
{
    struct stats_gather *g = gather_of(m);

    must_be_worker(receiver);
    if (!g->visit(g, receiver)) {
        post_to(g, receiver);
        return;
    }
    on_back(m, receiver);
}

static void on_worker(struct message *m, void *receiver)
{
    struct stats_gather *g = gather_of(m);
    struct worker *w = receiver;

    must_be_worker(w);
    debug_must(w->id == g->next);
    if (!g->visit(g, w)) {
        post_to(g, w);
        return;
    }
    g->next++;
    if (g->next < w->crew->worker_count) {
        post_to(g, &w->crew->workers[g->next]);
    } else {
        m->fn = on_back;
        post_to(g, g->asker);
    }
}

enum stats_result stats_gather_begin(struct stats_gather *g, struct worker *asker,
                                     enum stats_gather_span span, struct buf *out,
                                     stats_done_fn done, void *arg)
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
    g->message.fn = span == GATHER_ASKER ? on_asker : on_worker;
    asker->later_count++;
    post_to(g, span == GATHER_ASKER ? asker : &asker->crew->workers[0]);
    return STATS_LATER;
}
