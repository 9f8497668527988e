/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the worker that serves an export or a replica's connection, which may move from
 * worker to worker (conn_steps.h). The messages wait in a queue of the relay, and a notice is
 * posted to the mailbox of the present worker. So their order is kept, none is lost during a
 * move, and senders need not know the worker.
 */
#ifndef MAYFLY_DAEMON_BASE_RELAY_H
#define MAYFLY_DAEMON_BASE_RELAY_H

#include <pthread.h>

#include "daemon/base/mailbox.h"

struct relay {
    pthread_mutex_t mutex; /* a leaf */
    /* under the mutex */
    struct mailbox *to; /* [borrowed] of the receiver; NULL: it is moving between two threads */
    struct mpsc queue;
    struct notice wake; /* posted only while the queue has messages */
};

/* Context: before others post; to: see relay_join(). */
void relay_init(struct relay *r, struct mailbox *to);

/*
 * Release it. No message may wait in it, or be posted any more; allowed while the function of
 * the last message runs. Context: the receiver.
 */
void relay_fini(struct relay *r);

/* As mailbox_post(). Context: any thread. */
void relay_post(struct relay *r, struct message *m);

/*
 * The receiver leaves: no message runs until the next receiver joins. Does nothing if it has
 * left already. Context: the receiver.
 */
void relay_leave(struct relay *r);

/*
 * The thread of this mailbox is the receiver from now on; it runs waiting messages in a later
 * turn of its loop. Does nothing if it is the receiver already. Context: that thread.
 */
void relay_join(struct relay *r, struct mailbox *to);

#endif
