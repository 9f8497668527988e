/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving end runs on its loop's thread; posting is lock-free from any thread. The
 * wake-up is sent only by the post that found the list empty: whoever found it filled
 * knows that the receiver has a wake-up coming that it did not answer yet.
 *
 * The receiver takes the list once a wake-up, so messages that post further messages to the
 * same mailbox (work cut into slices) leave the loop a turn in between.
 */
#include "daemon/base/mailbox.h"

#include <stddef.h>

#include "lib/base/check.h"

static struct message *message_from(struct mpsc_node *n)
{
    return (struct message *)(void *)((char *)n - offsetof(struct message, node));
}

static bool run_waiting(struct mailbox *m)
{
    struct mpsc_node *n = mpsc_take(&m->queue);
    bool had_any = n != NULL;

    if (had_any && m->before != NULL) {
        m->before(m->receiver);
    }
    while (n != NULL) {
        struct message *msg = message_from(n);

        /* The message may be gone, or be posted again, as soon as its function runs. */
        n = n->next;
        msg->fn(msg, m->receiver);
    }
    return had_any;
}

static void on_wake(uv_async_t *async)
{
    (void)run_waiting(async->data);
}

int mailbox_init(struct mailbox *m, uv_loop_t *loop, void *receiver)
{
    mpsc_init(&m->queue);
    m->receiver = receiver;
    m->before = NULL;
    m->async.data = m;
    return uv_async_init(loop, &m->async, on_wake);
}

void mailbox_post(struct mailbox *m, struct message *msg)
{
    debug_must(msg->fn != NULL);
    if (mpsc_push(&m->queue, &msg->node)) {
        /* It fails only for a handle that is none. */
        int err = uv_async_send(&m->async);
        must(err == 0);
    }
}

void mailbox_close(struct mailbox *m)
{
    while (run_waiting(m)) {
    }
    uv_close((uv_handle_t *)&m->async, NULL);
}
