/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of bytes from one thread to one other. Neither side ever waits: what finds no
 * room is refused as a whole.
 */
#ifndef MAYFLY_DAEMON_BASE_BYTERING_H
#define MAYFLY_DAEMON_BASE_BYTERING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

struct byte_ring {
    /* [const] */
    char *base; /* owned */
    size_t size;
    /* [atomic] bytes ever put and ever taken; each is stored by its own side only */
    alignas(64) _Atomic uint64_t put;
    alignas(64) _Atomic uint64_t taken;
};

/*
 * A ring of so many bytes; of 0 it refuses everything. False when there is no memory. Context:
 * any thread, before it is shared.
 */
bool byte_ring_init(struct byte_ring *r, size_t size);

/* Release it. Context: nobody else uses it. */
void byte_ring_fini(struct byte_ring *r);

/* Bytes that can be put now; never more than there are. Context: producer. */
size_t byte_ring_room(const struct byte_ring *r);

/*
 * Put two spans one behind the other, as one: both or, when there is no room, none. Context:
 * producer.
 */
bool byte_ring_put(struct byte_ring *r, struct span first, struct span second);

/* Bytes that can be taken now; never more than there are. Context: consumer, producer. */
size_t byte_ring_len(const struct byte_ring *r);

/* What stands in one piece at the front; borrowed until it is dropped. Context: consumer. */
struct span byte_ring_front(const struct byte_ring *r);

/*
 * Copy n bytes that begin `skip` bytes behind the front; they are there. Context: consumer.
 */
void byte_ring_copy(const struct byte_ring *r, size_t skip, void *out, size_t n);

/* Drop n bytes off the front; they are there. Context: consumer. */
void byte_ring_drop(struct byte_ring *r, size_t n);

#endif
