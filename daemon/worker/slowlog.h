/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of slow requests of all workers: a ring of the latest entries, all of one size. Keys
 * and addresses are truncated, so that the ring takes at most 200 KiB.
 */
#ifndef MAYFLY_DAEMON_WORKER_SLOWLOG_H
#define MAYFLY_DAEMON_WORKER_SLOWLOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of a key that are kept, and of a peer's address with its end. */
#define SLOWLOG_KEY_BYTES  64u
#define SLOWLOG_PEER_BYTES 64u

/*
 * Which request it was: the first of those whose replies were sent together. All 0 if that is
 * not known: the log was off when the request came.
 */
struct slow_request {
    uint64_t value_bytes; /* that it brought */
    uint8_t command;      /* enum command; CMD_NONE: unknown, or of no name */
    uint8_t key_bytes;    /* of the whole key; 0: none */
    char key[SLOWLOG_KEY_BYTES];
};

struct slow_entry {
    uint64_t id; /* from 0 on, not restarted by a reset */
    int64_t unix_ms;
    uint64_t us;
    uint64_t reply_bytes;
    uint32_t requests; /* number of requests whose replies were sent together */
    uint32_t worker;
    struct slow_request first;
    char peer[SLOWLOG_PEER_BYTES];
};

/* Part of the crew. The lock is a leaf, held while entries are copied. */
struct slowlog {
    pthread_mutex_t lock;
    /* [lock] */
    struct slow_entry *ring; /* owned; NULL until the first one */
    uint32_t cap;
    uint32_t used;
    uint32_t next;    /* index of the next entry */
    uint64_t next_id; /* id of the next entry */
};

/* Context: main, before start. */
void slowlog_init(struct slowlog *s);

/* Context: main, after the workers have ended. */
void slowlog_fini(struct slowlog *s);

/*
 * Keep a copy of an entry, and assign its id, as one of the latest `max`. Without memory it is
 * lost. Context: any thread.
 */
void slowlog_add(struct slowlog *s, struct slow_entry *e, uint32_t max);

/*
 * Copy the latest entries, the newest first, up to n of them, of the latest `max`. Returns how
 * many. Context: any thread.
 */
uint32_t slowlog_copy(struct slowlog *s, struct slow_entry *out, uint32_t n, uint32_t max);

/* Number of entries, at most `max`. Context: any thread. */
uint32_t slowlog_len(struct slowlog *s, uint32_t max);

/* Forget all. Context: any thread. */
void slowlog_reset(struct slowlog *s);

#endif
