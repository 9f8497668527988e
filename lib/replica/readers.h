/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to the files of shipper.h: the table of the readers of the backlog. Everything is
 * under the shipper's mutex unless it says otherwise.
 */
#ifndef MAYFLY_LIB_REPLICA_READERS_H
#define MAYFLY_LIB_REPLICA_READERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/replica/shipper.h"

/*
 * Time for which bytes that the last reader has not read are kept, so that it can reconnect.
 */
#define READERS_LINGER_US ((usec_t)60000000)

struct shipper_reader {
    struct shipper *shipper; /* [borrowed] NULL: this place is free */
    _Atomic bool is_dropped; /* [atomic] written under the mutex */
    struct shipper_drop drop;
    uint64_t offset; /* end of what was read; its thread also reads it without the mutex */
    uint64_t kept;   /* acknowledged, or read: bytes from there on are not overwritten */
    bool acks;       /* the reader acknowledges: shipper_ack() */
    /* values when the shipper began to wait, or when this reader was attached */
    uint64_t kept_before;
    uint64_t changes_before;
    usec_t since_us;
};

struct readers {
    struct shipper_reader table[SHIPPER_READERS_MAX];
    unsigned online;      /* attached, and not dropped */
    uint64_t linger_kept; /* `kept` of the last reader that was detached */
    usec_t linger_until;  /* time until which these bytes are kept; 0: they are not */
    uint64_t too_slow;    /* readers dropped as too slow */
};

/* How fast changes come, to compare a reader with. */
struct readers_pace {
    uint64_t changes; /* bytes that were ever written to the rings of changes */
    double expansion; /* bytes of the stream for each of them */
};

static inline bool reader_is_online(const struct shipper_reader *r)
{
    return r->shipper != NULL && !atomic_load_explicit(&r->is_dropped, memory_order_relaxed);
}

/* Add a reader. NULL: the table is full. */
struct shipper_reader *readers_add(struct readers *rs, struct shipper *s, uint64_t offset,
                                   uint64_t changes);
void readers_remove(struct readers *rs, struct shipper_reader *r);

/* The online reader for which most bytes must be kept; NULL: none is online. */
struct shipper_reader *readers_slowest(struct readers *rs);

/*
 * The offset from which on nothing may be overwritten; UINT64_MAX: everything may. *r is the
 * reader that needs it, NULL if that is a detached one that may return.
 */
uint64_t readers_kept(struct readers *rs, struct shipper_reader **r);

/* Compare the pace of readers with that of changes from now on. */
void readers_begin_pressure(struct readers *rs, uint64_t changes);

/* Drop an online reader. end: the end of the backlog. */
void readers_drop(struct readers *rs, struct shipper_reader *r, enum shipper_drop_reason reason,
                  uint64_t end);
void readers_drop_slow(struct readers *rs, struct shipper_reader *r, uint64_t end,
                       const struct readers_pace *pace);
void readers_drop_all(struct readers *rs, enum shipper_drop_reason reason, uint64_t end);

#endif
