/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_weigh.h. On the worker.
 */
#include "daemon/conn/conn_weigh.h"

#include <stddef.h>

#include "daemon/conn/conn_state.h"
#include "daemon/worker/insight.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* Remove all connections from the table. */
static void clear(struct weights *all)
{
    for (unsigned i = 0; i < all->count; i++) {
        if (all->conn[i] != NULL) {
            all->conn[i]->weight_slot = 0;
        }
    }
    all->total = 0;
    all->count = 0;
    all->next = 0;
    all->to = BALANCE_NOBODY;
}

void conn_weigh_begin(struct worker *w)
{
    struct weights *all = w->conns->weights;

    must_be_worker(w);
    if (all == NULL) {
        all = mem_zalloc(sizeof(*all));
        w->conns->weights = all;
    }
    if (all != NULL) {
        clear(all);
        w->deals |= DEALS_WEIGHED;
    }
}

void conn_weigh_end(struct worker *w)
{
    must_be_worker(w);
    if (w->conns->weights != NULL) {
        clear(w->conns->weights);
        mem_free(w->conns->weights);
        w->conns->weights = NULL;
    }
    w->deals &= (uint8_t)~DEALS_WEIGHED;
    w->insight.on &= ~(uint32_t)INSIGHT_WORK;
}

void conn_weigh(struct conn *c, uint32_t units)
{
    struct weights *all = c->worker->conns->weights;

    must_be_worker(c->worker);
    if (all == NULL) {
        return;
    }
    all->total += units;
    if (c->weight_slot == 0) {
        if (all->count == WEIGHTS_MAX || c->state == CONN_CLOSED) {
            return; /* its last read may have been its end */
        }
        all->conn[all->count] = c;
        all->of[all->count] = (struct balance_weight){.units = 0};
        c->weight_slot = (uint16_t)++all->count;
    }
    all->of[c->weight_slot - 1].units += units;
}

void conn_weigh_other(struct worker *w, uint32_t units)
{
    must_be_worker(w);
    if (w->conns->weights != NULL) {
        w->conns->weights->total += units;
    }
}

void conn_weigh_forget(struct conn *c)
{
    struct weights *all = c->worker->conns->weights;

    must_be_worker(c->worker);
    must(all != NULL && c->weight_slot <= all->count && all->conn[c->weight_slot - 1] == c);
    all->conn[c->weight_slot - 1] = NULL;
    all->of[c->weight_slot - 1].stays = true;
    c->weight_slot = 0;
}
