/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for replicas: see role.h and replication.h.
 */
#include "daemon/replica/role.h"

#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/engine/engine.h"

/* Number of replicas that have applied the stream up to this offset. Under the mutex. */
static unsigned count_at(const struct replication *r, uint64_t offset)
{
    const struct replica *x;
    unsigned n = 0;

    LIST_EACH (x, &r->links, struct replica, link) {
        n += replica_is_online(x) && x->acked >= offset;
    }
    return n;
}

static void count_for(struct replication *r, struct repl_wait *w)
{
    uint64_t offset;

    if (w->offset == UINT64_MAX && shipper_is_done(r->shipper, w->ticket, &offset)) {
        w->offset = offset;
    }
    w->count = w->offset != UINT64_MAX ? count_at(r, w->offset) : 0;
}

void waits_check(struct replication *r)
{
    struct list_link *at = list_first(&r->waits);

    while (at != NULL) {
        struct repl_wait *w = MF_OUTER(at, struct repl_wait, link);

        at = list_next(&r->waits, at);
        count_for(r, w);
        if (w->count >= w->wanted) {
            list_remove(&w->link);
            mailbox_post(w->to, &w->done);
        }
    }
}

void waits_end(struct replication *r)
{
    struct list_link *at;

    while ((at = list_first(&r->waits)) != NULL) {
        struct repl_wait *w = MF_OUTER(at, struct repl_wait, link);

        count_for(r, w);
        list_remove(&w->link);
        mailbox_post(w->to, &w->done);
    }
}

void replication_wait(struct replication *r, struct repl_wait *w)
{
    w->ticket = shipper_ask(r->shipper);
    w->offset = UINT64_MAX;
    pthread_mutex_lock(&r->mutex);
    list_append(&r->waits, &w->link);
    if (r->is_draining) {
        waits_end(r);
    }
    waits_check(r);
    pthread_mutex_unlock(&r->mutex);
}

bool replication_unwait(struct replication *r, struct repl_wait *w)
{
    pthread_mutex_lock(&r->mutex);
    bool waits = list_has_link(&w->link);
    if (waits) {
        list_remove(&w->link);
        count_for(r, w);
    }
    pthread_mutex_unlock(&r->mutex);
    return waits;
}

void waits_check_few(struct replication *r)
{
    const struct settings *s = r->crew->settings;
    const uint32_t wanted = setting_get(s, min_replicas_to_write);
    const msec_t lag_ms = (msec_t)setting_get(s, min_replicas_max_lag) * 1000;
    const msec_t now = clock_now(&r->crew->engine.clock);
    const struct replica *x;
    unsigned n = 0;

    LIST_EACH (x, &r->links, struct replica, link) {
        n += replica_is_online(x) && now - x->acked_ms <= lag_ms;
    }
    gate_set(&r->crew->gate, GATE_FEW, n < wanted ? GATE_FEW : 0);
}
