/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An intrusive list with many producers and one consumer. Producers push with a
 * compare-and-swap loop. The consumer takes everything at once with one exchange, and gets it
 * in the order of pushing. Lock-free; there is no ABA problem, because single nodes are never
 * popped.
 */
#ifndef MAYFLY_LIB_BASE_MPSC_H
#define MAYFLY_LIB_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mpsc_node {
    struct mpsc_node *next;
};

struct mpsc {
    _Atomic(struct mpsc_node *) head; /* [atomic] newest first */
};

/* Make an empty list. Context: before it is shared. */
static inline void mpsc_init(struct mpsc *q)
{
    atomic_init(&q->head, NULL);
}

/*
 * Push; true when the list was empty, so that the consumer may have to be woken. Context: any
 * thread.
 */
static inline bool mpsc_push(struct mpsc *q, struct mpsc_node *n)
{
    struct mpsc_node *head = atomic_load_explicit(&q->head, memory_order_relaxed);
    do {
        n->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&q->head, &head, n, memory_order_release,
                                                    memory_order_relaxed));
    return head == NULL;
}

/* Take everything, oldest first, linked by next; NULL when empty. Context: the consumer. */
static inline struct mpsc_node *mpsc_take(struct mpsc *q)
{
    struct mpsc_node *n = atomic_exchange_explicit(&q->head, NULL, memory_order_acquire);
    struct mpsc_node *oldest = NULL;
    while (n != NULL) {
        struct mpsc_node *next = n->next;
        n->next = oldest;
        oldest = n;
        n = next;
    }
    return oldest;
}

/* Is the list empty at this moment? Context: any thread. */
static inline bool mpsc_is_empty(const struct mpsc *q)
{
    return atomic_load_explicit(&q->head, memory_order_relaxed) == NULL;
}

#endif
