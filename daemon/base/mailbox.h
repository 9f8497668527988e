/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to a worker: a many-producers list and one wake-up handle. Wake-ups coalesce: one
 * may stand for many messages. The only file that calls uv_async_send().
 */
#ifndef MAYFLY_DAEMON_BASE_MAILBOX_H
#define MAYFLY_DAEMON_BASE_MAILBOX_H

#include <uv.h>

#include "lib/base/mpsc.h"

/*
 * Embedded in what is sent; fn runs on the receiving thread and owns the message from then on.
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
 * Have a function called each time before messages are run. Context: the receiving thread,
 * before others post.
 */
static inline void mailbox_run_before(struct mailbox *m, void (*fn)(void *receiver))
{
    m->before = fn;
}

/*
 * Takes the message until its fn runs. Never fails, keeps the order of one poster. Context: any
 * thread.
 */
void mailbox_post(struct mailbox *m, struct message *msg);

/*
 * Run what waits, then close the handle; nobody posts any more. The caller lets its loop run
 * until the handle is gone. Context: the receiving thread.
 */
void mailbox_close(struct mailbox *m);

#endif
