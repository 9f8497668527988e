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

/*
 * Jobs wait in queues by their source, and the queues take turns. So many jobs of one source
 * may wait, and so many of all; but each queue has a few places whatever the others hold.
 */
#define POOL_QUEUES    64u
#define POOL_QUEUE_MAX 256u
#define POOL_MAX       1024u
#define POOL_QUEUE_MIN 16u

/*
 * Added to the nice value of its threads: hashes of passwords take as much of a CPU as they
 * get, and whoever fails to log in makes us compute them. Where workers want all CPUs, a pool
 * gets a tenth or so of what one of them does. Where setpriority() is forbidden, as by the
 * unit's filter, they have the priority of the workers.
 */
#define POOL_NICE 10

/* A stop waits this long for calls that are under way, milliseconds. */
#define POOL_STOP_MS 500

/* Embedded in what is to be done. */
struct pool_job {
    struct message message;               /* brings it back; the caller sets its fn */
    struct mailbox *to;                   /* [borrowed] */
    void (*run)(struct pool_job *job);    /* context: pool, outside a read-side section */
    void (*forget)(struct pool_job *job); /* release it: it does not come back */
    uint64_t source;                      /* who wants it, such as an address */
    struct pool_job *next;                /* [lock] */
};

struct pool;

/*
 * With so many threads, named mayfly-<name>0 and so on, or as many of them as can be made.
 * NULL: no memory, or no thread can be made. Context: main, before start.
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
