/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's measurements of the requests that it serves: latency, slow requests, hot keys, and
 * work. The set of active measurements is read once in a turn of the loop, so a client's turn
 * pays one branch while all are off.
 */
#ifndef MAYFLY_DAEMON_WORKER_INSIGHT_H
#define MAYFLY_DAEMON_WORKER_INSIGHT_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/histogram.h"
#include "lib/base/span.h"
#include "proto/request.h"

/* ---- hotkeys.c --------------------------------------------------------------------------- */

/*
 * The most frequently accessed keys. Each worker samples one of N accesses, at random
 * distances, and counts its key in a sketch of bounded size: "space saving" (A. Metwally, D.
 * Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k elements in data
 * streams", ICDT 2005). A key without a row replaces the key with the least count and inherits
 * that count, which is also its error: at most a 256th of all accesses. Counts halve every 30
 * seconds.
 */

#define HOTKEYS_ROWS 256u

/* Of a worker: 72 KiB. */
struct hotkeys {
    /* [worker] all numbers fade with time */
    msec_t faded_at;  /* up to when */
    double covered_s; /* the seconds that are in the counts */
    double total;     /* accesses: N for each sampled one */
    uint32_t used;    /* rows */
    uint64_t hash[HOTKEYS_ROWS];
    double count[HOTKEYS_ROWS];
    double error[HOTKEYS_ROWS]; /* the part of the count that may belong to other keys */
    uint8_t key_len[HOTKEYS_ROWS];
    char key[HOTKEYS_ROWS][REQUEST_KEY_MAX];
};

/* Begin at a time. Context: worker, or before the worker starts. */
void hotkeys_init(struct hotkeys *h, msec_t now);

/*
 * Count `n` accesses to a key. A span that is empty or longer than REQUEST_KEY_MAX is not a
 * key, and is not counted. Context: worker.
 */
void hotkeys_add(struct hotkeys *h, msec_t now, uint64_t hash, struct span key, uint32_t n);

/* Fade the counts up to the time `now`. Context: worker. */
void hotkeys_fade(struct hotkeys *h, msec_t now);

/* The maximum count of a key that has no row. Context: worker. */
double hotkeys_least(const struct hotkeys *h);

/* ---- of several workers ------------------------------------------------------------------ */

/* Rows of a sum; of keys beyond it those with the least counts are dropped. */
#define HOTKEYS_SUM_ROWS 512u

struct hotkey {
    uint64_t hash;
    double count; /* accesses, faded */
    double error; /* upper bound of the accesses wrongly counted, and of those missing */
    uint8_t key_len;
    char key[REQUEST_KEY_MAX];
};

struct hotkeys_sum {
    double total;
    double covered_s; /* of the worker that has most */
    double least;     /* of all workers that were added */
    uint32_t used;
    struct hotkey row[HOTKEYS_SUM_ROWS];
};

/* Add the counts of a worker. Context: worker. */
void hotkeys_sum_add(struct hotkeys_sum *sum, const struct hotkeys *h);

/* Put the rows in order: those with the most accesses that are certain first. */
void hotkeys_sum_sort(struct hotkeys_sum *sum);

/* ---- latency.c --------------------------------------------------------------------------- */

/*
 * Latency of requests, from the moment at which they could be read until the socket has their
 * replies: a histogram of nanoseconds for each worker and kind of command. With sixteen bins to
 * an octave, reported values are at most a sixteenth too large.
 */

#define LATENCY_STEPS_LOG2 4u

/* Up to 137 seconds; longer times are in the last bin. */
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

/* ---- insight.c --------------------------------------------------------------------------- */

/* In struct insight: what is on. */
enum {
    INSIGHT_LATENCY = 1 << 0, /* latency_stats */
    INSIGHT_SLOW = 1 << 1,    /* slowlog_us */
    INSIGHT_HOT = 1 << 2,     /* hotkeys */
    INSIGHT_TIMES = INSIGHT_LATENCY | INSIGHT_SLOW | INSIGHT_HOT,
    INSIGHT_WORK = 1 << 3, /* the worker is hot: the work of each connection (balance.h) */
};

/* Sample one of `sampling` accesses from now on; 0: none. Context: worker. */
void insight_begin_sampling(struct worker *w, uint32_t sampling);

/*
 * Take this access as the sample if one is due. It counts for the average distance between
 * samples. Also called if none is due. Context: worker.
 */
void insight_sample(struct worker *w, uint64_t hash, struct span key);

/* The loop is about to wait for events. Context: worker. */
static inline void insight_begin_loop(struct worker *w)
{
    struct insight *i = &w->insight;

    must_be_worker(w);
    int32_t slow_us = setting_get(w->settings, slowlog_us);
    i->on = setting_get(w->settings, latency_stats) ? INSIGHT_LATENCY : 0;
    if (slow_us > 0) {
        i->on |= INSIGHT_SLOW;
        i->slow_ns = (uint64_t)slow_us * 1000;
    }
    uint32_t sampling = setting_get(w->settings, hotkeys);
    if (sampling > 0) {
        i->on |= INSIGHT_HOT;
    }
    if (MF_UNLIKELY(sampling != i->sampling)) {
        insight_begin_sampling(w, sampling);
    }
    i->readable_ns = i->on == 0; /* 0: to be found out with the first event */
}

/*
 * An event came. The time of the first one in a turn of the loop counts for all, as the kernel
 * reports them together. Context: worker.
 */
static inline void insight_note_event(struct worker *w)
{
    must_be_worker(w);
    if (MF_UNLIKELY(w->insight.readable_ns == 0)) {
        w->insight.readable_ns = clock_mono_ns();
    }
}

/* Time of the present events, if anything is measured. Context: worker. */
static inline uint64_t insight_readable_ns(struct worker *w)
{
    insight_note_event(w);
    return w->insight.readable_ns;
}

#endif
