/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of log lines from any thread to the thread that writes. No side waits for the
 * other. If the queue is full, a line is dropped, and the next line that fits carries the
 * number of dropped ones.
 */
#ifndef MAYFLY_DAEMON_BASE_LOG_RING_H
#define MAYFLY_DAEMON_BASE_LOG_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/log_line.h"
#include "lib/base/span.h"

/* Most lines that wait. About 130 KiB, of which only used pages become resident. */
#define LOG_RING_SLOTS 128

struct log_slot {
    /*
     * [atomic] the turn of the slot. A producer may use it when turn is its position less the
     * number of the slot, the consumer when it is that plus one. So it is 0 in an unused slot,
     * whose page need not be resident. Stored with release after the rest was written or read,
     * loaded with acquire.
     */
    _Atomic uint64_t turn;
    /* of the thread whose turn it is */
    uint32_t len;
    uint32_t dropped; /* lines dropped before this one */
    char text[LOG_LINE_BYTES];
};

struct log_ring {
    alignas(64) _Atomic uint64_t put;      /* [atomic] position of the next line */
    alignas(64) _Atomic uint32_t dropped;  /* [atomic] not reported by a line yet */
    uint64_t taken;                        /* [consumer] position of the oldest line */
    struct log_slot slots[LOG_RING_SLOTS]; /* a position's slot is its remainder */
};

/* Make an empty ring. Context: before it is shared. */
void log_ring_init(struct log_ring *r);

/*
 * Put a line of at most LOG_LINE_BYTES. False: there is no room, and the line is counted as
 * dropped. Context: any thread.
 */
bool log_ring_put(struct log_ring *r, struct span line);

/*
 * The oldest line; NULL when none is there, or when its producer has not finished it. Borrowed
 * until log_ring_drop(). Context: consumer.
 */
const struct log_slot *log_ring_front(const struct log_ring *r);

/* Make room in the place of the oldest line. Context: consumer. */
void log_ring_drop(struct log_ring *r);

/*
 * The number of dropped lines that no later line carries; it counts from 0 again. Context: any
 * thread.
 */
uint32_t log_ring_take_dropped(struct log_ring *r);

#endif
