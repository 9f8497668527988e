/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See insight.h. A reset raises the epoch of the crew. Each worker clears its own words when it
 * next counts; until then they are ignored.
 */
#include "daemon/worker/insight.h"

#include "daemon/worker/crew.h"

/* Only the worker writes: no locked instruction. */
static inline void add(_Atomic uint64_t *word, uint64_t n)
{
    uint64_t v = atomic_load_explicit(word, memory_order_relaxed);

    atomic_store_explicit(word, v + n, memory_order_relaxed);
}

static MF_NOINLINE void begin_epoch(struct latency *l, uint32_t epoch)
{
    for (unsigned k = 0; k < LATENCY_KINDS; k++) {
        struct latency_kind *kind = &l->kinds[k];

        atomic_store_explicit(&kind->sum_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&kind->max_ns, 0, memory_order_relaxed);
        for (unsigned i = 0; i < LATENCY_BINS; i++) {
            atomic_store_explicit(&kind->bin[i], 0, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&l->epoch, epoch, memory_order_release);
}

void latency_add(struct worker *w, enum command_kind kind, uint64_t ns, uint32_t n)
{
    struct latency *l = w->insight.latency;
    struct latency_kind *k = &l->kinds[kind];
    uint32_t epoch = atomic_load_explicit(&w->crew->latency_epoch, memory_order_relaxed);

    must_be_worker(w);
    if (MF_UNLIKELY(atomic_load_explicit(&l->epoch, memory_order_relaxed) != epoch)) {
        begin_epoch(l, epoch);
    }
    add(&k->bin[histogram_bin(ns, LATENCY_BINS, LATENCY_STEPS_LOG2)], n);
    add(&k->sum_ns, ns * n);
    if (ns > atomic_load_explicit(&k->max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&k->max_ns, ns, memory_order_relaxed);
    }
}

void latency_reset(struct crew *crew)
{
    atomic_fetch_add_explicit(&crew->latency_epoch, 1, memory_order_relaxed);
}

void latency_collect(const struct worker *w, enum command_kind kind, struct latency_sum *sum)
{
    struct latency *l = w->insight.latency;
    struct latency_kind *k = &l->kinds[kind];

    if (atomic_load_explicit(&l->epoch, memory_order_acquire) !=
        atomic_load_explicit(&w->crew->latency_epoch, memory_order_relaxed)) {
        return;
    }
    uint64_t max_ns = atomic_load_explicit(&k->max_ns, memory_order_relaxed);
    for (unsigned i = 0; i < LATENCY_BINS; i++) {
        uint64_t n = atomic_load_explicit(&k->bin[i], memory_order_relaxed);

        sum->bin[i] += n;
        sum->count += n;
    }
    sum->sum_ns += atomic_load_explicit(&k->sum_ns, memory_order_relaxed);
    sum->max_ns = max_ns > sum->max_ns ? max_ns : sum->max_ns;
}

void latency_collect_all(const struct crew *crew, enum command_kind kind,
                         struct latency_sum *sum)
{
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        latency_collect(&crew->workers[i], kind, sum);
    }
}

uint64_t latency_percentile_ns(const struct latency_sum *sum, double pct)
{
    return histogram_percentile(sum->bin, LATENCY_BINS, LATENCY_STEPS_LOG2, sum->count,
                                sum->max_ns, pct);
}
