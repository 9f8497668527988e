/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few threads for slow calls that cannot be divided into slices: libraries that ask other
 * processes or read files. A worker hands over a job and continues with its other connections;
 * the job returns to it as a message.
 */
#ifndef MAYFLY_DAEMON_BASE_POOL_H
#define MAYFLY_DAEMON_BASE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

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

/* Embedded in what is to be done. */
struct pool_job {
    struct message message;               /* brings it back; the caller sets its fn */
    struct mailbox *to;                   /* [borrowed] */
    void (*run)(struct pool_job *job);    /* context: pool, outside a read-side section */
    void (*forget)(struct pool_job *job); /* release it: it does not come back; NULL: not */
    uint64_t source;                      /* the origin of the job, such as an address */
    struct pool_job *next;                /* [lock] */
};

struct pool;

/*
 * Start a pool of this many threads, named mayfly-<name>0 and so on, or of as many as can be
 * made. NULL: no memory, or no thread can be made. Context: main, before start.
 */
struct pool *pool_start(const char *name, unsigned threads);

/*
 * Hand over a job, until its message comes or it is forgotten. Jobs of one source begin in the
 * order they came, and never occupy all threads, unless there is only one. False: too many
 * wait; the job is still the caller's. Context: any thread, until pool_stop().
 */
bool pool_post(struct pool *p, struct pool_job *job);

/*
 * After this no job comes back: waiting jobs are forgotten, running ones are waited for. True:
 * all threads have ended. False: after POOL_STOP_MS some are still in a call that does not
 * return; what they use must stay, and the process should end. Accepts NULL. Context: main,
 * while the receivers still take messages.
 */
bool pool_stop(struct pool *p);

#endif
