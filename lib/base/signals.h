/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that no signal interrupts: those that are sent to the process are for its first
 * thread. A thread has the mask of the one that makes it, so that one blocks them meanwhile.
 */
#ifndef MAYFLY_LIB_BASE_SIGNALS_H
#define MAYFLY_LIB_BASE_SIGNALS_H

#include <signal.h>

/*
 * Block all signals but those that a thread raises itself: SIGSYS by a call that is forbidden
 * (-o drop_privileges), SIGBUS by items in a file that was cut. *before: for
 * signals_restore(). Context: any thread.
 */
static inline void signals_block(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static inline void signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
