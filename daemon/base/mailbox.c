/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiver runs on its loop's thread; posting is lock-free from any thread. Only the post
 * that found the list empty sends a wake-up: if the list was not empty, a wake-up is on its way
 * that the receiver has not answered yet.
 *
 * The receiver takes the list once per wake-up, so when a message posts another one to the same
 * mailbox (work cut into slices), the loop gets a turn in between.
 */
#include "daemon/base/mailbox.h"

#include "lib/base/check.h"

static bool run_waiting(struct mailbox *m)
{
    struct mpsc_node *n = mpsc_take(&m->queue);
    bool had_any = n != NULL;

    if (had_any && m->before != NULL) {
        m->before(m->receiver);
    }
    while (n != NULL) {
        struct message *msg = MF_OUTER(n, struct message, node);

        /* The message may be released or posted again as soon as its function runs. */
        n = n->next;
        debug_must(msg->fn != NULL);
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
    must(loop != NULL);
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
        /* It fails only for a handle of another type. */
        int err = uv_async_send(&m->async);
        must(err == 0);
    }
}

void asks_answer(struct late_ask **asks, bool is_done)
{
    while (*asks != NULL) {
        struct late_ask *ask = *asks;

        *asks = ask->next;
        ask->is_done = is_done;
        mailbox_post(ask->to, &ask->answer);
    }
}

void mailbox_close(struct mailbox *m)
{
    must(m->async.data == m);
    while (run_waiting(m)) {
    }
    uv_close((uv_handle_t *)&m->async, NULL);
}
