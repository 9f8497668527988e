/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to a thread with a loop: a list with many producers and one wake-up handle. Wake-ups
 * coalesce: one may stand for many messages. Only this file calls uv_async_send().
 */
#ifndef MAYFLY_DAEMON_BASE_MAILBOX_H
#define MAYFLY_DAEMON_BASE_MAILBOX_H

#include <uv.h>

#include "lib/base/mpsc.h"

/*
 * Embedded in what is sent; fn runs on the receiving thread and then owns the message.
 */
struct message {
    struct mpsc_node node;
    void (*fn)(struct message *m, void *receiver);
};

struct mailbox {
    struct mpsc queue;
    uv_async_t async;
    void *receiver;                 /* [borrowed] */
    void (*before)(void *receiver); /* NULL: nothing */
};

/*
 * Returns 0 or a libuv error. The handle keeps the loop alive until it is closed.
 * Context: the receiving thread, before others post.
 */
int mailbox_init(struct mailbox *m, uv_loop_t *loop, void *receiver);

/*
 * Set a function that is called each time before messages are run. Context: the receiving
 * thread, before others post.
 */
static inline void mailbox_run_before(struct mailbox *m, void (*fn)(void *receiver))
{
    m->before = fn;
}

/*
 * Send a message, which is the mailbox's until its fn runs. Never fails, keeps the order of one
 * sender. Context: any thread.
 */
void mailbox_post(struct mailbox *m, struct message *msg);

/*
 * Run the messages that wait, then close the handle; no thread may post any more. The caller
 * runs its loop until the handle is gone. Context: the receiving thread.
 */
void mailbox_close(struct mailbox *m);

#endif
