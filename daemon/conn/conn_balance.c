/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the hot worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/conn/conn_weigh.h"
#include "daemon/worker/insight.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Maximum connections moved in one turn of the loop. */
#define GIVES_MAX 64u

/* The time in seconds in the form stored in a connection: 16 bits, never 0. */
static uint16_t second_now(void)
{
    const uint16_t second = (uint16_t)(conn_wait_now() / 1000);

    return second == 0 ? 1 : second;
}

/* Was it moved recently? The seconds wrap after 18 hours, which is harmless. */
static bool has_to_stay(const struct conn *c, uint16_t now)
{
    return c->given_s != 0 && (uint16_t)(now - c->given_s) < BALANCE_STAY_S;
}

static void choose(struct worker *w, const struct balance_order *order)
{
    struct weights *all = w->conns->weights;
    const uint16_t now = second_now();

    for (unsigned i = 0; i < all->count; i++) {
        all->of[i].stays = all->conn[i] == NULL || has_to_stay(all->conn[i], now);
    }
    if (balance_choose(order, all->total, all->of, all->count) > 0) {
        all->to = order->to;
        all->next = 0;
    } else {
        conn_weigh_begin(w);
    }
}

void conn_balance_obey(struct worker *w, const struct balance_order *order)
{
    must_be_worker(w);
    switch (order->act) {
    case BALANCE_NOTHING:
        break;
    case BALANCE_WEIGH:
        conn_weigh_begin(w);
        break;
    case BALANCE_GIVE:
        if (w->conns->weights == NULL) {
            conn_weigh_begin(w);
        } else if (order->to != w->id) {
            choose(w, order);
        }
        break;
    case BALANCE_END:
        conn_weigh_end(w);
        break;
    }
}

/* Give away those that were chosen. True: there are more. */
static bool give_some(struct worker *w, struct weights *all)
{
    unsigned given = 0;

    /* It may have started to move since it was chosen. */
    while (all->next < all->count && all->to < roster_active(&w->crew->roster)) {
        const unsigned i = all->next;
        struct conn *c = all->conn[i];

        if (given == GIVES_MAX) {
            return true;
        }
        all->next++;
        if (c != NULL && all->of[i].goes && conn_move_to(c, &w->crew->workers[all->to])) {
            c->given_s = second_now();
            ctr_add(&w->counters, CTR_conns_balanced, 1);
            given++;
        }
    }
    return false;
}

bool conn_balance_some(struct worker *w)
{
    struct weights *all = w->conns->weights;

    must_be_worker(w);
    must_not_be_reading();
    if (all == NULL || w->is_stopping) {
        conn_weigh_end(w);
        return false;
    }
    w->insight.on |= INSIGHT_WORK;
    if (all->to != BALANCE_NOBODY) {
        if (give_some(w, all)) {
            return true;
        }
        conn_weigh_begin(w); /* count further work from now on */
    }
    return false;
}
