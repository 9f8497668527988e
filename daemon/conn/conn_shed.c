/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing connections that keep too much memory; see conn_steps.h. On their worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/conn/conn_execute.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Maximum number of connections closed at once. Their bytes exceed the surplus. */
#define SHED_MAX 64u

/* Interval at which the other workers are asked, milliseconds. */
#define TELL_MS 100

static struct conn *conn_of_holder(struct holder *x)
{
    struct kept *k = MF_OUTER(x, struct kept, holder);

    return conn_of_client(k->client);
}

void conn_shed_quietly(struct worker *w)
{
    struct holder *x;

    must_be_worker(w);
    must_not_be_reading();
    conn_round_run(w);
    w->holders.is_crowded = false;
    for (unsigned n = 0; n < SHED_MAX && (x = holders_victim(w, worker_now(w))) != NULL; n++) {
        ctr_add(&w->counters, CTR_slow_drops, 1);
        conn_close(conn_of_holder(x));
    }
}

void conn_shed(struct worker *w)
{
    must_be_worker(w);
    conn_shed_quietly(w);
    if (roster_created(&w->crew->roster) > 1 && holders_are_many(w) &&
        w->now - w->holders.told_others >= TELL_MS) {
        w->holders.told_others = w->now;
        crew_poke_all(w->crew);
    }
}
