/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of the contexts that comments of functions demand: which thread is calling, and
 * whether a read-side section is open. (For locks there is lock_must_be_held().) They are
 * compiled in only by --enable-debug. For example, a function whose comment says "Context:
 * worker" begins with must_be_worker().
 *
 * Each thread of the daemon declares its kind once. A thread without a declared kind, as in
 * unit tests, passes all of these checks.
 */
#ifndef MAYFLY_LIB_BASE_CONTEXT_H
#define MAYFLY_LIB_BASE_CONTEXT_H

#include <stdbool.h>

#include "lib/base/check.h"
#include "lib/base/rcu.h"

enum thread_role {
    THREAD_UNKNOWN, /* the thread has not declared its kind: it may have any role */
    THREAD_MAIN,
    THREAD_WORKER,
    THREAD_RECLAIMER,
    THREAD_POOL,
    THREAD_LOG,
};

/* Is this worker the home worker of this shard? Context: the worker's thread. */
typedef bool (*context_home_fn)(const void *worker, const void *shard);

struct thread_context {
    enum thread_role role;
    const void *self;        /* [borrowed] of a worker: its struct worker */
    context_home_fn is_home; /* [const] of a worker */
};

/*
 * Declare what the calling thread is, until the next call. self and is_home may be NULL: then
 * the thread counts as every worker, and as at home in every shard. Context: any thread.
 */
void context_set_thread(enum thread_role role, const void *self, context_home_fn is_home);

/*
 * Save and restore what the calling thread has declared. A thread that prepares something for
 * another thread, which does not run yet, declares the other's role meanwhile. Context: any
 * thread.
 */
struct thread_context context_get(void);
void context_put(struct thread_context context);

/* Does the calling thread have this role, or is its role unknown? Context: any thread. */
bool context_is_thread(enum thread_role role);

/*
 * Is the calling thread the worker with this struct worker (self), or the home worker of this
 * shard? Context: any thread.
 */
bool context_is_worker(const void *self);
bool context_is_home(const void *shard);

/* The struct worker of the calling thread; NULL: it is none. Context: any thread. */
const void *context_self(void);

#define must_be_main()      debug_must(context_is_thread(THREAD_MAIN))
#define must_be_worker(w)   debug_must(context_is_worker(w))
#define must_be_a_worker()  debug_must(context_is_thread(THREAD_WORKER))
#define must_be_home(s)     debug_must(context_is_home(s))
#define must_be_reclaimer() debug_must(context_is_thread(THREAD_RECLAIMER))
#define must_be_pool()      debug_must(context_is_thread(THREAD_POOL))

/* Inside, and outside, a read-side section. */
#define must_be_reading()     debug_must(rcu_is_reading())
#define must_not_be_reading() debug_must(!rcu_is_reading())

#endif
