/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The round goes over all workers; each writes the lines of its own connections.
 */
#include "daemon/stats/stats_conns.h"

#include <stdio.h>

#include "daemon/conn/conn.h"
#include "daemon/conn/udp.h"
#include "daemon/service/listener.h"
#include "daemon/service/server.h"
#include "daemon/stats/stats_gather.h"
#include "lib/base/mem.h"

/* Connections described in one turn of a worker: some 2 us each. */
#define CONNS_PER_SLICE 128u

struct conns_gather {
    struct stats_gather gather; /* stands first */
    uint64_t cursor;            /* in the list of the worker that has it */
    bool is_amid;               /* of that list */
};

struct lines {
    struct stats_out *out;
    msec_t now;
};

static void put_tag(struct lines *l, const char *tag)
{
    if (tag[0] != '\0') {
        stats_put_text(l->out, "tag", tag);
    }
}

static void put_listener(void *arg, const struct socket_open *socket)
{
    struct lines *l = arg;
    char prefix[16];

    snprintf(prefix, sizeof(prefix), "%d:", socket->fd);
    l->out->prefix = prefix;
    stats_put_text(l->out, "addr", socket->name);
    put_tag(l, socket->origin.tag);
    stats_put_text(l->out, "state", "conn_listening");
    stats_put_i64(l->out, "secs_since_last_cmd", (l->now - CLOCK_FIRST_MS) / 1000);
    l->out->prefix = "";
}

static void put_conn(void *arg, const struct conn_info *info)
{
    struct lines *l = arg;
    char prefix[16];
    msec_t idle = l->now > info->last_cmd ? l->now - info->last_cmd : 0;

    snprintf(prefix, sizeof(prefix), "%d:", info->fd);
    l->out->prefix = prefix;
    stats_put_text(l->out, "addr", info->addr);
    if (info->listen_addr[0] != '\0') {
        stats_put_text(l->out, "listen_addr", info->listen_addr);
    }
    put_tag(l, info->tag);
    stats_put_text(l->out, "state", info->state);
    if (info->resps_waiting > 0) {
        stats_put_u64(l->out, "resps_waiting", info->resps_waiting);
    }
    stats_put_i64(l->out, "secs_since_last_cmd", idle / 1000);
    l->out->prefix = "";
}

static void put_udp(void *arg, int fd, const char *name)
{
    struct lines *l = arg;
    char prefix[16];

    snprintf(prefix, sizeof(prefix), "%d:", fd);
    l->out->prefix = prefix;
    stats_put_text(l->out, "UDP", "UDP");
    stats_put_text(l->out, "addr", name);
    stats_put_text(l->out, "state", "conn_read");
    stats_put_i64(l->out, "secs_since_last_cmd", (l->now - CLOCK_FIRST_MS) / 1000);
    l->out->prefix = "";
}

static bool visit(struct stats_gather *g, struct worker *w)
{
    struct conns_gather *cg = (struct conns_gather *)(void *)g;
    struct lines l = {&g->out, worker_now(w)};

    if (!cg->is_amid) {
        cg->cursor = 0;
        if (g->next == 0) {
            listeners_each(w->server, put_listener, &l);
        }
        udp_each(w, put_udp, &l);
    }
    cg->is_amid = conn_each(w, &cg->cursor, CONNS_PER_SLICE, put_conn, &l);
    return !cg->is_amid;
}

enum stats_result stats_conns(struct worker *w, struct buf *out, stats_done_fn done, void *arg)
{
    struct conns_gather *cg = mem_zalloc(sizeof(*cg));

    if (cg == NULL) {
        return STATS_NO_MEMORY;
    }
    cg->gather.visit = visit;
    return stats_gather_begin(&cg->gather, w, GATHER_ALL_WORKERS, out, done, arg);
}
