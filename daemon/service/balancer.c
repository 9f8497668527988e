/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h.
 */
#include "daemon/service/server.h"

#include "daemon/base/loop.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/thread.h"

#define LOOK_MS 1000u

/* Order a worker. False: it has not taken the previous order yet. */
static bool balancer_tell(struct server *s, uint32_t worker, const struct balance_order *order)
{
    struct worker *w = &s->crew.workers[worker];

    if (!notice_claim(&w->balance)) {
        return false;
    }
    w->balance_order = *order;
    mailbox_post(&w->mailbox, &w->balance.message);
    return true;
}

/*
 * End the measurement of a worker that is no longer hot. False: the order cannot be sent yet.
 */
static bool end_weighing(struct server *s)
{
    struct balancer *b = &s->balancer;

    if (b->weighing != BALANCE_NOBODY && b->weighing != b->state.hot) {
        if (!balancer_tell(s, b->weighing, &(struct balance_order){.act = BALANCE_END})) {
            return false;
        }
        b->weighing = BALANCE_NOBODY;
    }
    return true;
}

/* The CPU share of each active worker since the last call, in thousandths. */
static void read_shares(struct server *s, uint32_t count, uint32_t *share)
{
    struct balancer *b = &s->balancer;
    const uint64_t now = clock_mono_ns();
    const uint64_t passed = now - b->looked_ns;

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t cpu = thread_cpu_ns(&s->crew.workers[i].thread);

        /* A worker that was not active then has done nothing yet. */
        share[i] = i < b->count && passed > 0 && cpu >= b->cpu_ns[i]
                       ? (uint32_t)((cpu - b->cpu_ns[i]) * 1000 / passed)
                       : 0;
        b->cpu_ns[i] = cpu;
    }
    b->looked_ns = now;
    b->count = count;
}

/* Record whether the hot worker had connections to move. */
static void note_given(struct server *s)
{
    struct balancer *b = &s->balancer;

    if (b->was_told_to_give && b->state.hot != BALANCE_NOBODY &&
        ctr_get(&s->crew.workers[b->state.hot].counters, CTR_conns_balanced) == b->given) {
        balance_gave_nothing(&b->state);
    }
    b->was_told_to_give = false;
}

static void look(struct server *s, uint32_t count)
{
    struct balancer *b = &s->balancer;
    uint32_t share[WORKERS_MAX];
    struct balance_order order;

    note_given(s);
    read_shares(s, count, share);
    balance_look(&b->state, share, count, &order);
    if (!end_weighing(s) || order.act == BALANCE_NOTHING) {
        return;
    }
    if (order.act == BALANCE_GIVE) {
        b->given = ctr_get(&s->crew.workers[b->state.hot].counters, CTR_conns_balanced);
    }
    if (balancer_tell(s, b->state.hot, &order)) {
        /* Only a worker that has measured its connections can move some. */
        b->was_told_to_give = order.act == BALANCE_GIVE && b->weighing == b->state.hot;
        b->weighing = b->state.hot;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    struct balancer *b = &s->balancer;
    const uint32_t count = roster_active(&s->crew.roster);

    must_be_main();
    if (s->stopping != CREW_STOP_NONE) {
        return;
    }
    if (count > 1 && setting_get(s->crew.settings, balance)) {
        look(s, count);
        return;
    }
    balance_init(&b->state);
    b->was_told_to_give = false;
    b->count = 0;
    (void)end_weighing(s);
}

void balancer_begin(struct server *s)
{
    struct balancer *b = &s->balancer;

    must_be_main();
    balance_init(&b->state);
    b->weighing = BALANCE_NOBODY;
    loop_timer_begin(&b->timer, &s->loop, s, on_timer, LOOK_MS, LOOK_MS);
}
