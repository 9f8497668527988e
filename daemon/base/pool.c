/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues under one lock, which is a leaf. Threads are detached: the stop counts them, and
 * does not wait for one that hangs. After such a stop the last thread to end releases the pool.
 */
#include "daemon/base/pool.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

/* Jobs of some sources. */
struct queue {
    struct list jobs;
    unsigned waiting;
    unsigned running;
};

struct pool_thread {
    struct thread thread;
    struct pool *pool;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* a job came, or is_stopping */
    pthread_cond_t ended;  /* a thread has ended */

    /* [lock] */
    struct queue queues[POOL_QUEUES];
    unsigned waiting;     /* in all queues */
    unsigned turn;        /* the queue that is looked at first */
    unsigned running_max; /* of one queue */
    unsigned threads;     /* not yet ended */
    bool is_stopping;
    bool is_left; /* the stop did not wait for all threads */

    struct pool_thread members[]; /* [const] */
};

static void pool_destroy(struct pool *p)
{
    pthread_cond_destroy(&p->wanted);
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

static struct queue *queue_of(struct pool *p, const struct pool_job *job)
{
    /* Fibonacci hashing: the top bits depend on all bits of the source. */
    return &p->queues[(job->source * UINT64_C(0x9e3779b97f4a7c15)) >> 58 & (POOL_QUEUES - 1)];
}

/* The queue whose turn it is and which may run a job. NULL: none. Context: under the lock. */
static struct queue *next_queue(struct pool *p)
{
    for (unsigned i = 0; p->waiting > 0 && i < POOL_QUEUES; i++) {
        unsigned at = (p->turn + i) % POOL_QUEUES;
        struct queue *q = &p->queues[at];

        if (q->waiting > 0 && q->running < p->running_max) {
            p->turn = (at + 1) % POOL_QUEUES;
            return q;
        }
    }
    return NULL;
}

/* The next job; NULL when the pool stops. */
static struct pool_job *take_job(struct pool *p)
{
    struct pool_job *job = NULL;
    struct queue *q = NULL;

    pthread_mutex_lock(&p->lock);
    while (!p->is_stopping && (q = next_queue(p)) == NULL) {
        pthread_cond_wait(&p->wanted, &p->lock);
    }
    if (!p->is_stopping) {
        job = MF_OUTER(list_take_first(&q->jobs), struct pool_job, link);
        q->waiting--;
        q->running++;
        p->waiting--;
    }
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void forget(struct pool_job *job)
{
    if (job->forget != NULL) {
        job->forget(job);
    }
}

/* Send it back, unless the receivers may be gone. */
static void give_job_back(struct pool *p, struct pool_job *job)
{
    pthread_mutex_lock(&p->lock);
    bool is_late = p->is_stopping;
    queue_of(p, job)->running--;
    if (p->waiting > 0) {
        pthread_cond_signal(&p->wanted); /* another of its source may run now */
    }
    if (!is_late) {
        mailbox_post(job->to, &job->message);
    }
    pthread_mutex_unlock(&p->lock);
    if (is_late) {
        forget(job);
    }
}

static void thread_ended(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->threads--;
    bool is_mine = p->is_left && p->threads == 0;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->lock);
    if (is_mine) {
        pool_destroy(p);
    }
}

static void thread_main(void *arg)
{
    const struct pool_thread *member = arg;
    struct pool *p = member->pool;
    struct pool_job *job;

    if (member->thread.nice_error != 0) {
        log_info("pool, its threads run at the priority of workers (%s)",
                 strerror(member->thread.nice_error));
    }
    while ((job = take_job(p)) != NULL) {
        job->run(job);
        give_job_back(p, job);
    }
    thread_ended(p);
}

static const struct thread_kind pool_kind = {
    .name = "pool",
    .run = thread_main,
    .role = THREAD_POOL,
    .nicer = POOL_NICE,
    .reads = true,
};

static void start_threads(struct pool *p, const char *pool_name, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        struct pool_thread *member = &p->members[i];
        char name[THREAD_NAME_BYTES];

        pthread_mutex_lock(&p->lock);
        p->threads++;
        pthread_mutex_unlock(&p->lock);
        member->pool = p;
        snprintf(name, sizeof(name), "mayfly-%.3s%u", pool_name, i % 1000);
        if (thread_start_named(&member->thread, &pool_kind, name, member) != 0) {
            pthread_mutex_lock(&p->lock);
            p->threads--;
            pthread_mutex_unlock(&p->lock);
            return;
        }
        thread_leave(&member->thread); /* pool_stop() waits for p->threads, but not for ever */
    }
}

struct pool *pool_start(const char *name, unsigned threads)
{
    struct pool *p = mem_zalloc(sizeof(*p) + threads * sizeof(p->members[0]));

    must_be_main();
    if (p == NULL) {
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wanted, NULL);
    cond_init(&p->ended);
    for (unsigned i = 0; i < POOL_QUEUES; i++) {
        list_init(&p->queues[i].jobs);
    }
    p->running_max = threads > 1 ? threads - 1 : 1;
    start_threads(p, name, threads);
    pthread_mutex_lock(&p->lock);
    bool has_threads = p->threads > 0;
    pthread_mutex_unlock(&p->lock);
    if (!has_threads) {
        pool_destroy(p);
        return NULL;
    }
    return p;
}

/* Context: under the lock. */
static bool has_room(const struct pool *p, const struct queue *q)
{
    return q->waiting < (p->waiting < POOL_MAX ? POOL_QUEUE_MAX : POOL_QUEUE_MIN);
}

bool pool_post(struct pool *p, struct pool_job *job)
{
    struct queue *q = queue_of(p, job);

    debug_must(job->run != NULL && job->message.fn != NULL);
    pthread_mutex_lock(&p->lock);
    debug_must(!p->is_stopping);
    bool is_taken = has_room(p, q);
    if (is_taken) {
        list_append(&q->jobs, &job->link);
        q->waiting++;
        p->waiting++;
        pthread_cond_signal(&p->wanted);
    }
    pthread_mutex_unlock(&p->lock);
    return is_taken;
}

/* Take all waiting jobs out. Context: under the lock. */
static void take_waiting(struct pool *p, struct list *all)
{
    list_init(all);
    for (unsigned i = 0; i < POOL_QUEUES; i++) {
        list_take_all(all, &p->queues[i].jobs);
        p->queues[i].waiting = 0;
    }
    p->waiting = 0;
}

/* Wait until all threads have ended, or for POOL_STOP_MS. Context: under the lock. */
static void wait_for_threads(struct pool *p)
{
    const struct timespec until = cond_after(POOL_STOP_MS);

    while (p->threads > 0 && pthread_cond_timedwait(&p->ended, &p->lock, &until) == 0) {
    }
}

bool pool_stop(struct pool *p)
{
    struct list_link *link;
    struct list waiting;

    must_be_main();
    if (p == NULL) {
        return true;
    }
    pthread_mutex_lock(&p->lock);
    p->is_stopping = true;
    take_waiting(p, &waiting);
    pthread_cond_broadcast(&p->wanted);
    wait_for_threads(p);
    bool is_done = p->threads == 0;
    p->is_left = !is_done;
    pthread_mutex_unlock(&p->lock);
    while ((link = list_take_first(&waiting)) != NULL) {
        forget(MF_OUTER(link, struct pool_job, link));
    }
    if (is_done) {
        pool_destroy(p);
    }
    return is_done;
}
