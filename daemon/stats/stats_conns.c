/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats conns`: the message visits all workers; each writes the lines of its own connections.
 */
#include "daemon/stats/stats_parts.h"

#include "daemon/worker/crew.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"

struct conns_gather {
    struct stats_gather gather;      /* must be the first member */
    struct stats_conn_cursor cursor; /* in the list of the worker that has it */
    bool is_amid;                    /* in the middle of that list */
};

struct lines {
    struct stats_out *out;
    msec_t now;
};

static void put_socket(void *arg, const struct stats_socket *s)
{
    struct lines *l = arg;
    msec_t idle = l->now > s->last_cmd ? l->now - s->last_cmd : 0;

    stats_prefix(l->out, "%d:", s->fd);
    if (s->takes_datagrams) {
        stats_put_text(l->out, "UDP", "UDP");
    }
    stats_put_text(l->out, "addr", s->addr);
    if (s->listen_addr[0] != '\0') {
        stats_put_text(l->out, "listen_addr", s->listen_addr);
    }
    if (s->tag[0] != '\0') {
        stats_put_text(l->out, "tag", s->tag);
    }
    stats_put_text(l->out, "state", s->state);
    if (s->resps_waiting > 0) {
        stats_put_u64(l->out, "resps_waiting", s->resps_waiting);
    }
    stats_put_i64(l->out, "secs_since_last_cmd", idle / 1000);
}

static bool visit_conns(struct stats_gather *g, struct worker *w)
{
    struct conns_gather *cg = (struct conns_gather *)(void *)g;
    const struct stats_sources *from = &w->crew->stats->sources;
    struct lines l = {&g->out, worker_now(w)};

    debug_must(from->each_conn != NULL);
    if (!cg->is_amid) {
        if (g->next == 0) {
            from->each_listener(w->crew, put_socket, &l);
        }
        from->each_datagram(w, put_socket, &l);
    }
    do {
        cg->is_amid = from->each_conn(w, &cg->cursor, STEPS_A_LOOK, put_socket, &l);
    } while (cg->is_amid && !stats_gather_pauses(g, w));
    return !cg->is_amid;
}

static void drop_conns(struct stats_gather *g, struct worker *w)
{
    struct conns_gather *cg = (struct conns_gather *)(void *)g;

    w->crew->stats->sources.leave_conns(&cg->cursor);
}

const struct gather_kind gather_conns = {
    .size = sizeof(struct conns_gather), .visit = visit_conns, .drop = drop_conns};
