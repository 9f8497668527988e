/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that is created before there is work for it. It sleeps on a condition variable until
 * it is given a job, runs it, and sleeps again. So work that begins while the server runs needs
 * no new thread, which -o drop_privileges would forbid at that time.
 */
#ifndef MAYFLY_LIB_BASE_STANDBY_H
#define MAYFLY_LIB_BASE_STANDBY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/thread.h"

/* All zero: not started. The struct must not move until standby_stop(). */
struct standby {
    struct thread thread;
    pthread_mutex_t mutex; /* a leaf; what follows is under it */
    pthread_cond_t changed;
    void (*run)(void *arg); /* the job that waits or runs; NULL: none */
    void *arg;              /* [borrowed] */
    uint64_t begun, ended;  /* number of jobs */
    bool is_stopping;
};

/* The thread's function. Its thread_kind has `.run = standby_main`, without `.reads`. */
void standby_main(void *arg);

/* Make the thread. False: the system refused it. Context: any thread, as for standby_stop(). */
bool standby_start(struct standby *s, const struct thread_kind *kind);

/*
 * Hand over a job. It runs registered with RCU, so it may enter read-side sections. Returns a
 * ticket for standby_wait(); 0: another job has not ended yet. Context: any thread.
 */
uint64_t standby_run(struct standby *s, void (*run)(void *arg), void *arg);

/* Wait until the job of this ticket has ended. Context: any other thread, outside a section. */
void standby_wait(struct standby *s, uint64_t ticket);

/* End the thread. No job may be running. Does nothing if it was not started. */
void standby_stop(struct standby *s);

#endif
