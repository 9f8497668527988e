/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that makes a file durable: see syncer.h.
 */
#include "lib/snapshot/syncer.h"

#include <errno.h>
#include <pthread.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

struct syncer {
    const struct io_calls *io; /* [borrowed] */
    void (*on_end)(void *arg);
    void *arg; /* [borrowed] */
    struct thread thread;
    pthread_mutex_t mutex; /* a leaf; the rest is under it */
    pthread_cond_t changed;
    int fd;        /* to be made durable; -1: none */
    int error;     /* of the last one */
    bool has_file; /* between begin and end; the owner's */
    bool is_ending;
};

static void run(void *arg)
{
    struct syncer *s = arg;

    pthread_mutex_lock(&s->mutex);
    while (!s->is_ending) {
        int error;

        if (s->fd < 0) {
            pthread_cond_wait(&s->changed, &s->mutex);
            continue;
        }
        pthread_mutex_unlock(&s->mutex);
        error = s->io->fsync(s->fd) == 0 ? 0 : errno != 0 ? errno : EIO;
        pthread_mutex_lock(&s->mutex);
        s->error = error;
        s->fd = -1;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        s->on_end(s->arg);
        pthread_mutex_lock(&s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
}

static const struct thread_kind syncer_kind = {.name = "log sync", .run = run};

void syncer_begin(struct syncer *s, int fd)
{
    must(!s->has_file && fd >= 0);
    s->has_file = true;
    pthread_mutex_lock(&s->mutex);
    s->fd = fd;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

bool syncer_is_over(struct syncer *s)
{
    bool is_over;

    pthread_mutex_lock(&s->mutex);
    is_over = s->fd < 0;
    pthread_mutex_unlock(&s->mutex);
    return is_over;
}

int syncer_end(struct syncer *s)
{
    int error;

    must_not_be_reading();
    must(s->has_file);
    pthread_mutex_lock(&s->mutex);
    while (s->fd >= 0) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
    error = s->error;
    pthread_mutex_unlock(&s->mutex);
    s->has_file = false;
    return error;
}

static void release(struct syncer *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
}

struct syncer *syncer_create(const struct io_calls *io, void (*on_end)(void *arg), void *arg)
{
    struct syncer *s = mem_alloc(sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    *s = (struct syncer){.io = io, .on_end = on_end, .arg = arg, .fd = -1};
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (thread_start(&s->thread, &syncer_kind, s) != 0) {
        release(s);
        return NULL;
    }
    return s;
}

void syncer_destroy(struct syncer **sp)
{
    struct syncer *s = *sp;

    if (s != NULL) {
        must(!s->has_file);
        pthread_mutex_lock(&s->mutex);
        s->is_ending = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        thread_join(&s->thread);
        release(s);
        *sp = NULL;
    }
}
