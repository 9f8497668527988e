/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads. All are created by this function, so that each has a name, gets no signals sent to
 * the process, has the priority that suits its work, and is registered with RCU if it reads
 * items. The daemon creates all threads at its start: under -o drop_privileges none can be
 * created later.
 */
#ifndef MAYFLY_LIB_BASE_THREAD_H
#define MAYFLY_LIB_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/context.h"

#define THREAD_NAME_BYTES 16

/* What threads of one kind have in common; constant, in static memory. */
struct thread_kind {
    const char *name; /* top -H and messages of failed checks show it; 15 bytes at most */
    void (*run)(void *arg);
    enum thread_role role; /* for checks of contexts */
    int nicer;             /* added to the nice value of the thread that makes it */
    size_t stack_bytes;    /* 0: as the system has it */
    bool reads;            /* it enters read-side sections */
};

/* One thread; all zero: none. It stays where it is until it was joined or left alone. */
struct thread {
    pthread_t id;
    const struct thread_kind *kind;
    void *arg;                    /* [borrowed] of kind->run */
    char name[THREAD_NAME_BYTES]; /* kind->name, or its own */
    size_t stack_bytes;           /* [const] of its stack */
    int nice_error;               /* [its thread] errno when it did not become nicer, else 0 */
    bool is_running;              /* the maker's: it was made and has not been joined */
};

/*
 * Make a thread that runs kind->run(arg). 0, or an errno: then there is none. Context: any
 * thread; t is its own.
 */
int thread_start(struct thread *t, const struct thread_kind *kind, void *arg);

/* The same with a name of its own, for one of several. Context: as above. */
int thread_start_named(struct thread *t, const struct thread_kind *kind, const char *name,
                       void *arg);

/*
 * Wait for its end. It must have been told to end; nothing happens if it does not run. Context:
 * the thread that made it, outside a read-side section.
 */
void thread_join(struct thread *t);

/*
 * Give the pages of its stack back that are not in use, as far as it is usual to use them.
 * Context: that thread.
 */
void thread_discard_stack(const struct thread *t);

/*
 * The CPU time that the thread has used, in nanoseconds; 0 if it is not known. Context: any
 * thread; t runs and is not being joined.
 */
uint64_t thread_cpu_ns(const struct thread *t);

/* Nobody will join it: it ends by itself, or with the process. Context: that which made it. */
void thread_leave(struct thread *t);

/*
 * Block all signals but those that a thread raises itself: SIGSYS by a call that is forbidden
 * (-o drop_privileges), SIGBUS by items in a file that was cut. *before: for
 * thread_restore_signals(). Context: any thread.
 */
void thread_block_signals(sigset_t *before);
void thread_restore_signals(const sigset_t *before);

#endif
