/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of threads that read, and the grace period that needs no waiting.
 *
 * liburcu can only wait, which a worker must never do. But a thread between two sections can
 * check whether all others are outside sections as well. Each reader notes in a word of its
 * thread that it is inside; a fence follows. So a thread that is seen outside has either ended
 * the sections in which it unlinked something, or begins one later, and dates what it unlinks
 * there with a later number. When each was seen outside, all threads see what was unlinked.
 * Then follows a second check: a thread that is outside now will not find unlinked memory.
 *
 * On x86 this takes no barrier: stores are seen in their order, so what a section unlinked is
 * seen before its end, and no load is delayed past a later store, so what it read was read
 * before its end. Elsewhere it takes a membarrier for each. These interrupt all other threads
 * that run, so there are none when the first look finds a thread inside.
 *
 * The library does not share its list of readers, so there is one here. Like the library's own
 * state, it belongs to the process; no other state in lib/ does.
 */
#include "lib/base/rcu.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef MAYFLY_TSAN
#include <urcu/static/urcu-memb.h>
#endif

#include "lib/base/check.h"

/* A registered thread; in its own thread-local storage. */
struct rcu_reader {
    const unsigned long *sections; /* [const] liburcu's word: bits of NEST_MASK when inside */
    struct rcu_reader *next;       /* [readers_lock] */
};

static pthread_mutex_t readers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcu_reader *readers; /* [readers_lock] */
static _Thread_local struct rcu_reader self;

void rcu_register(void)
{
    must(self.sections == NULL);
    urcu_memb_register_thread();
    self.sections = &URCU_TLS(urcu_memb_reader).ctr;
    pthread_mutex_lock(&readers_lock);
    self.next = readers;
    readers = &self;
    pthread_mutex_unlock(&readers_lock);
}

void rcu_unregister(void)
{
    struct rcu_reader **at = &readers;

    debug_must(!rcu_is_reading());
    pthread_mutex_lock(&readers_lock);
    while (*at != &self) {
        must(*at != NULL);
        at = &(*at)->next;
    }
    *at = self.next;
    self.sections = NULL;
    pthread_mutex_unlock(&readers_lock);
    urcu_memb_unregister_thread();
}

bool rcu_is_registered(void)
{
    return self.sections != NULL;
}

static bool is_any_inside(void)
{
    for (const struct rcu_reader *r = readers; r != NULL; r = r->next) {
        if ((CMM_LOAD_SHARED(*r->sections) & URCU_GP_CTR_NEST_MASK) != 0) {
            return true;
        }
    }
    return false;
}

bool rcu_has_barriers;

static long membarrier_call(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

/* Before there is a second thread: all have to agree on which halves of a fence they use. */
static MF_CONSTRUCTOR void find_barriers(void)
{
    long commands = membarrier_call(MEMBARRIER_CMD_QUERY);

    rcu_has_barriers = commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 &&
                       membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

static bool run_barriers(void)
{
    return rcu_has_barriers && membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

void rcu_fence_heavy(void)
{
#ifdef MAYFLY_TSAN
    rcu_fence_light();
#else
    if (rcu_has_barriers) {
        must(run_barriers());
    } else {
        atomic_thread_fence(memory_order_seq_cst);
    }
#endif
}

/* Is no other thread registered? Then the order of this thread's own steps is enough. */
static bool is_only_reader(void)
{
    return readers == &self && self.next == NULL;
}

/* Bring the steps of others in the order in which sections have them; see above. */
static bool order_others(void)
{
#if (defined(__x86_64__) || defined(__i386__)) && !defined(MAYFLY_TSAN)
    atomic_signal_fence(memory_order_seq_cst);
    return rcu_has_barriers; /* as elsewhere */
#else
    return run_barriers();
#endif
}

bool rcu_try_wait(void)
{
    bool is_over;

    debug_must(self.sections != NULL);
    if (pthread_mutex_trylock(&readers_lock) != 0) {
        return false; /* another thread tries, or joins or leaves the list: this is short */
    }
    rcu_fence_full(); /* the number of this period is seen by sections that are not */
    if (is_only_reader()) {
        is_over = !is_any_inside();
    } else {
        is_over = !is_any_inside() && order_others() && !is_any_inside() && order_others();
    }
    pthread_mutex_unlock(&readers_lock);
    if (is_over) {
        rcu_tsan_acquire();
    }
    return is_over;
}
