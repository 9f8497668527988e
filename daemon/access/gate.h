/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conditions that apply to all requests in addition to access rights: a set of bits in one
 * word, which a turn reads when it begins. Each bit has one writer.
 */
#ifndef MAYFLY_DAEMON_ACCESS_GATE_H
#define MAYFLY_DAEMON_ACCESS_GATE_H

#include <stdatomic.h>
#include <stdint.h>

enum gate_bits {
    /* The log (daemon/persist/append.h). */
    GATE_LOG_HOLDS = 1 << 0, /* replies wait until the log has the change: append_ask() */
    GATE_LOG_VOID = 1 << 1,  /* the log cannot guarantee changes: they are refused */
    /* Replication (daemon/replica/replication.h). */
    GATE_READ_ONLY = 1 << 2, /* a replica: changes are refused */
    GATE_MISSES = 1 << 3,    /* the items are incomplete or too old: reads miss */
    GATE_PAUSED = 1 << 4,    /* a failover is in progress: changes wait for its end */
    GATE_FEW = 1 << 5, /* fewer replicas than min_replicas_to_write: changes are refused */
    GATE_ELSEWHERE = 1 << 6, /* a replica with replica_reads=no: clients are not served */
};

/* Replies are subject to the log. */
#define GATE_LOG ((uint32_t)GATE_LOG_HOLDS | GATE_LOG_VOID)

/* Changes are refused. */
#define GATE_REFUSES ((uint32_t)GATE_LOG_VOID | GATE_READ_ONLY | GATE_FEW)

/* Items must not be changed at this moment. */
#define GATE_STOPS (GATE_REFUSES | GATE_PAUSED)

/* With any of these bits, each request has to be checked. */
#define GATE_GUARDS (GATE_STOPS | GATE_MISSES | GATE_ELSEWHERE)

struct gate {
    _Atomic uint32_t bits;
};

/* Context: any thread. */
static inline uint32_t gate_read(const struct gate *g)
{
    return atomic_load_explicit(&g->bits, memory_order_relaxed);
}

/*
 * Set the bits of `mask` to those of `bits`. Turns that have begun may still use the old bits
 * (crew_settle()). Context: any thread.
 */
static inline void gate_set(struct gate *g, uint32_t mask, uint32_t bits)
{
    uint32_t old = gate_read(g);

    while (!atomic_compare_exchange_weak(&g->bits, &old, (old & ~mask) | (bits & mask))) {
    }
}

#endif
