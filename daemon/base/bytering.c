/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See bytering.h. Positions count bytes for ever and are reduced when they are used, so the
 * size need not be a power of two. A side stores its own position with release after it has
 * written or read the bytes, and loads the other's with acquire.
 */
#include "daemon/base/bytering.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

bool byte_ring_init(struct byte_ring *r, size_t size)
{
    r->base = NULL;
    r->size = size;
    atomic_init(&r->put, 0);
    atomic_init(&r->taken, 0);
    if (size > 0) {
        r->base = mem_alloc(size);
    }
    return size == 0 || r->base != NULL;
}

void byte_ring_fini(struct byte_ring *r)
{
    mem_free(r->base);
    r->base = NULL;
    r->size = 0;
}

size_t byte_ring_len(const struct byte_ring *r)
{
    return (size_t)(atomic_load_explicit(&r->put, memory_order_acquire) -
                    atomic_load_explicit(&r->taken, memory_order_relaxed));
}

/* Bytes that can be put now, or more by the time of the answer. Context: producer. */
static size_t ring_room(const struct byte_ring *r)
{
    uint64_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);

    return r->size - (size_t)(atomic_load_explicit(&r->put, memory_order_relaxed) - taken);
}

/* Write bytes at a position; they may go round the end. */
static void write_at(struct byte_ring *r, uint64_t position, struct span s)
{
    size_t at = (size_t)(position % r->size);
    size_t first = s.len < r->size - at ? s.len : r->size - at;

    must(s.len <= r->size);
    memcpy(r->base + at, s.ptr, first);
    memcpy(r->base, s.ptr + first, s.len - first);
}

bool byte_ring_put(struct byte_ring *r, struct span first, struct span second)
{
    uint64_t put = atomic_load_explicit(&r->put, memory_order_relaxed);

    if (ring_room(r) < first.len + second.len || r->size == 0) {
        return false;
    }
    if (first.len > 0) {
        write_at(r, put, first);
    }
    if (second.len > 0) {
        write_at(r, put + first.len, second);
    }
    atomic_store_explicit(&r->put, put + first.len + second.len, memory_order_release);
    return true;
}

struct span byte_ring_front(const struct byte_ring *r)
{
    size_t len = byte_ring_len(r);

    if (len == 0) {
        return span_of(NULL, 0);
    }
    size_t at = (size_t)(atomic_load_explicit(&r->taken, memory_order_relaxed) % r->size);
    return span_of(r->base + at, len < r->size - at ? len : r->size - at);
}

void byte_ring_copy(const struct byte_ring *r, size_t skip, void *out, size_t n)
{
    uint64_t from = atomic_load_explicit(&r->taken, memory_order_relaxed) + skip;
    size_t at = (size_t)(from % r->size);
    size_t first = n < r->size - at ? n : r->size - at;

    must(skip + n <= byte_ring_len(r));
    memcpy(out, r->base + at, first);
    memcpy((char *)out + first, r->base, n - first);
}

void byte_ring_drop(struct byte_ring *r, size_t n)
{
    uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);

    must(n <= byte_ring_len(r));
    atomic_store_explicit(&r->taken, taken + n, memory_order_release);
}
