/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hand-off between two threads: see handoff.h. Both sides wait on the same condition variable:
 * there are at most two waiters.
 */
#include "lib/base/handoff.h"

#include <errno.h>

#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"

void handoff_init(struct handoff *h, unsigned slots, void (*tell)(void *arg), void *arg)
{
    must(slots != 0);
    *h = (struct handoff){.slots = slots, .tell = tell, .arg = arg};
    pthread_mutex_init(&h->mutex, NULL);
    cond_init(&h->changed);
}

void handoff_fini(struct handoff *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mutex);
}

/* Under the mutex, which is released. */
static void announce(struct handoff *h)
{
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    if (h->tell != NULL) {
        h->tell(h->arg);
    }
}

bool handoff_give(struct handoff *h)
{
    pthread_mutex_lock(&h->mutex);
    must(h->given - h->done < h->slots);
    bool is_given = !h->is_closed;
    h->given += is_given;
    announce(h);
    return is_given;
}

int handoff_wait(struct handoff *h, unsigned most, int64_t ms)
{
    const struct timespec until = cond_after(ms);
    int error;

    must_not_be_reading();
    pthread_mutex_lock(&h->mutex);
    while (h->given - h->done > most && h->broken == 0 &&
           pthread_cond_timedwait(&h->changed, &h->mutex, &until) == 0) {
    }
    if (h->broken != 0) {
        error = h->broken;
    } else if (h->given - h->done > most) {
        error = ETIMEDOUT;
    } else {
        error = h->error;
        h->error = most == 0 ? 0 : error;
    }
    pthread_mutex_unlock(&h->mutex);
    return error;
}

int handoff_take(struct handoff *h)
{
    int slot;

    must_not_be_reading();
    pthread_mutex_lock(&h->mutex);
    while (h->given == h->done && !h->is_closed) {
        pthread_cond_wait(&h->changed, &h->mutex);
    }
    if (h->broken != 0) {
        slot = -h->broken;
    } else {
        slot = h->given != h->done ? (int)(h->done % h->slots) : -EPIPE;
    }
    pthread_mutex_unlock(&h->mutex);
    return slot;
}

void handoff_done(struct handoff *h, int error)
{
    pthread_mutex_lock(&h->mutex);
    must(h->given != h->done);
    h->error = h->error != 0 ? h->error : error;
    h->done++;
    announce(h);
}

void handoff_close(struct handoff *h, int error)
{
    pthread_mutex_lock(&h->mutex);
    h->broken = h->broken != 0 ? h->broken : error;
    h->is_closed = true;
    announce(h);
}
