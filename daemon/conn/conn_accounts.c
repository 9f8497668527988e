/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the worker.
 */
#include "daemon/conn/conn_steps.h"

#ifdef MAYFLY_DEBUG

#include "daemon/conn/conn_state.h"
#include "daemon/conn/conn_weigh.h"
#include "daemon/worker/watch.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Sums that are computed by the walk, and by the worker's own counts and lists. */
struct accounts {
    uint64_t conns;
    uint64_t in_bytes, out_bytes, held_bytes;
    uint64_t holders; /* in the lists by size */
    uint64_t parked;
    uint64_t ready; /* of those: that wait for a turn */
    uint64_t idle, deadlines;
    uint64_t pins;
    uint64_t watchers;
    uint64_t weighed;
};

static void add_kept(struct accounts *a, const struct kept *k)
{
    a->out_bytes += k->out_bytes;
    a->in_bytes += k->holder.bytes - k->out_bytes;
    a->held_bytes += k->holder.is_apart ? 0 : k->holder.bytes;
    a->holders += list_has_link(&k->holder.link);
    a->pins += pace_is_listed(&k->pin.pace);
    must(list_has_link(&k->holder.link) == (k->holder.bytes > 0 && !k->holder.is_apart));
}

static void walk(const struct worker *w, struct accounts *a)
{
    for (const struct conn *c = w->conns->first; c != NULL; c = c->next) {
        must(c->worker == w && c->magic == CONN_MAGIC && c->state != CONN_CLOSED);
        a->conns++;
        a->parked += list_has_link(&c->park);
        a->ready +=
            list_has_link(&c->park) &&
            (c->state == CONN_TURN || c->state == CONN_EVENT || c->state == CONN_SHAKES);
        a->idle += list_has_link(&c->idle_link);
        a->deadlines += list_has_link(&c->deadline_link);
        a->watchers += c->client.watcher != NULL;
        a->weighed += c->weight_slot != 0;
        if (c->client.kept != NULL) {
            add_kept(a, c->client.kept);
        }
    }
}

static uint64_t length(const struct list *l)
{
    uint64_t n = 0;

    for (const struct list_link *at = list_first(l); at != NULL; at = list_next(l, at)) {
        n++;
    }
    return n;
}

static uint64_t lengths(const struct list *lists, unsigned count)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < count; i++) {
        n += length(&lists[i]);
    }
    return n;
}

/* Connections in the table of weights, each of this worker and at its place. */
static uint64_t weighed(const struct worker *w)
{
    const struct weights *all = w->conns->weights;
    uint64_t n = 0;

    for (unsigned i = 0; all != NULL && i < all->count; i++) {
        if (all->conn[i] != NULL) {
            must(all->conn[i]->worker == w && all->conn[i]->weight_slot == i + 1);
            n++;
        }
    }
    return n;
}

static uint64_t watchers(const struct worker *w)
{
    uint64_t n = 0;

    for (const struct watcher *x = w->watchers; x != NULL; x = x->next) {
        must(atomic_load_explicit(&x->worker, memory_order_relaxed) == w);
        n++;
    }
    return n;
}

void conn_accounts_check(const struct worker *w)
{
    const struct conns *all = w->conns;
    struct accounts a = {.conns = 0};

    must_be_worker(w);
    walk(w, &a);
    must(a.conns == w->conn_count);
    must(a.conns == ctr_get(&w->counters, CTR_curr_connections));
    must(a.conns <= roster_conns(&w->crew->roster, w->id)); /* which has those on their way */
    must(a.in_bytes == ctr_get(&w->counters, CTR_in_pending_bytes));
    must(a.out_bytes == ctr_get(&w->counters, CTR_out_pending_bytes));
    must(a.held_bytes == (uint64_t)w->holders.bytes);
    must(a.holders == lengths(w->holders.list, HOLDER_CLASSES));
    must(a.parked == lengths(all->parked, PARKS));
    must(a.ready == w->ready_count);
    must(a.ready == length(&all->parked[PARK_LIGHT]) + length(&all->parked[PARK_READY]));
    must(a.idle == all->idle.count && a.idle == lengths(all->idle.slot, IDLE_SLOTS));
    must(a.deadlines == lengths(all->deadlines, DEADLINES));
    must(a.pins == length(&all->pins_new) + length(&all->pins));
    must(a.watchers == watchers(w));
    must(a.weighed == weighed(w));
}

#endif
