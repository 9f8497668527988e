/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to a thread with a loop: a list with many producers and one wake-up handle. Wake-ups
 * coalesce: one may cover many messages. Only this file calls uv_async_send().
 */
#ifndef MAYFLY_DAEMON_BASE_MAILBOX_H
#define MAYFLY_DAEMON_BASE_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "lib/base/mpsc.h"

/*
 * Embedded in the object that is sent. fn runs on the receiving thread, and owns the message.
 */
struct message {
    struct mpsc_node node;
    void (*fn)(struct message *m, void *receiver);
};

/*
 * A message that may be posted again while it is in transit: it is then delivered once. Both
 * sides use an atomic exchange of the flag. The second exchange sees the data that the other
 * side wrote before the first. So either the receiver finds the sender's data, or the message
 * is delivered again. With a plain load or store on one side, both could miss the other's.
 */
struct notice {
    struct message message;
    _Atomic bool is_posted;
};

struct mailbox {
    struct mpsc queue;
    uv_async_t async;
    void *receiver;                 /* [borrowed] */
    void (*before)(void *receiver); /* NULL: nothing */
};

/* Size of the buffer for a reason. */
#define ASK_WHY_MAX 200u

/*
 * A request to another thread, embedded in a struct that the requesting thread keeps until it
 * is posted back with the result.
 */
struct late_ask {
    struct message answer; /* [const] its fn releases it */
    struct mailbox *to;    /* [borrowed] */
    struct late_ask *next;
    bool is_done;          /* out */
    char why[ASK_WHY_MAX]; /* out: why it was not done; "": not known */
};

/* Add it to a list. Context: any thread, under the mutex of the list, as for the next. */
static inline void asks_add(struct late_ask **asks, struct late_ask *ask)
{
    ask->next = *asks;
    *asks = ask;
}

/* Post all of a list back, and empty it. */
void asks_answer(struct late_ask **asks, bool is_done);

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
 * Send a message, which the mailbox owns until its fn runs. Never fails; keeps the order of
 * each sender. Context: any thread.
 */
void mailbox_post(struct mailbox *m, struct message *msg);

/* Set the function of a notice. Context: before others post it. */
static inline void notice_init(struct notice *n, void (*fn)(struct message *m, void *receiver))
{
    n->message.fn = fn;
    atomic_init(&n->is_posted, false);
}

/*
 * Claim the right to post it. True: it was not in transit, so the caller must post n->message,
 * after it has written the data for it. Context: any thread.
 */
static inline bool notice_claim(struct notice *n)
{
    return !atomic_exchange(&n->is_posted, true);
}

/* Send it, unless it is on its way. Context: any thread. */
static inline void notice_post(struct notice *n, struct mailbox *to)
{
    if (notice_claim(n)) {
        mailbox_post(to, &n->message);
    }
}

/*
 * The notice was received: from now on it can be sent again. So call this before reading its
 * data. Context: the receiving thread.
 */
static inline void notice_taken(struct notice *n)
{
    (void)atomic_exchange(&n->is_posted, false);
}

/*
 * Run the waiting messages, then close the handle; no thread may post any more. The caller runs
 * its loop until the handle is closed. Context: the receiving thread.
 */
void mailbox_close(struct mailbox *m);

/* ---- relay.c ----------------------------------------------------------------------------- */

/*
 * Messages to the worker that serves an export or a replica's connection, which may move from
 * worker to worker (conn_steps.h). The messages wait in a queue of the relay, and a notice is
 * posted to the mailbox of the present worker. So their order is kept, none is lost during a
 * move, and senders need not know the worker.
 */

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
