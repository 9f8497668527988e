/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns of walks and moves: see moves.h.
 */
#include "lib/engine/moves.h"

#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"

/* A flag that stops a wait is set without a signal: it is looked at as often. */
#define LOOK_MS 20

void moves_init(struct moves *m)
{
    *m = (struct moves){0};
    pthread_mutex_init(&m->mutex, NULL);
    cond_init(&m->changed);
}

void moves_fini(struct moves *m)
{
    must(m->walks == 0 && !m->has_move);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->mutex);
}

static bool may_walk(const struct moves *m)
{
    bool is_free = !m->has_move || m->is_paused;

    return is_free && (m->moves_waiting == 0 || m->admitted != 0);
}

static bool may_move(const struct moves *m)
{
    return !m->has_move && m->walks == 0 && m->admitted == 0;
}

static bool may_move_on(const struct moves *m)
{
    return m->walks == 0 && m->admitted == 0;
}

/* Wait until `may`. False: stopped, or with `once` that LOOK_MS are over. Under the mutex. */
static bool wait_until(struct moves *m, bool (*may)(const struct moves *m),
                       const _Atomic bool *stop, bool once)
{
    bool goes_on = true;

    while (!may(m) && goes_on) {
        const struct timespec until = cond_after(LOOK_MS);

        if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)) {
            return false;
        }
        goes_on = pthread_cond_timedwait(&m->changed, &m->mutex, &until) == 0 || !once;
    }
    return may(m);
}

/* Under the mutex. */
static bool wait_for_walk(struct moves *m, const _Atomic bool *stop, bool once)
{
    m->walks_waiting++;
    bool may = wait_until(m, may_walk, stop, once);
    m->walks_waiting--;
    if (may) {
        m->walks++;
        m->admitted -= m->admitted != 0;
    } else if (m->admitted > m->walks_waiting) {
        m->admitted = m->walks_waiting; /* the cancelled walk was one of the admitted ones */
    }
    pthread_cond_broadcast(&m->changed);
    return may;
}

bool moves_begin_walk(struct moves *m, const _Atomic bool *stop)
{
    must_not_be_reading();
    pthread_mutex_lock(&m->mutex);
    bool may = wait_for_walk(m, stop, false);
    pthread_mutex_unlock(&m->mutex);
    return may;
}

void moves_end_walk(struct moves *m)
{
    pthread_mutex_lock(&m->mutex);
    must(m->walks != 0);
    m->walks--;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->mutex);
}

bool moves_pause_walk(struct moves *m)
{
    pthread_mutex_lock(&m->mutex);
    must(m->walks != 0);
    bool pauses = m->moves_waiting != 0;
    if (pauses) {
        m->walks--;
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->mutex);
    return pauses;
}

bool moves_resume_walk(struct moves *m)
{
    must_not_be_reading();
    pthread_mutex_lock(&m->mutex);
    bool may = wait_for_walk(m, NULL, true);
    pthread_mutex_unlock(&m->mutex);
    return may;
}

bool moves_begin_move(struct moves *m, const _Atomic bool *stop)
{
    must_not_be_reading();
    pthread_mutex_lock(&m->mutex);
    m->moves_waiting++;
    bool may = wait_until(m, may_move, stop, false);
    m->moves_waiting--;
    m->has_move |= may;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->mutex);
    return may;
}

void moves_end_move(struct moves *m)
{
    pthread_mutex_lock(&m->mutex);
    must(m->has_move && !m->is_paused);
    m->has_move = false;
    m->admitted = m->walks_waiting;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->mutex);
}

bool moves_give_way(struct moves *m, const _Atomic bool *stop)
{
    bool goes_on = true;

    must_not_be_reading();
    pthread_mutex_lock(&m->mutex);
    must(m->has_move && !m->is_paused);
    if (m->walks_waiting != 0) {
        m->admitted = m->walks_waiting;
        m->is_paused = true;
        m->moves_waiting++;
        pthread_cond_broadcast(&m->changed);
        goes_on = wait_until(m, may_move_on, stop, false);
        m->moves_waiting--;
        m->is_paused = false;
    }
    pthread_mutex_unlock(&m->mutex);
    return goes_on;
}

void moves_info(struct moves *m, struct moves_info *info)
{
    pthread_mutex_lock(&m->mutex);
    *info = (struct moves_info){
        .walks = m->walks,
        .walks_waiting = m->walks_waiting,
        .moves = m->has_move,
        .moves_waiting = m->moves_waiting,
    };
    pthread_mutex_unlock(&m->mutex);
}
