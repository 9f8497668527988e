/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that read, and the grace period that needs no waiting.
 *
 * liburcu can only wait, which a worker must never do. But whoever is between two sections can
 * look whether all others are as well. Its readers note in a word of their thread that they
 * are inside; the order of that note and what they read inside is the compiler's alone, so a
 * membarrier goes before the look (an open section is seen, or what it reads is newer than
 * every unlink before this call) and one behind it (what a section read that is seen to have
 * ended was read before what happens next here).
 *
 * The library keeps the list of its readers to itself, so there is one here. It is the only
 * state of the process in lib/, as that library's own is.
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
struct reader {
    const unsigned long *sections; /* [const] liburcu's word: not 0 in NEST_MASK when inside */
    struct reader *next;           /* [lock] */
};

static pthread_mutex_t readers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct reader *readers; /* under readers_lock */
static _Thread_local struct reader self;

void rcu_register(void)
{
    urcu_memb_register_thread();
    self.sections = &URCU_TLS(urcu_memb_reader).ctr;
    pthread_mutex_lock(&readers_lock);
    self.next = readers;
    readers = &self;
    pthread_mutex_unlock(&readers_lock);
}

void rcu_unregister(void)
{
    struct reader **at = &readers;

    pthread_mutex_lock(&readers_lock);
    while (*at != &self) {
        must(*at != NULL);
        at = &(*at)->next;
    }
    *at = self.next;
    pthread_mutex_unlock(&readers_lock);
    urcu_memb_unregister_thread();
}

static bool is_any_inside(void)
{
    for (const struct reader *r = readers; r != NULL; r = r->next) {
        if ((CMM_LOAD_SHARED(*r->sections) & URCU_GP_CTR_NEST_MASK) != 0) {
            return true;
        }
    }
    return false;
}

static bool run_barriers(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Nobody else reads: then the order of this thread's own steps suffices. */
static bool is_only_reader(void)
{
    return readers == &self && self.next == NULL;
}

bool rcu_try_wait(void)
{
    bool is_over;

    if (pthread_mutex_trylock(&readers_lock) != 0) {
        return false; /* another thread tries, begins or ends: it will not take long */
    }
    if (is_only_reader()) {
        is_over = !is_any_inside();
    } else {
        is_over = run_barriers() && !is_any_inside() && run_barriers();
    }
    pthread_mutex_unlock(&readers_lock);
    if (is_over) {
        rcu_tsan_acquire();
    }
    return is_over;
}
