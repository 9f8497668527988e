/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters. Every word has one writer at a time: the worker that owns it, or the thread that is
 * in the shard that owns it. It is updated by a relaxed load and store; readers
 * sum words by relaxed loads. Only the words of the log have many writers, which add
 * atomically. `stats reset` remembers a baseline instead of writing the words of other threads.
 */
#ifndef MAYFLY_LIB_BASE_COUNTERS_H
#define MAYFLY_LIB_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum counter {
#define CTR(kind, writer, name, line, shown, meaning) CTR_##name,
#include "lib/base/counters.def"
#undef CTR
    CTR_COUNT
};

/* The columns of counters.def. */
enum counter_kind { CTR_KIND_COUNT, CTR_KIND_GAUGE };
enum counter_writer {
    CTR_WRITER_WORKER,
    CTR_WRITER_SHARD,
    CTR_WRITER_RECLAIM,
    CTR_WRITER_MAIN,
    CTR_WRITER_ANY,
    CTR_WRITER_NONE
};
enum counter_shown {
    CTR_IN_STATS = 1 << 0,
    CTR_IN_EXPIRY = 1 << 1,
    CTR_IN_RELEASE = 1 << 2,
    CTR_IN_GRACE = 1 << 3,
    CTR_IN_MEMORY = 1 << 4,
    CTR_IN_WORKER = 1 << 5,
    CTR_IF_IDLE = 1 << 6,
    CTR_IF_UDP = 1 << 7,
    CTR_IF_TLS = 1 << 8,
    CTR_IF_SESSIONS = 1 << 9,
    CTR_IF_AUTH = 1 << 10,
    CTR_IN_LOAD = 1 << 11,
};

struct counter_row {
    const char *name;
    const char *line;
    const char *meaning;
    enum counter_kind kind;
    enum counter_writer writer;
    unsigned shown; /* enum counter_shown, as bits */
};

/* The table, in the order of enum counter. */
extern const struct counter_row counter_rows[CTR_COUNT];

struct counters {
    _Atomic uint64_t v[CTR_COUNT]; /* [atomic] each word has one writer, unless that is ANY */
};

/* Read a word. Context: any thread. */
static inline uint64_t ctr_get(const struct counters *c, enum counter id)
{
    return atomic_load_explicit(&c->v[id], memory_order_relaxed);
}

/* Write a word. Context: the writer of that word. */
static inline void ctr_set(struct counters *c, enum counter id, uint64_t value)
{
    atomic_store_explicit(&c->v[id], value, memory_order_relaxed);
}

/* Add n; for a gauge it may be negative. Context: the writer of that word. */
static inline void ctr_add(struct counters *c, enum counter id, uint64_t n)
{
    ctr_set(c, id, ctr_get(c, id) + n);
}

/* Add n to a word that any thread may write (writer ANY). Context: any thread. */
static inline void ctr_add_shared(struct counters *c, enum counter id, uint64_t n)
{
    atomic_fetch_add_explicit(&c->v[id], n, memory_order_relaxed);
}

/* Raise a word to value if it is less. Context: the writer of that word. */
static inline void ctr_max(struct counters *c, enum counter id, uint64_t value)
{
    if (value > ctr_get(c, id)) {
        ctr_set(c, id, value);
    }
}

/* Add every word of `one` to the plain numbers of sum. Context: any thread. */
void counters_sum(uint64_t sum[CTR_COUNT], const struct counters *one);

/*
 * Compute the derived counters in a sum that has all words of one shard or of several:
 * overwritten items are the stored ones that are neither present nor removed in another way. So
 * a set need not count them. Context: any thread.
 */
void counters_derive(uint64_t sum[CTR_COUNT]);

#endif
