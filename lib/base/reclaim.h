/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reclaimer thread. It runs grace periods while anything waits for one, releases retired
 * objects after their grace period, and calls a hook for the background work of the shards
 * (releasing large values, sweeping after a flush, trimming free segments), in bursts of at
 * most about 100 us, and rests after each. It has the same priority as the other threads: it
 * enters shards, and if it lost the CPU to others while it is in one, workers would wait for
 * it. It sleeps while there is nothing to do.
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
 * Embedded in an object that is to be released after a grace period. fn runs exactly once and
 * outside sections, on the reclaimer thread or, after that has ended, in reclaim_stop(). fn may
 * retire further objects.
 */
struct retired {
    struct mpsc_node node;
    void (*fn)(struct retired *r);
    uint32_t stamp; /* set by reclaim_push() */
};

/*
 * Background work of the owner. Returns the delay until its next call, in microseconds: 0 for
 * none (other threads get the CPU first), RECLAIM_IDLE when there is nothing to do. It
 * is also called after every grace period, so new work is announced by asking for one. It is
 * not called any more once stop has begun. It may open a read-side section. Context: reclaimer.
 */
typedef uint64_t (*reclaim_hook_fn)(void *arg);
#define RECLAIM_IDLE UINT64_MAX

struct reclaimer;

/* Make a reclaimer; no thread runs yet. NULL when there is no memory. Context: before start. */
struct reclaimer *reclaim_create(reclaim_hook_fn hook, void *arg);

/*
 * Start its thread, with all signals blocked. MF_ENOMEM when there is no memory, MF_ESYS when
 * the system refuses. Context: main.
 */
enum mf_err reclaim_start(struct reclaimer *r);

/*
 * Stop its thread, if it runs. When this returns, all objects retired before the call have been
 * released, and those that these have retired in turn. Context: main, outside a section.
 */
void reclaim_stop(struct reclaimer *r);

/*
 * Stop, release objects retired since, free the reclaimer and null the pointer; accepts NULL.
 * Context: main, no other thread uses it.
 */
void reclaim_destroy(struct reclaimer **r);

/* The grace numbers that this reclaimer publishes. Context: any thread. */
struct grace *reclaim_grace(struct reclaimer *r);

/*
 * Hand over an object, with fn set, to be released after a grace period that starts after this
 * call. Never fails. Context: registered thread, after the unlink.
 */
void reclaim_push(struct reclaimer *r, struct retired *obj);

/* The counters of set RECLAIM. Context: any thread. */
const struct counters *reclaim_counters(const struct reclaimer *r);

/*
 * For unit tests, without a thread: run one grace period, release what is due, call the hook
 * once. Context: the only thread, outside a section.
 */
void reclaim_run_once(struct reclaimer *r);

#endif
