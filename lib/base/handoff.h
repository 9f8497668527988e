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
 * Each side is one thread at a time. Any thread may call handoff_close() and the inline
 * functions. A side that also waits for other events waits on its own condition variable, and
 * `tell` wakes it.
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
    int broken;                   /* errno of handoff_close(); 0: none */
    bool is_closed;
};

/*
 * At first the producer has all slots. tell, if it is not NULL, is called without the mutex
 * after each change, by the thread that made the change; the other side may have seen it by
 * then. Context: before h is shared; handoff_fini(): after the last call of either side has
 * returned.
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

/* Are all given slots done? Context: any thread. */
static inline bool handoff_is_idle(const struct handoff *h)
{
    return handoff_finished(h) == handoff_given(h);
}

/*
 * The slot to be filled next. The producer must have it: see handoff_wait(). Context: producer,
 * as for the next two.
 */
static inline unsigned handoff_next(const struct handoff *h)
{
    return (unsigned)(handoff_given(h) % h->slots);
}

/* Give that slot to the consumer. False: h was closed; the slot stays with the producer. */
bool handoff_give(struct handoff *h);

/*
 * Wait until at most `most` slots are not done, for at most `ms` milliseconds. Returns 0, the
 * first error of handoff_done(), ETIMEDOUT, or at once the error of handoff_close(). A call
 * with `most` 0 also clears an error of handoff_done() when it returns it. Context: producer,
 * outside a section.
 */
int handoff_wait(struct handoff *h, unsigned most, int64_t ms);

/*
 * Wait for the oldest slot that is not done, and return its number. Negative if no more slots
 * come: -EPIPE after handoff_close(h, 0) once all are done, or at once the negated error of
 * handoff_close(). Context: consumer, outside a section.
 */
int handoff_take(struct handoff *h);

/* The oldest slot is done, with an errno or 0. Context: consumer. */
void handoff_done(struct handoff *h, int error);

/*
 * Close: no more slots can be given. With error 0, slots given earlier can still be taken. Any
 * other error is an errno, which both sides get from now on: no slot can be taken, and waits
 * end. Only the first error is kept. Context: any thread.
 */
void handoff_close(struct handoff *h, int error);

#endif
