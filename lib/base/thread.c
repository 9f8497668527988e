/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making threads: see thread.h.
 */
#include "lib/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

/* What is given back of a stack at most. */
#define DISCARD_MAX ((size_t)1 << 20)

void thread_block_signals(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void thread_restore_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Linux has a nice value for each thread. It is relative, as the process may have any. */
static int become_nicer(int by)
{
    errno = 0;
    return by != 0 && nice(by) == -1 ? errno : 0;
}

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    const struct thread_kind *kind = t->kind; /* a thread that was left alone may free t */

    (void)pthread_setname_np(pthread_self(), t->name);
    context_set_thread(kind->role, NULL, NULL);
    t->nice_error = become_nicer(kind->nicer);
    if (kind->reads) {
        rcu_register();
    }
    kind->run(t->arg);
    if (kind->reads) {
        rcu_unregister();
    }
    return NULL;
}

int thread_start_named(struct thread *t, const struct thread_kind *kind, const char *name,
                       void *arg)
{
    pthread_attr_t attr;
    sigset_t before;
    int error = pthread_attr_init(&attr);

    must(!t->is_running);
    if (error != 0) {
        return error;
    }
    *t = (struct thread){.kind = kind, .arg = arg};
    snprintf(t->name, sizeof(t->name), "%s", name);
    if (kind->stack_bytes != 0) {
        /* Fails if the system's minimum is larger; then the default size is used. */
        (void)pthread_attr_setstacksize(&attr, kind->stack_bytes);
    }
    (void)pthread_attr_getstacksize(&attr, &t->stack_bytes);
    /* A thread has the mask of the one that makes it. */
    thread_block_signals(&before);
    error = pthread_create(&t->id, &attr, thread_main, t);
    thread_restore_signals(&before);
    pthread_attr_destroy(&attr);
    t->is_running = error == 0;
    return error;
}

int thread_start(struct thread *t, const struct thread_kind *kind, void *arg)
{
    return thread_start_named(t, kind, kind->name, arg);
}

void thread_join(struct thread *t)
{
    if (t->is_running) {
        must_not_be_reading();
        must(pthread_join(t->id, NULL) == 0);
        t->is_running = false;
    }
}

/*
 * Below this frame, within the half of the stack: its lower end is not known. A page is left
 * for what is called here.
 */
MF_NOINLINE void thread_discard_stack(const struct thread *t)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t most = t->stack_bytes / 2 < DISCARD_MAX ? t->stack_bytes / 2 : DISCARD_MAX;
    const uintptr_t end = ((uintptr_t)__builtin_frame_address(0) & ~(page - 1)) - page;

    mem_discard((char *)(end - most / page * page), most / page * page);
}

uint64_t thread_cpu_ns(const struct thread *t)
{
    struct timespec ts;
    clockid_t clock;

    if (pthread_getcpuclockid(t->id, &clock) != 0 || clock_gettime(clock, &ts) != 0) {
        return 0;
    }
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void thread_leave(struct thread *t)
{
    must(t->is_running);
    t->is_running = false;
    must(pthread_detach(t->id) == 0);
}
