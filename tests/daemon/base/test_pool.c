/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool: every job comes back to the loop that sent it, and a stop neither waits for a job that
 * hangs nor loses one.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "daemon/base/pool.h"
#include "lib/base/clock.h"
#include "tests/common/unit.h"

#define POOL_THREADS 4u

struct task {
    struct pool_job job;
    _Atomic int began;
    _Atomic int ran;
    _Atomic int forgotten;
    int came_back;
    int niceness; /* of the thread that ran it */
    sem_t *gate;  /* [borrowed] run() waits for it */
};

static uv_loop_t loop;
static struct mailbox mailbox;
static int expected;

/* A busy machine may need more than POOL_STOP_MS to run threads of low priority once more. */
static bool is_patient = true;

/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *at);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *at);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *at)
{
    return is_patient ? pthread_cond_wait(c, m) : __real_pthread_cond_timedwait(c, m, at);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static struct task *task_of(struct pool_job *job)
{
    return (struct task *)(void *)job;
}

static void run(struct pool_job *job)
{
    struct task *t = task_of(job);

    t->began++;
    t->niceness = getpriority(PRIO_PROCESS, 0);
    if (t->gate != NULL) {
        sem_wait(t->gate);
    }
    t->ran++;
}

static void forget(struct pool_job *job)
{
    task_of(job)->forgotten++;
}

static void on_back(struct message *m, void *receiver)
{
    task_of((struct pool_job *)(void *)m)->came_back++;
    if (--expected == 0) {
        uv_stop(&loop);
    }
}

static void task_init(struct task *t, sem_t *gate)
{
    memset(t, 0, sizeof(*t));
    t->job.message.fn = on_back;
    t->job.to = &mailbox;
    t->job.run = run;
    t->job.forget = forget;
    t->gate = gate;
}

static void open_loop(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(mailbox_init(&mailbox, &loop, NULL), 0);
}

static void close_loop(void)
{
    mailbox_close(&mailbox);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST_FIXTURE(open_loop, close_loop)

TEST(every_job_comes_back)
{
    enum { JOBS = 1000 };
    static struct task tasks[JOBS];
    struct pool *p = pool_start("t", POOL_THREADS);

    ck_assert_ptr_nonnull(p);
    expected = JOBS;
    for (int i = 0; i < JOBS; i++) {
        task_init(&tasks[i], NULL);
        tasks[i].job.source = (uint64_t)i;
        ck_assert(pool_post(p, &tasks[i].job));
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert(pool_stop(p));
    for (int i = 0; i < JOBS; i++) {
        ck_assert_int_eq(tasks[i].ran, 1);
        ck_assert_int_eq(tasks[i].came_back, 1);
        ck_assert_int_eq(tasks[i].forgotten, 0);
    }
}

/* Whatever the process was started with; there is nothing below 19. */
TEST(its_threads_leave_the_cpu_to_workers)
{
    const int own = getpriority(PRIO_PROCESS, 0);
    struct pool *p = pool_start("t", 1);
    struct task t;

    ck_assert_ptr_nonnull(p);
    task_init(&t, NULL);
    expected = 1;
    ck_assert(pool_post(p, &t.job));
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert(pool_stop(p));
    ck_assert_int_eq(t.niceness, own + POOL_NICE < 19 ? own + POOL_NICE : 19);
    ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), own);
}

TEST(one_that_hangs_holds_up_no_other)
{
    struct pool *p = pool_start("t", POOL_THREADS);
    struct task slow[POOL_THREADS - 1];
    struct task quick;
    sem_t gate;

    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(sem_init(&gate, 0, 0), 0);
    for (unsigned i = 0; i < POOL_THREADS - 1; i++) {
        task_init(&slow[i], &gate);
        pool_post(p, &slow[i].job);
    }
    task_init(&quick, NULL);
    quick.job.source = 1;
    expected = 1;
    pool_post(p, &quick.job);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(quick.came_back, 1);

    expected = POOL_THREADS - 1;
    for (unsigned i = 0; i < POOL_THREADS - 1; i++) {
        ck_assert_int_eq(slow[i].came_back, 0);
        sem_post(&gate);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert(pool_stop(p));
    sem_destroy(&gate);
}

/* A peer with many jobs waits longer than one with a single job, and has a limit. */
TEST(sources_take_turns)
{
    struct pool *p = pool_start("t", 2);
    static struct task many[POOL_QUEUE_MAX + 2];
    struct task one;
    unsigned taken = 0;
    sem_t gate;

    ck_assert_int_eq(sem_init(&gate, 0, 0), 0);
    expected = 1;
    task_init(&many[0], &gate);
    ck_assert(pool_post(p, &many[0].job));
    WAIT_UNTIL(many[0].began != 0);
    for (unsigned i = 1; i < POOL_QUEUE_MAX + 2; i++) {
        task_init(&many[i], &gate);
        taken += pool_post(p, &many[i].job);
    }
    ck_assert_uint_eq(taken, POOL_QUEUE_MAX);
    task_init(&one, NULL);
    one.job.source = 1;
    ck_assert(pool_post(p, &one.job));
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(one.came_back, 1);
    ck_assert_int_eq(many[1].began, 0); /* a thread is idle, but not for the same source */
    expected = (int)taken + 1;
    for (unsigned i = 0; i <= taken; i++) {
        sem_post(&gate);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert(pool_stop(p));
    sem_destroy(&gate);
}

/* When all places are taken a source that has few jobs still gets in. */
TEST(every_source_has_some_places)
{
    enum { SOURCES = 1000 };
    struct pool *p = pool_start("t", 1);
    static struct task tasks[POOL_MAX + POOL_QUEUES * POOL_QUEUE_MIN + 2 * SOURCES];
    unsigned n = 0;
    sem_t gate;

    ck_assert_int_eq(sem_init(&gate, 0, 0), 0);
    for (uint64_t source = 0; source < SOURCES && n < POOL_MAX; source++) {
        for (unsigned i = 0; i < POOL_QUEUE_MAX && n < POOL_MAX; i++) {
            task_init(&tasks[n], &gate);
            tasks[n].job.source = source;
            n += pool_post(p, &tasks[n].job);
        }
    }
    for (uint64_t source = 0; source < SOURCES; source++) {
        task_init(&tasks[n], &gate);
        tasks[n].job.source = source;
        n += pool_post(p, &tasks[n].job);
    }
    ck_assert_uint_gt(n, POOL_MAX + 100);
    ck_assert_uint_le(n, POOL_MAX + POOL_QUEUES * POOL_QUEUE_MIN + 1);
    expected = (int)n;
    for (unsigned i = 0; i < n; i++) {
        sem_post(&gate);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert(pool_stop(p));
    sem_destroy(&gate);
}

TEST(stop_forgets_what_waits_and_leaves_what_hangs)
{
    struct pool *p = pool_start("t", POOL_THREADS);
    struct task hanging[POOL_THREADS];
    struct task waiting[10];
    sem_t gate;

    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(sem_init(&gate, 0, 0), 0);
    for (unsigned i = 0; i < POOL_THREADS; i++) {
        task_init(&hanging[i], &gate);
        hanging[i].job.source = i;
        pool_post(p, &hanging[i].job);
    }
    /* Each has a thread before others are there that one of these could take instead. */
    for (unsigned i = 0; i < POOL_THREADS; i++) {
        WAIT_UNTIL(hanging[i].began != 0);
    }
    for (int i = 0; i < 10; i++) {
        task_init(&waiting[i], &gate);
        pool_post(p, &waiting[i].job);
    }
    is_patient = false;
    ck_assert(!pool_stop(p));
    is_patient = true;
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(waiting[i].forgotten, 1);
        ck_assert_int_eq(waiting[i].ran, 0);
    }
    /* The call returns late: its result is dropped, and the last thread releases the pool. */
    for (unsigned i = 0; i < POOL_THREADS; i++) {
        sem_post(&gate);
    }
    for (unsigned i = 0; i < POOL_THREADS; i++) {
        WAIT_UNTIL(hanging[i].forgotten != 0);
        ck_assert_int_eq(hanging[i].came_back, 0);
    }
    sem_destroy(&gate);
}

TEST(stop_without_a_pool)
{
    ck_assert(pool_stop(NULL));
}
