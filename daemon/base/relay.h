/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the thread that serves an export or a replica's connection, which may move from
 * worker to worker (conn_move.h). They wait in a queue of the relay, and a notice is posted to
 * the mailbox of the present thread. So the order is kept, no message is lost on the way, and
 * senders need not know which thread it is.
 */
#ifndef MAYFLY_DAEMON_BASE_RELAY_H
#define MAYFLY_DAEMON_BASE_RELAY_H

#include <pthread.h>

#include "daemon/base/mailbox.h"

struct relay {
    pthread_mutex_t mutex; /* a leaf */
    /* under the mutex */
    struct mailbox *to; /* [borrowed] NULL: it is on its way between two threads */
    struct mpsc queue;
    struct notice wake; /* posted only while the queue has messages */
};

/* Context: before others post; to: see relay_join(). */
void relay_init(struct relay *r, struct mailbox *to);

/*
 * No message waits in it or may be posted any more: as when the function of the last one runs.
 * Context: the receiver.
 */
void relay_fini(struct relay *r);

/* As mailbox_post(). Context: any thread. */
void relay_post(struct relay *r, struct message *m);

/*
 * The receiver has it no more: no message runs until the next one joins. Nothing happens if it
 * has left already. Context: the receiver.
 */
void relay_leave(struct relay *r);

/*
 * This is the mailbox of the receiver from here on, which runs what waits in a later turn of
 * its loop. Nothing happens if it is. Context: the thread of the mailbox.
 */
void relay_join(struct relay *r, struct mailbox *to);

#endif
