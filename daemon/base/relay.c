/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See mailbox.h. The wake-up may be in the mailbox of a thread that is not the receiver any
 * more. That thread then sends it on, or, while there is no receiver, leaves that to
 * relay_join().
 */
#include "daemon/base/mailbox.h"

#include "lib/base/check.h"

/* Under the mutex. */
static void wake(struct relay *r)
{
    if (r->to != NULL && !mpsc_is_empty(&r->queue)) {
        notice_post(&r->wake, r->to);
    }
}

/* The messages, if this thread is the receiver. */
static struct mpsc_node *relay_take_node(struct relay *r, const void *receiver)
{
    struct mpsc_node *n = NULL;

    pthread_mutex_lock(&r->mutex);
    notice_taken(&r->wake);
    if (r->to != NULL && r->to->receiver == receiver) {
        n = mpsc_take(&r->queue);
    } else {
        wake(r);
    }
    pthread_mutex_unlock(&r->mutex);
    return n;
}

static void on_wake(struct message *m, void *receiver)
{
    struct relay *r = MF_OUTER(m, struct relay, wake.message);
    struct mpsc_node *n = relay_take_node(r, receiver);

    while (n != NULL) {
        struct message *msg = MF_OUTER(n, struct message, node);

        /* The last one may release the relay, and any may be posted again. */
        n = n->next;
        msg->fn(msg, receiver);
    }
}

void relay_init(struct relay *r, struct mailbox *to)
{
    pthread_mutex_init(&r->mutex, NULL);
    r->to = to;
    mpsc_init(&r->queue);
    notice_init(&r->wake, on_wake);
}

void relay_fini(struct relay *r)
{
    must(mpsc_is_empty(&r->queue) && !atomic_load(&r->wake.is_posted));
    pthread_mutex_destroy(&r->mutex);
}

void relay_post(struct relay *r, struct message *m)
{
    pthread_mutex_lock(&r->mutex);
    (void)mpsc_push(&r->queue, &m->node);
    wake(r);
    pthread_mutex_unlock(&r->mutex);
}

void relay_leave(struct relay *r)
{
    pthread_mutex_lock(&r->mutex);
    r->to = NULL;
    pthread_mutex_unlock(&r->mutex);
}

void relay_join(struct relay *r, struct mailbox *to)
{
    pthread_mutex_lock(&r->mutex);
    r->to = to;
    wake(r);
    pthread_mutex_unlock(&r->mutex);
}
