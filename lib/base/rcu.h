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
 * A thread may open sections only between these two calls: grace periods do not wait for
 * threads that are not registered. Context: any thread, outside a section.
 */
void rcu_register(void);
void rcu_unregister(void);

/* Is the calling thread registered? Context: any thread. */
bool rcu_is_registered(void);

/*
 * Open a section. The fence makes the opening visible before the section reads anything.
 * Without it the opening may still be in the CPU's store buffer while the section reads an
 * object that another CPU is unlinking, and a grace period would miss the section. A section
 * serves many requests, so a fence here is cheaper than membarriers in grace periods. Context:
 * registered thread, outside a section.
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
 * The same without waiting: true when every thread was seen outside a section during the call,
 * so that objects unlinked before the call can be reused. Except on x86 this costs two
 * membarriers, unless a thread is inside a section or the caller is the only registered one.
 * False while the calling thread is in a section, and always where the kernel lacks membarrier.
 * Context: registered thread.
 */
bool rcu_try_wait(void);

/*
 * Can a thread make all others of the process run a barrier (membarrier, from Linux 4.14 on)?
 * liburcu makes do with an older command, which takes milliseconds. [const] once main() runs.
 */
extern bool rcu_has_barriers;

/*
 * An asymmetric fence. One thread stores, executes the light half, then loads. Another thread
 * stores, executes the heavy half, then loads. At least one of them sees the other's store. The
 * light half is a compiler barrier only. The heavy half makes every running thread of the
 * process execute a real fence (membarrier). Where the kernel lacks that call, both halves are
 * real fences. Context: any thread.
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
 * The barrier between an unlink and the load of the grace number that stamps the object. In a
 * section the light half suffices: rcu_wait() executes the heavy half, and rcu_try_wait()
 * succeeds only when the section has ended. rcu_try_wait() does not see a thread outside a
 * section, so such a thread executes a real fence here. Context: registered thread, or before
 * start.
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
