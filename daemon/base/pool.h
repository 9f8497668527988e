/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few threads for slow calls that cannot be divided into slices: libraries that query other
 * processes or read files. A worker hands over a job and continues with its other connections;
 * the job returns to it as a message.
 */
#ifndef MAYFLY_DAEMON_BASE_POOL_H
#define MAYFLY_DAEMON_BASE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"

/*
 * Jobs wait in queues by their source, and the queues take turns. At most POOL_QUEUE_MAX jobs
 * of one queue may wait, and POOL_MAX of all; but each queue may always have POOL_QUEUE_MIN.
 */
#define POOL_QUEUES    64u
#define POOL_QUEUE_MAX 256u
#define POOL_MAX       1024u
#define POOL_QUEUE_MIN 16u

/*
 * Added to the nice value of its threads. Password hashes use all CPU time they get, and
 * clients with failed logins cause them. When workers use all CPUs, a pool gets about a tenth
 * of what a worker gets. Where setpriority() is forbidden, as by the unit's filter, pool
 * threads have the priority of the workers.
 */
#define POOL_NICE 10

/* Time that a stop waits for running calls, milliseconds. */
#define POOL_STOP_MS 500

/* Embedded in the caller's job. */
struct pool_job {
    struct message message;               /* returns the job; the caller sets its fn */
    struct mailbox *to;                   /* [borrowed] */
    void (*run)(struct pool_job *job);    /* context: pool, outside a read-side section */
    void (*forget)(struct pool_job *job); /* release a job that is not returned; or NULL */
    uint64_t source;                      /* the origin of the job, such as an address */
    struct list_link link;                /* [lock] */
};

/*
 * Start a pool of this many threads, named mayfly-<name>0 and so on, or of as many as can be
 * made. NULL: no memory, or no thread can be made. Context: main, before start.
 */
struct pool *pool_start(const char *name, unsigned threads);

/*
 * Hand over a job; the pool owns it until its message arrives or it is forgotten. Jobs of one
 * source start in the order of posting, and never occupy all threads, unless there is only one.
 * False: too many jobs wait, and the caller still owns this one. Context: any thread, until
 * pool_stop().
 */
bool pool_post(struct pool *p, struct pool_job *job);

/*
 * Stop the pool. No job is returned afterwards: waiting jobs are forgotten, and the call waits
 * for running ones. True: all threads have ended. False: after POOL_STOP_MS some are still in a
 * call that does not return; the caller must not release the memory that they use, and should
 * end the process. Accepts NULL. Context: main, while the receivers still take messages.
 */
bool pool_stop(struct pool *p);

#endif
