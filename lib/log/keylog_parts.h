/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data shared by the threads of a log, private to the files of keylog.h. The reader is in
 * keylog.c, the writer in keylog_write.c.
 */
#ifndef MAYFLY_LIB_LOG_KEYLOG_PARTS_H
#define MAYFLY_LIB_LOG_KEYLOG_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "lib/log/keylog.h"
#include "lib/log/logfile.h"
#include "lib/log/logfill.h"

enum keylog_state {
    KEYLOG_STATE_CLOSED, /* nothing is logged, nor has to be */
    KEYLOG_STATE_OPEN,   /* a log is open, and whole */
    KEYLOG_STATE_VOID,   /* changes are missing, and the base may still be loaded */
};

struct keylog {
    struct keylog_config cfg; /* [const] */
    struct thread reader, writer, syncer;
    /* the reader's */
    unsigned polls;   /* since the last change was found */
    bool is_fast;     /* rests are short */
    int64_t waits_ms; /* time since which it waits for a free block; 0: it does not wait */
    /* the writer's */
    struct logfile out;
    int64_t synced_ms; /* time when an fsync began, or when everything was durable */
    bool is_in_value;  /* the next block must be in the same file */
    /* between them */
    struct logfill fill;
    struct handoff syncing;  /* from the writer to the syncer: an fsync of the file */
    struct handoff rotation; /* to the writer: a new log, with these */
    uint64_t next_chain, next_number, next_epoch;
    /* [atomic] */
    _Atomic uint32_t mode MF_LINE_ALIGNED; /* enum keylog_mode */
    _Atomic uint32_t sync;                 /* enum keylog_sync */
    _Atomic uint64_t asked;                /* tickets handed out */
    _Atomic uint32_t urgent;               /* callers that wait for the disk, whatever the
                                              policy */
    _Atomic uint64_t done;
    _Atomic bool is_behind;   /* written by the reader */
    _Atomic uint32_t state;   /* enum keylog_state */
    _Atomic bool is_read;     /* the rings are to be read */
    _Atomic bool is_dozing;   /* the reader sleeps */
    _Atomic bool is_stopping; /* all that was changed is in the rings */
    pthread_mutex_t mutex;    /* a leaf; the rest is under it */
    pthread_cond_t changed;
    bool is_attached; /* the rings are there; written by the reader */
    bool is_refused;  /* there was no memory for them */
    bool is_all_read; /* all changes were read and put into blocks */
    uint64_t epoch;
    uint64_t mark_put, mark_ticket; /* once mark_put blocks are written, this ticket is done */
    uint64_t hurry_put;             /* the first hurry_put blocks do not wait for others */
    struct keylog_info info;
};

static inline bool keylog_flag(const _Atomic bool *flag)
{
    return atomic_load_explicit(flag, memory_order_acquire);
}

static inline void keylog_set_flag(_Atomic bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_release);
}

static inline enum keylog_state keylog_state(const struct keylog *l)
{
    return (enum keylog_state)atomic_load_explicit(&l->state, memory_order_acquire);
}

static inline bool keylog_is_open(const struct keylog *l)
{
    return keylog_state(l) == KEYLOG_STATE_OPEN;
}

static inline void keylog_set_state(struct keylog *l, enum keylog_state state)
{
    atomic_store_explicit(&l->state, (uint32_t)state, memory_order_release);
}

/* May tickets become done? Not while loading the base would undo the changes they cover. */
static inline bool keylog_may_finish(const struct keylog *l)
{
    return keylog_state(l) != KEYLOG_STATE_VOID || atomic_load(&l->sync) != KEYLOG_SYNC_ALWAYS;
}

static inline uint64_t keylog_get(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_acquire);
}

/* Wait for `changed`, at most `ms` milliseconds. Context: under the mutex. */
void keylog_wait_ms(struct keylog *l, int64_t ms);

/* Signal `changed` to all waiters. Context: any thread, without the mutex, as for the next. */
void keylog_tell(struct keylog *l);

/* Tickets up to this one are done. */
void keylog_finish(struct keylog *l, uint64_t ticket);

/*
 * Keys are missing from the log from here on; error as for on_gap(). With error 0 or
 * KEYLOG_GAP_FLUSH recording in the rings ends. Context: one of the threads of the log.
 */
void keylog_on_gap(struct keylog *l, int error);

/* The writer, and the thread that calls fsync for it; arg: the log. */
extern const struct thread_kind keylog_writer, keylog_syncer;

#endif
