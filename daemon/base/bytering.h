/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of bytes from one thread to another. Neither side waits: if bytes do not fit,
 * all of them are rejected.
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
    /* [atomic] bytes put and taken since the start; each side stores only its own */
    alignas(64) _Atomic uint64_t put;
    alignas(64) _Atomic uint64_t taken;
};

/*
 * Make a ring of `size` bytes; with 0 it rejects everything. Returns false without memory.
 * Context: any thread, before it is shared.
 */
bool byte_ring_init(struct byte_ring *r, size_t size);

/* Release it. Context: the last thread that uses it. */
void byte_ring_fini(struct byte_ring *r);

/*
 * Put two spans as one, the second after the first: both or, when there is no room, neither.
 * Context: producer.
 */
bool byte_ring_put(struct byte_ring *r, struct span first, struct span second);

/* Number of bytes in the ring. Context: consumer. */
size_t byte_ring_len(const struct byte_ring *r);

/* The bytes at the front that are in one piece; borrowed until dropped. Context: consumer. */
struct span byte_ring_front(const struct byte_ring *r);

/* Copy n bytes that begin `skip` bytes after the front; they must exist. Context: consumer. */
void byte_ring_copy(const struct byte_ring *r, size_t skip, void *out, size_t n);

/* Drop n bytes from the front; they must exist. Context: consumer. */
void byte_ring_drop(struct byte_ring *r, size_t n);

#endif
