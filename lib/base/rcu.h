/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-copy-update, memb flavour of liburcu: this and rcu.c are the only files that name the
 * library. A section is short, never nested, and closed in the function that
 * opened it or by the paired leave. Registered threads may block in epoll.
 *
 * liburcu 0.13 is not instrumented for ThreadSanitizer: in such builds the end of
 * a section releases, and the end of a grace period acquires, one common word.
 */
#ifndef MAYFLY_LIB_BASE_RCU_H
#define MAYFLY_LIB_BASE_RCU_H

#include <stdatomic.h>
#include <stdbool.h>

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
extern _Atomic int rcu_tsan_word; /* only its address is used; in reclaim.c */
#define rcu_tsan_release() __tsan_release(&rcu_tsan_word)
#define rcu_tsan_acquire() __tsan_acquire(&rcu_tsan_word)
#else
#define rcu_tsan_release() ((void)0)
#define rcu_tsan_acquire() ((void)0)
#endif

/* Every thread that reads calls these once each. Context: any thread. */
void rcu_register(void);
void rcu_unregister(void);

/* Context: registered thread, outside a section. */
static inline void rcu_begin(void)
{
    urcu_memb_read_lock();
}

static inline void rcu_end(void)
{
    rcu_tsan_release();
    urcu_memb_read_unlock();
}

/* Is a section of the calling thread open? Context: any thread. */
static inline bool rcu_is_reading(void)
{
    return urcu_memb_read_ongoing() != 0;
}

/*
 * Wait until every section that is open now has ended. Context: reclaimer, main; never a
 * worker.
 */
static inline void rcu_wait(void)
{
    urcu_memb_synchronize_rcu();
    rcu_tsan_acquire();
}

/*
 * The same if it takes no waiting: true when every thread was seen outside a section within
 * the call, so what was unlinked before it can be reused. Costs two membarriers unless the
 * caller is the only thread that reads, so it is for those who have much to gain. False also
 * where the kernel lacks that call.
 * Context: any registered thread, outside a section.
 */
bool rcu_try_wait(void);

/*
 * Stands between an unlink and the reading of the grace number that dates it.
 * rcu_wait() makes every running thread execute a barrier (membarrier), so the compiler's
 * order suffices here; where the kernel lacks that call a real fence is needed. A thread that
 * is not registered would escape rcu_try_wait(). Context: registered thread, or before start.
 */
static inline void rcu_order_unlink(void)
{
#ifdef MAYFLY_TSAN
    /* The sanitizer knows no fences; a read-modify-write is one on every machine it runs on. */
    atomic_fetch_add_explicit(&rcu_tsan_word, 0, memory_order_seq_cst);
#else
    urcu_memb_smp_mb_slave();
#endif
}

#endif
