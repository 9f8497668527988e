/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hand-off of work from a producer to a consumer, each of which may wait for the other. The
 * owner has N slots for the work. This struct counts which slots belong to which side. The
 * producer fills the next slot and gives it. The consumer takes the oldest given slot, does the
 * work, and returns the slot to the producer, with an error if the work failed.
 *
 *     producer                                     consumer
 *     fill slot[handoff_next(h)]                   while ((i = handoff_take(h)) >= 0) {
 *     handoff_give(h)                                  handoff_done(h, work(&slot[i]));
 *     error = handoff_wait(h, N - 1, HANDOFF_EVER) }
 *
 * A side is one thread at a time; handoff_close() and the inline functions are for any. A side
 * that also waits for other events does so on a condition of its own, and is woken by `tell`.
 */
#ifndef MAYFLY_LIB_BASE_HANDOFF_H
#define MAYFLY_LIB_BASE_HANDOFF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HANDOFF_EVER INT64_MAX

struct handoff {
    unsigned slots;          /* [const] */
    void (*tell)(void *arg); /* [const] */
    void *arg;               /* [borrowed] */
    pthread_mutex_t mutex;   /* a leaf; the rest is written under it */
    pthread_cond_t changed;
    _Atomic uint64_t given, done; /* [atomic] number of slots; done <= given <= done + slots */
    int error;                    /* the first error of handoff_done() that was not returned
                                     yet */
    int broken;                   /* of handoff_close() */
    bool is_closed;
};

/*
 * All slots are the producer's. tell, if it is not NULL, is called without the mutex after each
 * change, by the thread that made it; the other side may have seen the change by then. Context:
 * before it is shared; handoff_fini() after the last call of either side has returned.
 */
void handoff_init(struct handoff *h, unsigned slots, void (*tell)(void *arg), void *arg);
void handoff_fini(struct handoff *h);

/*
 * Number of slots given until now, and of slots returned to the producer. Context: any thread.
 */
static inline uint64_t handoff_given(const struct handoff *h)
{
    return atomic_load_explicit(&h->given, memory_order_acquire);
}

static inline uint64_t handoff_finished(const struct handoff *h)
{
    return atomic_load_explicit(&h->done, memory_order_acquire);
}

/* Is there nothing that was given and is not done? Context: any thread. */
static inline bool handoff_is_idle(const struct handoff *h)
{
    return handoff_finished(h) == handoff_given(h);
}

/* The slot to be filled next; it must be the producer's. Context: producer, as the next two. */
static inline unsigned handoff_next(const struct handoff *h)
{
    return (unsigned)(handoff_given(h) % h->slots);
}

/* Give that slot. False: it was closed, and the slot stays the producer's. */
bool handoff_give(struct handoff *h);

/*
 * Wait until at most `most` slots are not done, for `ms` at most. Returns 0, the first error of
 * handoff_done(), ETIMEDOUT, or at once the error it was closed with. With `most` 0 an error of
 * handoff_done() is returned for the last time. Context: also outside a section.
 */
int handoff_wait(struct handoff *h, unsigned most, int64_t ms);

/*
 * Wait for a slot: the oldest that is not done. Negative: none comes any more, -EPIPE after
 * handoff_close(h, 0), or at once the error it was closed with, negated. Context: consumer,
 * outside a section.
 */
int handoff_take(struct handoff *h);

/* The oldest slot is done, with an errno or 0. Context: consumer. */
void handoff_done(struct handoff *h, int error);

/*
 * Close: no more slots are given. error 0: slots given earlier can still be taken. Otherwise an
 * errno, which both sides get from now on: nothing can be taken, and waiting ends. The first
 * error counts. Context: any thread.
 */
void handoff_close(struct handoff *h, int error);

#endif
