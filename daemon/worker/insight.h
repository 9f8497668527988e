/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's measurements of the requests that it serves: latency, slow requests, hot keys, and
 * work. The set of active measurements is read once in a turn of the loop, so a client's turn
 * pays one branch while all are off.
 */
#ifndef MAYFLY_DAEMON_WORKER_INSIGHT_H
#define MAYFLY_DAEMON_WORKER_INSIGHT_H

#include <stdint.h>

#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/span.h"

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
