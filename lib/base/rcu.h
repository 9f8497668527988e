/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-copy-update by liburcu (memb flavour); only this file and rcu.c name the library. A
 * read-side section is short, never nested, and is closed by the function that opened it or by
 * the paired leave function. Registered threads may block in epoll outside sections.
 *
 * liburcu 0.13 is not instrumented for ThreadSanitizer. In such builds the end of a section
 * releases, and the end of a grace period acquires, one common word.
 */
#ifndef MAYFLY_LIB_BASE_RCU_H
#define MAYFLY_LIB_BASE_RCU_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/check.h"

#if defined(__SANITIZE_THREAD__)
#define MAYFLY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAYFLY_TSAN 1
#endif
#endif

#ifndef MAYFLY_TSAN
#define _LGPL_SOURCE 1
#endif
#include <urcu/urcu-memb.h>

#ifdef MAYFLY_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
extern _Atomic int rcu_tsan_word; /* only its address is used */
#define rcu_tsan_release() __tsan_release(&rcu_tsan_word)
#define rcu_tsan_acquire() __tsan_acquire(&rcu_tsan_word)
#else
#define rcu_tsan_release() ((void)0)
#define rcu_tsan_acquire() ((void)0)
#endif

/*
 * A thread reads between these two only: no grace period waits for the sections of others.
 * Context: any thread, outside a section.
 */
void rcu_register(void);
void rcu_unregister(void);

/* Is the calling thread between them? Context: any thread. */
bool rcu_is_registered(void);

/*
 * Open a section. The fence makes it seen before the section reads anything: else it might pass
 * for closed, in the store buffer of its CPU, and have read what another CPU has unlinked, but
 * not for all to see yet. A section serves many requests, so this is cheaper than membarriers
 * in grace periods. Context: registered thread, outside a section.
 */
static inline void rcu_begin(void)
{
    debug_must(rcu_is_registered());
    debug_must(!urcu_memb_read_ongoing());
    urcu_memb_read_lock();
#ifndef MAYFLY_TSAN
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Close the section. Context: read side. */
static inline void rcu_end(void)
{
    debug_must(urcu_memb_read_ongoing());
    rcu_tsan_release();
    urcu_memb_read_unlock();
}

/* Is the calling thread in a section? Context: any thread. */
static inline bool rcu_is_reading(void)
{
    return urcu_memb_read_ongoing() != 0;
}

/*
 * Wait until every section that is open now has ended. Context: reclaimer or main, never a
 * worker; outside a section.
 */
static inline void rcu_wait(void)
{
    debug_must(!urcu_memb_read_ongoing());
    urcu_memb_synchronize_rcu();
    rcu_tsan_acquire();
}

/*
 * The same if no waiting is needed: true when every thread was seen outside a section during
 * the call, so that what was unlinked before it can be reused. Elsewhere than on x86 this costs
 * two membarriers, unless a thread is inside or the caller is the only registered one, so it
 * must be worth it. False in a section of the calling thread, and always where the kernel lacks
 * that call. Context: registered thread.
 */
bool rcu_try_wait(void);

/*
 * Can a thread make all others of the process run a barrier (membarrier, from Linux 4.14 on)?
 * liburcu makes do with an older command, which takes milliseconds. [const] once main() runs.
 */
extern bool rcu_has_barriers;

/*
 * A fence in two unequal halves. A thread that stores, then has the one half, then loads, and
 * another that does the same with the other half: at least one of them sees the other's store.
 * The light half is a barrier for the compiler alone, the heavy one makes every running thread
 * of the process execute a real one. Where the kernel lacks that call, both are real fences.
 * Context: any thread.
 */
static inline void rcu_fence_light(void)
{
#ifdef MAYFLY_TSAN
    /* The sanitizer does not know fences; a read-modify-write is one wherever it runs. */
    atomic_fetch_add_explicit(&rcu_tsan_word, 0, memory_order_seq_cst);
#else
    if (MF_LIKELY(rcu_has_barriers)) {
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_thread_fence(memory_order_seq_cst);
    }
#endif
}

void rcu_fence_heavy(void);

/* A fence that needs no other half. Context: any thread. */
static inline void rcu_fence_full(void)
{
#ifdef MAYFLY_TSAN
    rcu_fence_light();
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * The barrier between an unlink and reading the grace number that dates it: rcu_wait() has the
 * heavy half. rcu_try_wait() sees that a section which unlinked something has ended, and would
 * miss a thread outside a section, which makes a real fence here. Context: registered thread,
 * or before start.
 */
static inline void rcu_order_unlink(void)
{
    if (MF_LIKELY(rcu_is_reading())) {
        rcu_fence_light();
    } else {
        rcu_fence_full();
    }
}

#endif
