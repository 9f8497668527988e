/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few threads for calls that may take long and that nobody can make shorter: libraries that
 * ask other processes, or look at files. A worker hands over a job and serves its other
 * connections; the job comes back to it as a message.
 */
#ifndef MAYFLY_DAEMON_BASE_POOL_H
#define MAYFLY_DAEMON_BASE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"

#define POOL_THREADS 4u

/* A stop waits so long for calls that are under way, milliseconds. */
#define POOL_STOP_MS 500

/* Embedded in what is to be done. */
struct pool_job {
    struct message message;               /* its way back: fn and to are set by the caller */
    struct mailbox *to;                   /* [borrowed] */
    void (*run)(struct pool_job *job);    /* context: pool, outside a read-side section */
    void (*forget)(struct pool_job *job); /* release it: it will never come back */
    struct pool_job *next;                /* [lock] */
};

struct pool;

/* NULL when there is no memory, or no thread can be made. Context: main, before start. */
struct pool *pool_start(void);

/*
 * Takes the job until its message comes, or until it is forgotten. Jobs run in the order they
 * came. Context: any thread, until pool_stop().
 */
void pool_post(struct pool *p, struct pool_job *job);

/*
 * No job comes back any more: those that wait are forgotten, those that run are waited for.
 * True when all threads have ended; else, after POOL_STOP_MS, some are left in a call that does
 * not return, what they use must stay, and the process should end. Accepts NULL. Context: main,
 * while the receivers still take messages.
 */
bool pool_stop(struct pool *p);

#endif
