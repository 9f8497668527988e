/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few threads for slow calls that cannot be cut into slices: libraries that ask other
 * processes or read files. A worker hands over a job and goes on with its other connections;
 * the job comes back to it as a message.
 */
#ifndef MAYFLY_DAEMON_BASE_POOL_H
#define MAYFLY_DAEMON_BASE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"

/* A stop waits this long for calls that are under way, milliseconds. */
#define POOL_STOP_MS 500

/* Embedded in what is to be done. */
struct pool_job {
    struct message message;               /* brings it back; the caller sets its fn */
    struct mailbox *to;                   /* [borrowed] */
    void (*run)(struct pool_job *job);    /* context: pool, outside a read-side section */
    void (*forget)(struct pool_job *job); /* release it: it does not come back */
    struct pool_job *next;                /* [lock] */
};

struct pool;

/*
 * With so many threads, named mayfly-<name>0 and so on, or as many of them as can be made.
 * NULL: no memory, or no thread can be made. Context: main, before start.
 */
struct pool *pool_start(const char *name, unsigned threads);

/*
 * Hand over a job, until its message comes or it is forgotten. Jobs begin in the order they
 * came. Context: any thread, until pool_stop().
 */
void pool_post(struct pool *p, struct pool_job *job);

/*
 * After this no job comes back: waiting jobs are forgotten, running ones are waited for. True:
 * all threads have ended. False: after POOL_STOP_MS some are still in a call that does not
 * return; what they use must stay, and the process should end. Accepts NULL. Context: main,
 * while the receivers still take messages.
 */
bool pool_stop(struct pool *p);

#endif
