/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standby threads: see standby.h.
 */
#include "lib/base/standby.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/rcu.h"

/* Run the job. Under the mutex, which is given up meanwhile. */
static void run_job(struct standby *s)
{
    void (*run)(void *arg) = s->run;
    void *arg = s->arg;

    pthread_mutex_unlock(&s->mutex);
    /* Only now: a grace period looks at all threads that are registered. */
    rcu_register();
    run(arg);
    rcu_unregister();
    pthread_mutex_lock(&s->mutex);
    s->run = NULL;
    s->ended++;
    pthread_cond_broadcast(&s->changed);
}

void standby_main(void *arg)
{
    struct standby *s = arg;

    pthread_mutex_lock(&s->mutex);
    while (!s->is_stopping) {
        if (s->run != NULL) {
            run_job(s);
        } else {
            pthread_cond_wait(&s->changed, &s->mutex);
        }
    }
    pthread_mutex_unlock(&s->mutex);
}

static void destroy_locks(struct standby *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
}

bool standby_start(struct standby *s, const struct thread_kind *kind)
{
    must(kind->run == standby_main && !kind->reads);
    *s = (struct standby){.run = NULL};
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (thread_start(&s->thread, kind, s) != 0) {
        destroy_locks(s);
        return false;
    }
    return true;
}

uint64_t standby_run(struct standby *s, void (*run)(void *arg), void *arg)
{
    uint64_t ticket = 0;

    pthread_mutex_lock(&s->mutex);
    if (s->run == NULL) {
        s->run = run;
        s->arg = arg;
        ticket = ++s->begun;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    return ticket;
}

void standby_wait(struct standby *s, uint64_t ticket)
{
    must_not_be_reading();
    pthread_mutex_lock(&s->mutex);
    while (s->ended < ticket) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
}

void standby_stop(struct standby *s)
{
    if (!s->thread.is_running) {
        return;
    }
    pthread_mutex_lock(&s->mutex);
    must(s->run == NULL);
    s->is_stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    thread_join(&s->thread);
    destroy_locks(s);
}
