/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads. All are created by thread_start(), so that each has a name, gets no signals sent to
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
    int nicer;             /* added to the nice value of the creating thread */
    size_t stack_bytes;    /* 0: the system's default */
    bool reads;            /* it enters read-side sections */
};

/* One thread; all zero: none. Must not move until thread_join() or thread_leave(). */
struct thread {
    pthread_t id;
    const struct thread_kind *kind;
    void *arg;                    /* [borrowed] of kind->run */
    char name[THREAD_NAME_BYTES]; /* kind->name, or its own */
    size_t stack_bytes;           /* [const] of its stack */
    int nice_error;               /* [its thread] errno of setting its nice value, else 0 */
    bool is_running;              /* [creator] created and not joined yet */
};

/*
 * Create a thread that runs kind->run(arg). Returns 0, or an errno if there is no thread.
 * Context: any thread, which alone uses t until this returns.
 */
int thread_start(struct thread *t, const struct thread_kind *kind, void *arg);

/* The same with a name of its own, for one of several. Context: as above. */
int thread_start_named(struct thread *t, const struct thread_kind *kind, const char *name,
                       void *arg);

/*
 * Wait until the thread has ended; the caller has asked it to end. Does nothing if it was not
 * started. Context: the thread that created it, outside a read-side section.
 */
void thread_join(struct thread *t);

/*
 * Release unused pages of its stack to the system: half of the stack, at most 1 MiB below the
 * part in use. Context: that thread.
 */
void thread_discard_stack(const struct thread *t);

/*
 * The CPU time that the thread has used, in nanoseconds; 0 if it is not known. Context: any
 * thread; t runs and is not being joined.
 */
uint64_t thread_cpu_ns(const struct thread *t);

/* Detach it: it ends by itself, or with the process. Context: the thread that created it. */
void thread_leave(struct thread *t);

/*
 * Block all signals except the synchronous ones: SIGSYS from a forbidden system call (-o
 * drop_privileges), SIGBUS from items in a file that was truncated. *before gets the previous
 * mask, for thread_restore_signals(). Context: any thread.
 */
void thread_block_signals(sigset_t *before);
void thread_restore_signals(const sigset_t *before);

#endif
