/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the worker that the connection leaves, and then on the one that it
 * joins.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

/* A connection on its way. */
struct conn_move {
    struct message message; /* must be first */
    struct conn *c;         /* owned */
    struct worker *to;      /* [borrowed] */
    uint32_t doubts;        /* the notices that its worker had received when it left */
    uint32_t farewells;
};

/* ---- on the new worker ------------------------------------------------------------------- */

/* The connection cannot be polled here: close it. */
static void drop(struct conn *c)
{
    struct worker *w = c->worker;

    log_warn("conn, connection closed while moving to another worker (no memory)");
    c->close_reason = CLOSE_ERROR;
    conn_log(c, WATCH_CONN_CLOSE);
    conn_release(c);
    crew_conn_closed(w, c->client.origin);
    mem_free(c);
}

/* Apply the notices that all connections got while it moved; that may close it. */
static void catch_up(const struct conn_move *m, struct worker *w)
{
    if (m->doubts != w->doubts) {
        conn_auth_doubt(m->c);
    }
    if (m->farewells != w->farewells && !conn_is_closed(m->c)) {
        conn_dismiss(m->c);
    }
}

static void join(struct conn *c, struct worker *w)
{
    c->poll.data = c;
    conn_list_add(c);
    ctr_add(&w->counters, CTR_curr_connections, 1);
    ctr_add(&w->counters, CTR_conns_moved, 1);
    client_join(&c->client, w);
    c->idle_pass = 0; /* by the passes of the other worker */
    conn_idle_begin(c);
    conn_note_login(c);
}

static void on_arrival(struct message *message, void *receiver)
{
    struct conn_move *m = (struct conn_move *)(void *)message; /* its first member */
    struct worker *w = receiver;
    struct conn *c = m->c;

    must_be_worker(w);
    must_not_be_reading();
    worker_now(w);
    c->worker = w;
    w->loop_units += COST_EVENT_UNITS;
    w->deals |= w->id >= roster_active(&w->crew->roster); /* meanwhile it leaves as well */
    if (uv_poll_init(&w->loop, &c->poll, c->client.io.fd) != 0) {
        client_join(&c->client, w);
        drop(c);
    } else {
        join(c, w);
        catch_up(m, w);
        if (conn_is_closed(c)) {
            /* by that */
        } else if (w->is_stopping) {
            conn_drain(c);
        } else {
            conn_settle(c);
            conn_stream(c);
        }
        conn_shed_if_crowded(w);
    }
    roster_conn_joins(&w->crew->roster);
    roster_has_come(&w->crew->roster, w->id);
    if (roster_is_quiet(&w->crew->roster, w->id)) {
        conn_accounts_check(w); /* not after each of many */
    }
    mem_free(m);
}

/* ---- on the old worker ------------------------------------------------------------------- */

/* Has its login a time limit? Then it ends soon: by a login, or because it is closed. */
static bool must_hurry(const struct conn *c)
{
    return list_has_link(&c->deadline_link) &&
           conn_deadline_limit(c->worker, DEADLINE_LOGIN) > 0;
}

/* May the connection move? Not during an operation that ends soon: see conn_steps.h. */
static bool may_go(const struct conn *c)
{
    const struct client *client = &c->client;

    switch ((enum conn_state)c->state) {
    case CONN_INPUT:
    case CONN_EVENT:
    case CONN_TURN:
    case CONN_TASK:
    case CONN_ANSWER:
    case CONN_OUTPUT:
        break;
    default:
        return false;
    }
    return (c->then == CONN_INPUT || c->then == CONN_TURN || c->then == CONN_TASK ||
            c->then == CONN_ANSWER || c->then == CONN_ENDS) &&
           c->upload == NULL && client->log_state != LOG_HELD && !must_hurry(c) &&
           client_may_leave(client, c->worker);
}

static void on_left(uv_handle_t *handle)
{
    struct conn_move *m = handle->data;

    mailbox_post(&m->to->mailbox, &m->message);
}

/* Start to move. False: the connection stays: no memory, or moves have ended. */
static bool leave(struct conn *c, struct worker *to)
{
    struct worker *w = c->worker;
    struct conn_move *m = mem_alloc(sizeof(*m));

    if (m == NULL || !roster_may_go(&w->crew->roster, to->id)) {
        mem_free(m);
        return false;
    }
    if (!client_leave(&c->client, w)) {
        roster_has_come(&w->crew->roster, to->id);
        mem_free(m);
        return false;
    }
    *m = (struct conn_move){.message.fn = on_arrival,
                            .c = c,
                            .to = to,
                            .doubts = w->doubts,
                            .farewells = w->farewells};
    conn_leave_state(c);
    conn_leave_idle(c);
    conn_deadline_clear(c); /* of a login without a limit */
    conn_list_remove(c);
    roster_conn_leaves(&w->crew->roster);
    ctr_add(&w->counters, CTR_curr_connections, (uint64_t)-1);
    roster_remove_conn(&w->crew->roster, w->id);
    roster_add_conn(&w->crew->roster, to->id);
    c->poll.data = m;
    uv_close((uv_handle_t *)&c->poll, on_left);
    return true;
}

/* ---- which, and where -------------------------------------------------------------------- */

/* The worker that the next one moves to; NULL: this worker has no more than its share. */
static struct worker *next_taker(const struct worker *w)
{
    const struct roster *r = &w->crew->roster;
    const uint32_t to = roster_least(r, w->id);

    if (w->id < roster_active(r) && roster_conns(r, to) + 1 >= roster_conns(r, w->id)) {
        return NULL;
    }
    return &w->crew->workers[to];
}

bool conn_move_to(struct conn *c, struct worker *to)
{
    must_be_worker(c->worker);
    must_not_be_reading();
    return may_go(c) && leave(c, to);
}

void conn_move_begin(struct worker *w)
{
    must_be_worker(w);
    w->conns->move_next = w->conns->first;
}

bool conn_move_some(struct worker *w)
{
    struct conns *all = w->conns;
    const usec_t end = clock_mono_us() + BUDGET_slice_us;

    must_be_worker(w);
    must_not_be_reading();
    if (all->move_next == NULL) {
        all->move_next = all->first; /* a leaving worker examines all of them again */
    }
    for (unsigned looks = 0; all->move_next != NULL; looks++) {
        struct conn *c = all->move_next;
        struct worker *to = NULL;

        if (looks % STEPS_A_LOOK == STEPS_A_LOOK - 1 && clock_mono_us() >= end) {
            return true;
        }
        if (may_go(c)) {
            to = next_taker(w);
            if (to == NULL) {
                return false;
            }
        }
        all->move_next = c->next; /* before c leaves the list */
        if (to != NULL && leave(c, to) && clock_mono_us() >= end) {
            return true;
        }
    }
    conn_accounts_check(w);
    return false;
}
