/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stats command of a connection, on its worker. Some answers are gathered from other
 * workers; until they are complete the connection reads and executes nothing. It may close
 * meanwhile: then the answer is released when it comes.
 */
#include "daemon/conn/conn_state.h"

#include "daemon/command/exec_bin.h"
#include "daemon/stats/stats.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

static void ask_destroy(struct stats_ask **ask)
{
    buf_fini(&(*ask)->reply);
    mem_free(*ask);
    *ask = NULL;
}

/* Answers are written as text. */
static bool convert(const struct stats_ask *ask, struct buf *reply)
{
    return ask->req.cls == CLASS_ADMIN ||
           exec_bin_convert_stats(&ask->req, ask->is_dump, reply);
}

static void refuse(struct turn *t, const struct request *r)
{
    if (r->cls == CLASS_ADMIN) {
        turn_reply(t, REPLY_NO_MEMORY_STATS);
    } else {
        exec_bin_reply(t, r, BIN_REPLY_NO_MEMORY_STATS, 0);
    }
}

/* The answer is complete. */
static void on_answered(void *arg, struct buf *reply)
{
    struct stats_ask *ask = arg;
    struct conn *c = ask->ask.conn;
    bool is_kept = c != NULL && convert(ask, reply) &&
                   outq_append(&c->outq, buf_begin(reply), buf_len(reply));

    ask_destroy(&ask);
    if (c == NULL) {
        return;
    }
    c->ask = NULL;
    c->last_active = worker_now(c->worker);
    if (!is_kept || !conn_count_output(c)) {
        ctr_add(&c->worker->counters, is_kept ? CTR_slow_drops : CTR_response_obj_oom, 1);
        conn_close(c);
        return;
    }
    conn_write(c);
}

enum turn_stop conn_stats(struct turn *t, const struct request *r)
{
    struct stats_ask *ask;
    enum stats_result result;
    struct span args = r->cls == CLASS_ADMIN ? r->args : r->key;

    if (r->cls != CLASS_ADMIN && !exec_bin_has_stat(args)) {
        exec_bin_reply(t, r, BIN_REPLY_NOT_FOUND, 0);
        return TURN_GOES_ON;
    }
    ask = mem_alloc(sizeof(*ask));
    if (ask == NULL) {
        refuse(t, r);
        return TURN_GOES_ON;
    }
    ask->ask.conn = t->conn;
    ask->req = *r;
    ask->is_dump = exec_bin_is_dump(args);
    buf_init(&ask->reply);
    result = stats_command(t->w, args, &ask->reply, on_answered, ask);
    if (result == STATS_LATER) {
        t->conn->ask = &ask->ask;
        return TURN_ASKED;
    }
    if (result == STATS_DONE && convert(ask, &ask->reply)) {
        turn_emit(t, buf_begin(&ask->reply), buf_len(&ask->reply));
    } else {
        refuse(t, r);
    }
    ask_destroy(&ask);
    return TURN_GOES_ON;
}
