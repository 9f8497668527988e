/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See roster.h.
 */
#include "daemon/worker/roster.h"

#include "lib/base/check.h"

bool roster_may_go(struct roster *r, uint32_t to)
{
    atomic_fetch_add(&r->arriving[to], 1);
    if (atomic_load(&r->stays)) {
        atomic_fetch_sub(&r->arriving[to], 1);
        return false;
    }
    return true;
}

void roster_has_come(struct roster *r, uint32_t to)
{
    const uint32_t before = atomic_fetch_sub(&r->arriving[to], 1);

    must(before > 0);
}

uint32_t roster_least(const struct roster *r, uint32_t from)
{
    const uint32_t active = roster_active(r);
    uint32_t least = UINT32_MAX;
    uint32_t best = 0;

    for (uint32_t i = 0; i < active && least > 0; i++) {
        const uint32_t n = (from + i) % active;
        const uint32_t conns = roster_conns(r, n);

        if (conns < least) {
            least = conns;
            best = n;
        }
    }
    return best;
}

void roster_add_conn(struct roster *r, uint32_t worker)
{
    atomic_fetch_add_explicit(&r->conns[worker], 1, memory_order_relaxed);
}

void roster_remove_conn(struct roster *r, uint32_t worker)
{
    atomic_fetch_sub_explicit(&r->conns[worker], 1, memory_order_relaxed);
}

uint32_t roster_leaving(const struct roster *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < roster_created(r); i++) {
        n += roster_role(r, i) == WORKER_LEAVING;
    }
    return n;
}

bool roster_is_settled(struct roster *r)
{
    const uint32_t active = roster_active(r);

    /* If two workers change their roles at the same time, at least one sees the other's. */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = active; i < roster_created(r); i++) {
        if (roster_role(r, i) != WORKER_PARKED) {
            return false;
        }
    }
    return atomic_load(&r->has_leaving) && atomic_exchange(&r->has_leaving, false);
}
