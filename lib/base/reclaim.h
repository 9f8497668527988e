/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reclaimer thread: runs grace periods while anything waits, releases what was retired
 * after its grace period, and calls the shards' background hook (release of
 * large values, sweep after a flush, trimming of free segments) in bursts of at most
 * about 100 us. Low priority where the system allows. It sleeps while nothing waits.
 */
#ifndef MAYFLY_LIB_BASE_RECLAIM_H
#define MAYFLY_LIB_BASE_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/counters.h"
#include "lib/base/err.h"
#include "lib/base/grace.h"
#include "lib/base/mpsc.h"

/*
 * Something to be released after a grace period: embedded in the object. fn runs on the
 * reclaimer thread (or, when that has ended, in reclaim_stop()), outside any section, exactly
 * once; it may retire more.
 */
struct retired {
    struct mpsc_node node;
    void (*fn)(struct retired *r);
    uint32_t stamp; /* set by reclaim_push() */
};

/*
 * Background work of the owner. Returns how soon it wants to be called again, in
 * microseconds: 0 at once (others get the CPU first), RECLAIM_IDLE when nothing waits. It is
 * also called after every grace period, so new work is announced by asking for one; not
 * any more once stop has begun. May hold a read-side section while it runs.
 * Context: reclaimer.
 */
typedef uint64_t (*reclaim_hook_fn)(void *arg);
#define RECLAIM_IDLE UINT64_MAX

struct reclaimer;

/* Make a reclaimer; no thread runs yet. NULL when there is no memory. Context: before start. */
struct reclaimer *reclaim_create(reclaim_hook_fn hook, void *arg);

/*
 * Start its thread, with all signals blocked. MF_ENOMEM, MF_ESYS when the system refuses.
 * Context: main.
 */
enum mf_err reclaim_start(struct reclaimer *r);

/*
 * Stop its thread, if it runs. Drains: everything retired before the call is released when it
 * returns, what that retires in turn too. Context: main, outside a section.
 */
void reclaim_stop(struct reclaimer *r);

/* Stop, release what was retired since, destroy. Context: main, nobody else uses it. */
void reclaim_destroy(struct reclaimer **r);

/* The grace numbers this reclaimer publishes. Context: any thread. */
struct grace *reclaim_grace(struct reclaimer *r);

/*
 * Release later, after a grace period that starts from now; takes the object, with fn set.
 * Never fails. Context: any thread, after the unlink.
 */
void reclaim_push(struct reclaimer *r, struct retired *obj);

/* Counters of set RECLAIM. Context: any thread. */
const struct counters *reclaim_counters(const struct reclaimer *r);

/*
 * Without a thread (unit tests): run one grace period, release what is over, call the
 * hook once. Context: the only thread.
 */
void reclaim_run_once(struct reclaimer *r);

#endif
