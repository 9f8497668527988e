/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shipper: one thread per server that turns changes into blocks and appends them to the
 * backlog, and the table of its readers.
 *
 *     shipper_start()                    with the server; the thread sleeps
 *     shipper_begin()                    record changes from now on
 *     shipper_attach(), _read(), ...     one reader for each online replica
 *     shipper_mark()                     the offset that covers all changes so far
 *
 * While no reader is attached, changes stay in the rings (lib/shard/changes.h), and the thread
 * sleeps without a timer. A key that changes often then costs one lookup for all its records.
 * With readers the thread ships changes about once a millisecond.
 *
 * The shipper does not overrun a reader. Before it overwrites bytes that the slowest reader has
 * not read (or acknowledged: shipper_ack()), it waits, until a ring of changes is more than
 * three quarters full. Then that reader is dropped. It also waits for up to a minute after the
 * last reader was detached, so that a broken link can be restored. If the rings are overrun
 * nevertheless, changes are lost: the backlog has a gap (backlog_gap()), and all readers are
 * dropped.
 *
 * Expired items have no record. Instead the primary tells a replica, outside the stream, that
 * at a given offset everything due up to a given time is gone: shipper_level().
 *
 * Deadlines and times in blocks are engine times plus an offset fixed by shipper_begin(), so
 * that a step of the wall clock changes none of them.
 *
 * On a replica the shipper does not record; the thread that applies the primary's blocks
 * appends them to the backlog. Readers may be attached there too, but the thread does not wait
 * for them.
 */
#ifndef MAYFLY_LIB_REPLICA_SHIPPER_H
#define MAYFLY_LIB_REPLICA_SHIPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/replica/backlog.h"

struct engine;
struct shipper;
struct shipper_reader;

#define SHIPPER_READERS_MAX 16u

/* Smallest ring of a recording backlog, in bytes: twice what may be overwritten at once. */
#define SHIPPER_BACKLOG_MIN ((uint64_t)2 << 20)

enum shipper_drop_reason {
    SHIPPER_STAYS, /* it is not dropped */
    SHIPPER_TOO_SLOW,
    SHIPPER_GAP,     /* changes were lost */
    SHIPPER_OVERRUN, /* a replica's backlog has come around */
    SHIPPER_TOLD,    /* by shipper_drop() */
};

/* Why a reader was dropped. */
struct shipper_drop {
    enum shipper_drop_reason reason;
    uint64_t offset; /* offset up to which it had read */
    uint64_t end;    /* end of the backlog at that time */
    /*
     * TOO_SLOW: bytes of the stream per second, read and (estimated) written, since it lagged
     */
    uint64_t reader_rate, change_rate;
};

struct shipper_config {
    struct engine *engine;   /* [borrowed] */
    struct backlog *backlog; /* [borrowed] the shipper writes it between begin and end */
    /*
     * There is more to read, readers were dropped by the shipper, or a ticket is done; may be
     * NULL. On a replica, and for shipper_begin() and shipper_drop_all(), it is not called.
     * Context: the shipper, outside sections and locks; it must not wait for the shipper.
     */
    void (*on_more)(void *arg);
    void *arg; /* [borrowed] */
};

/* Create the thread. MF_ENOMEM; MF_ESYS. Context: main, before privileges are dropped. */
enum mf_err shipper_start(struct shipper **s, const struct shipper_config *cfg);

/*
 * End the thread, release the shipper and null the pointer; accepts NULL. All readers have been
 * detached. Context: main; before engine_stop().
 */
void shipper_stop(struct shipper **s);

/* ---- the role of the server -------------------------------------------------------------- */

struct shipper_role {
    int64_t to_unix_ms; /* added to a time of the engine's clock: see above */
    /*
     * The end of the backlog is the present state of the engine: nothing was changed since.
     * Then the stream continues there; otherwise the backlog gets a gap. It gets one too if a
     * flush is half done at that moment.
     */
    bool continues;
};

/*
 * Record changes from now on. MF_ENOMEM: nothing has changed. MF_EINVAL: the backlog's ring has
 * less than SHIPPER_BACKLOG_MIN bytes.
 * Context: any thread but the shipper, one at a time, outside a section; as the next.
 */
enum mf_err shipper_begin(struct shipper *s, const struct shipper_role *role);

/*
 * Stop recording: changes not shipped by now are lost (see shipper_mark()), and nothing is
 * appended after it returns. Readers stay attached.
 */
void shipper_end(struct shipper *s);

/* ---- readers ----------------------------------------------------------------------------- */

/*
 * Attach a reader, for a replica that has everything up to an offset of a history. *reader is
 * set only if the result is BACKLOG_CONTINUES. If the replica stopped within a value in parts,
 * it must still have these parts. Context: any thread but the shipper, outside a section; as
 * the rest. Each reader is used by one thread at a time.
 */
enum backlog_answer shipper_attach(struct shipper *s, const struct replid *id, uint64_t offset,
                                   struct shipper_reader **reader);

/* Takes the address and nulls it; accepts NULL. */
void shipper_detach(struct shipper_reader **reader);

/*
 * Copy out what comes next, up to n bytes, and count it as read. Returns the number of bytes, 0
 * if there are none at present; -1: the reader was dropped.
 */
ptrdiff_t shipper_read(struct shipper_reader *r, void *out, size_t n);

/*
 * The replica has applied the stream up to this offset. From the first call on, bytes after the
 * last acknowledged offset are not overwritten, instead of bytes after the last one read: bytes
 * in between may be in a socket when the link breaks. Acknowledge more often than once for each
 * half of the backlog.
 */
void shipper_ack(struct shipper_reader *r, uint64_t offset);

/* What shipper_read() will read next. */
uint64_t shipper_offset(struct shipper_reader *r);

/* Was it dropped? Then *why has the reason, unless that is NULL. */
bool shipper_is_dropped(struct shipper_reader *r, struct shipper_drop *why);

/* Drop all readers, as before a takeover: shipper_read() returns -1 from now on. */
void shipper_drop_all(struct shipper *s);

/* [const] The backlog. Context: any thread. */
struct backlog *shipper_backlog(const struct shipper *s);

/* ---- marks ------------------------------------------------------------------------------- */

/*
 * Request an offset of the backlog that covers all changes made before the call. Returns a
 * ticket. Context: any thread.
 */
uint64_t shipper_ask(struct shipper *s);

/* Is the ticket done? Then *offset is that offset. False also while nothing is recorded. */
bool shipper_is_done(struct shipper *s, uint64_t ticket, uint64_t *offset);

/*
 * Request such an offset, and wait for it. It is the beginning of a block, outside values in
 * parts. A replica continues from it after a full sync by a feed (lib/ship/feed.h) that has
 * shipped all changes made before this call. The stream may then have states older than those
 * of the replica, so the replica serves no requests before it has reached a second mark, which
 * is taken after the end of the feed. False: nothing is recorded. Context: as shipper_attach().
 */
bool shipper_mark(struct shipper *s, uint64_t *offset);

/*
 * A caller that waits for this ticket is in a hurry. Until the ticket is done, a reader that
 * blocks the shipper is dropped as too slow after SHIPPER_STALL_MS, if it has not made room for
 * one grant (768 KiB) of the backlog by then. Context: any thread.
 */
#define SHIPPER_STALL_MS 5000
void shipper_hurry(struct shipper *s, uint64_t ticket);

/*
 * The state at the last moment when the backlog had everything: a replica that has applied
 * everything before the offset drops all items with a deadline up to `due_gone`, in Unix
 * milliseconds as in the stream, and none with a later one. Returns false if nothing is
 * recorded.
 *
 * Each ticket that is done updates it, even if nothing has changed; a sleeping shipper does
 * not. So a thread that sends pings calls shipper_ask() for each, and sends the level of the
 * previous one. That costs a check of each shard. Context: any thread.
 *
 * While a log of the engine wants a record of each item that expires (its files have deadlines
 * by a wall clock that was ahead), the stream has them as well.
 */
struct shipper_level {
    uint64_t offset;
    int64_t due_gone;
};
bool shipper_level(struct shipper *s, struct shipper_level *level);

/* ---- observers --------------------------------------------------------------------------- */

struct shipper_info {
    bool records;           /* between begin and end */
    unsigned readers;       /* attached, and not dropped */
    uint64_t slowest;       /* offset of the slowest of them; the end of the backlog if none */
    uint64_t lag_bytes;     /* bytes of records that are not shipped */
    uint64_t blocks, bytes; /* appended */
    uint64_t read,
        shipped;      /* records of the rings; of them shipped: the others were repeated */
    uint64_t dropped; /* readers that were too slow */
    uint64_t waits;   /* for a slow reader */
    uint64_t gaps;
    uint64_t left_out; /* large values that could not be kept for the time it takes */
    uint64_t wakeups;  /* of the thread: each poll of the rings, and each end of a sleep */
};

/* Context: any thread. */
void shipper_info(struct shipper *s, struct shipper_info *info);

#endif
