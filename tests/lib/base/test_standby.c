/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standby: jobs one after the other on one thread.
 */
#include "lib/base/standby.h"

#include <semaphore.h>
#include <stdatomic.h>

#include "lib/base/rcu.h"
#include "tests/common/unit.h"

static const struct thread_kind kind = {.name = "standby", .run = standby_main};

struct job {
    sem_t begun, go_on;
    pthread_t thread;
    _Atomic bool has_ended;
};

static struct standby standby;
static struct job job;

static void setup(void)
{
    memset(&job, 0, sizeof(job));
    ck_assert_int_eq(sem_init(&job.begun, 0, 0), 0);
    ck_assert_int_eq(sem_init(&job.go_on, 0, 0), 0);
    ck_assert(standby_start(&standby, &kind));
}

static void teardown(void)
{
    standby_stop(&standby);
    standby_stop(&standby); /* of one that is not there nothing is left to do */
    sem_destroy(&job.begun);
    sem_destroy(&job.go_on);
}

TEST_FIXTURE(setup, teardown)

static void wait_on(sem_t *sem)
{
    while (sem_wait(sem) != 0) {
    }
}

static void run(void *arg)
{
    struct job *j = arg;

    j->thread = pthread_self();
    rcu_begin();
    rcu_end();
    sem_post(&j->begun);
    wait_on(&j->go_on);
    atomic_store(&j->has_ended, true);
}

static void note_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
}

TEST(a_job_runs_on_the_thread_and_is_waited_for)
{
    uint64_t ticket = standby_run(&standby, run, &job);

    ck_assert_uint_ne(ticket, 0);
    wait_on(&job.begun);
    ck_assert(!pthread_equal(job.thread, pthread_self()));
    ck_assert(pthread_equal(job.thread, standby.thread.id));
    sem_post(&job.go_on);
    standby_wait(&standby, ticket);
    ck_assert(atomic_load(&job.has_ended));
}

TEST(a_second_job_is_refused_until_the_first_has_ended)
{
    uint64_t first = standby_run(&standby, run, &job);
    pthread_t thread;

    wait_on(&job.begun);
    ck_assert_uint_eq(standby_run(&standby, note_thread, &thread), 0);
    sem_post(&job.go_on);
    standby_wait(&standby, first);
    uint64_t second = standby_run(&standby, note_thread, &thread);
    ck_assert_uint_gt(second, first);
    standby_wait(&standby, second);
    standby_wait(&standby, first); /* over long ago */
    ck_assert(pthread_equal(thread, job.thread));
}
