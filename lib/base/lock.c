/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the lock of a shard: see lock.h.
 */
#include "lib/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The lock is held for a microsecond or less, but for ten where a value of 16 KB is copied to
 * memory that is in no cache. So spin for about as long before going to sleep in the kernel,
 * which costs more than that. The last of the spins, a microsecond, are counted as a sleep.
 */
#define SPINS         250
#define SPINS_COUNTED 20

/*
 * The first sleep ends by itself. So it takes no fence, which would interrupt all other threads
 * that run: a holder that has released the lock before it could see the sleeper has done so
 * before the counted spins were over, unless its stores took longer than those.
 */
#define NAP_NS 10000000

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool take_spinning(struct lock *l, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        if (atomic_load_explicit(&l->state, memory_order_relaxed) == LOCK_FREE && lock_try(l)) {
            return true;
        }
        pause_cpu();
    }
    return false;
}

/* True when it was woken, and then it is not counted any more. */
static bool sleep_until_woken(struct lock *l, const struct timespec *most)
{
    return syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, LOCK_HELD, most, NULL, 0) == 0;
}

/*
 * Counted as a sleeper: take the lock, or sleep until woken. False: it was woken, and is not
 * counted any more.
 */
static bool take_asleep(struct lock *l)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    bool is_taken = take_spinning(l, SPINS_COUNTED);

    if (!is_taken) {
        if (sleep_until_woken(l, &nap)) {
            return false;
        }
        /*
         * A holder that does not see this sleeper has released the lock before the fence ended,
         * so it is not found held by that one.
         */
        rcu_fence_heavy();
    }
    while (!is_taken && !(is_taken = lock_try(l))) {
        if (sleep_until_woken(l, NULL)) {
            return false;
        }
    }
    atomic_fetch_sub_explicit(&l->sleepers, 1, memory_order_relaxed);
    return true;
}

void lock_wait(struct lock *l)
{
    while (!take_spinning(l, SPINS)) {
        atomic_fetch_add_explicit(&l->sleepers, 1, memory_order_seq_cst);
        if (take_asleep(l)) {
            return;
        }
    }
}

/*
 * The thread that is woken is no longer counted: until it runs, which may be long, nobody wakes
 * again. One that is about to sleep is not woken, and stays counted.
 */
void lock_wake(struct lock *l)
{
    if (syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 1) {
        atomic_fetch_sub_explicit(&l->sleepers, 1, memory_order_relaxed);
    }
}

#ifdef MAYFLY_DEBUG

/* The address of this variable names the thread. */
static _Thread_local char this_thread;

void lock_note_holder(struct lock *l, bool is_held)
{
    atomic_store_explicit(&l->holder, is_held ? &this_thread : NULL, memory_order_relaxed);
}

bool lock_is_held_here(const struct lock *l)
{
    return atomic_load_explicit(&l->holder, memory_order_relaxed) == &this_thread;
}

#endif
