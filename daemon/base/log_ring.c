/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h. Positions count lines for ever. This is the bounded queue with a sequence
 * number in each slot that D. Vyukov described, with a single consumer: a producer takes a
 * position by compare-and-swap if the slot is free for it, and nothing else is shared between
 * producers. A producer that is interrupted before it has finished its line delays later lines,
 * but no thread.
 */
#include "daemon/base/log_form.h"

#include <string.h>

#include "lib/base/check.h"

void log_ring_init(struct log_ring *r)
{
    atomic_init(&r->put, 0);
    atomic_init(&r->dropped, 0);
    r->taken = 0;
    for (uint64_t i = 0; i < LOG_RING_SLOTS; i++) {
        if (atomic_load_explicit(&r->slots[i].turn, memory_order_relaxed) != 0) {
            atomic_init(&r->slots[i].turn, 0);
        }
    }
}

/* The turn of the producer with a position. */
static uint64_t turn_at(uint64_t position)
{
    return position - position % LOG_RING_SLOTS;
}

/* Take a position for a line; NULL when the ring is full. */
static struct log_slot *take_position(struct log_ring *r, uint64_t *position)
{
    uint64_t at = atomic_load_explicit(&r->put, memory_order_relaxed);

    for (;;) {
        struct log_slot *s = &r->slots[at % LOG_RING_SLOTS];
        uint64_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);

        if (turn == turn_at(at)) {
            if (atomic_compare_exchange_weak_explicit(
                    &r->put, &at, at + 1, memory_order_relaxed, memory_order_relaxed)) {
                *position = at;
                return s;
            }
        } else if (turn < turn_at(at)) {
            return NULL; /* the line of a round ago is still in it */
        } else {
            at = atomic_load_explicit(&r->put, memory_order_relaxed);
        }
    }
}

bool log_ring_put(struct log_ring *r, struct span line)
{
    uint64_t position;
    struct log_slot *s = take_position(r, &position);

    must(line.len <= LOG_LINE_BYTES);
    if (s == NULL) {
        atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
        return false;
    }
    memcpy(s->text, line.ptr, line.len);
    s->len = (uint32_t)line.len;
    s->dropped = log_ring_take_dropped(r);
    atomic_store_explicit(&s->turn, turn_at(position) + 1, memory_order_release);
    return true;
}

const struct log_slot *log_ring_front(const struct log_ring *r)
{
    const struct log_slot *s = &r->slots[r->taken % LOG_RING_SLOTS];

    return atomic_load_explicit(&s->turn, memory_order_acquire) == turn_at(r->taken) + 1 ? s
                                                                                         : NULL;
}

void log_ring_drop(struct log_ring *r)
{
    struct log_slot *s = &r->slots[r->taken % LOG_RING_SLOTS];

    debug_must(log_ring_front(r) != NULL);
    atomic_store_explicit(&s->turn, turn_at(r->taken) + LOG_RING_SLOTS, memory_order_release);
    r->taken++;
}

uint32_t log_ring_take_dropped(struct log_ring *r)
{
    return atomic_exchange_explicit(&r->dropped, 0, memory_order_relaxed);
}
