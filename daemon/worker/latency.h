/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency of requests, from the moment at which they could be read until the socket has their
 * replies: a histogram of nanoseconds for each worker and kind of command. With sixteen bins to
 * an octave, reported values are at most a sixteenth too large.
 */
#ifndef MAYFLY_DAEMON_WORKER_LATENCY_H
#define MAYFLY_DAEMON_WORKER_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "lib/base/histogram.h"
#include "proto/request.h"

struct crew;
struct worker;

#define LATENCY_STEPS_LOG2 4u

/* Up to 137 seconds; what takes longer is in the last bin. */
#define LATENCY_BINS HISTOGRAM_BINS(37u, LATENCY_STEPS_LOG2)

#define LATENCY_KINDS ((unsigned)KIND_COUNT)

struct latency_kind {
    /* [atomic] its worker writes */
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t max_ns;
    _Atomic uint64_t bin[LATENCY_BINS];
};

/* Of a worker: 35 KiB. */
struct latency {
    /* [atomic] which reset of the crew it counts from; older ones are void. Release: they are
     * cleared before */
    _Atomic uint32_t epoch;
    struct latency_kind kinds[LATENCY_KINDS];
};

/* Of one worker or of several, as of now. */
struct latency_sum {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t bin[LATENCY_BINS];
};

/* Count n requests of a kind that took `ns` each. Context: worker. */
void latency_add(struct worker *w, enum command_kind kind, uint64_t ns, uint32_t n);

/* Reset the counts of all workers. Context: any thread. */
void latency_reset(struct crew *crew);

/*
 * Add the counts of a worker and a kind since the last reset to *sum. Its words are read while
 * it runs. Context: any thread.
 */
void latency_collect(const struct worker *w, enum command_kind kind, struct latency_sum *sum);

/* The same of all workers. Context: any thread. */
void latency_collect_all(const struct crew *crew, enum command_kind kind,
                         struct latency_sum *sum);

/* The percentile pct, in nanoseconds. Context: any thread. */
uint64_t latency_percentile_ns(const struct latency_sum *sum, double pct);

#endif
