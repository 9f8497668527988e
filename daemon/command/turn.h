/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A turn: requests of one client, or of several one after the other, are executed in one
 * read-side section and their replies composed in the worker's output buffer. The section spans
 * the requests and their replies, so values are sent from where they are stored and the order
 * of reads and writes is program order. The clock and the routing table are read once a turn.
 */
#ifndef MAYFLY_DAEMON_COMMAND_TURN_H
#define MAYFLY_DAEMON_COMMAND_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/command/client.h"
#include "daemon/net/outq.h"
#include "daemon/worker/slowlog.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/span.h"
#include "lib/engine/engine.h"
#include "lib/store/find.h"
#include "proto/bin_compose.h"
#include "proto/meta_compose.h"
#include "proto/reply.h"
#include "proto/request.h"

/* Most requests, or keys of one line, that are looked up together. */
#define TURN_BATCH 64u

/* Why a turn of a client ends, or does not. */
enum turn_stop {
    TURN_GOES_ON,
    TURN_DRY,     /* all complete requests were executed: more input has to be read */
    TURN_BLOCKED, /* the socket is full: continue when it is writable */
    TURN_WAITS,   /* a store found no room, or flushes are too frequent: retry in 1 ms */
    TURN_YIELDS,  /* other clients are ready, and this one has used its share */
    TURN_ASKED,   /* the answer comes later (client_expect()) */
    TURN_LOGS_IN, /* the same for the answer to a login */
    TURN_LASTS,   /* the answer was started, and continues as a task */
    TURN_QUEUES,  /* the rest of the work continues as a task */
    TURN_STREAMS, /* the client watches from now on: its further input is dropped */
    TURN_CLOSES,  /* the connection ends when its replies are sent */
};

/* Is the first of these requests known? For the slow log. */
enum timed_first {
    FIRST_IGNORED, /* the slow log was off when they arrived */
    FIRST_WANTED,  /* the next request that is counted is the first */
    FIRST_NAMED,   /* `first` has it */
};

/* Requests whose replies were not sent yet; see timing.h. */
struct timed {
    uint64_t since_ns; /* when they could be read */
    uint32_t n[KIND_COUNT];
    uint32_t first_state;      /* enum timed_first */
    uint64_t reply_bytes;      /* sent so far; in a turn: the counter of sent bytes before it */
    struct slow_request first; /* set if FIRST_NAMED */
};

/* Lives on the stack. */
struct turn {
    struct worker *w;          /* [borrowed] */
    struct engine *e;          /* [borrowed] */
    struct client *client;     /* [borrowed] whose requests these are; NULL: of a datagram */
    const struct route *route; /* [borrowed] of the read-side section that is open */
    msec_t now;                /* when the section opened, or later input was read */
    uint32_t now_s;            /* the same in seconds */
    bool is_followed;          /* the round has others after this client */
    struct waiter *waiter;     /* [borrowed] the worker's; NULL: another client has it */
    bool may_wait;             /* stores and flushes may return TURN_WAITS */
    bool is_halted;            /* output waits or is broken: begin no request */
    bool is_broken;            /* the connection is lost */
    uint32_t insight;          /* enabled measurements (insight.h); 0: none */
    uint32_t observed;         /* observe_flags(): 0 when nothing is observed */
    bool hides_cas;            /* -C: cas values are shown as 0 */
    bool is_bulk;              /* a large value was stored */
    bool is_placeable;         /* a value was stored that could have been placed (body.h) */
    uint32_t requests;         /* executed */
    uint64_t units;            /* a measure of the work done: keys, and 4 KiB of output each */
    uint64_t unit_limit;       /* at this many, check whether others are ready */
    uint64_t first_unit;       /* units done before the request that counts as its first */
    bool is_first;             /* that first request runs outside the section: exec_noop() */
    struct out out;            /* replies composed and not yet sent */
    struct span rest;          /* get family: keys not answered, when it stopped between them */
    struct timed timed;        /* if anything is measured */
    struct {
        uint32_t gets, hits, misses, expired, flushed, stores;
    } tally; /* counts that turn_tally() moves to the worker's counters */
};

/* Checks of debug builds: the turn's worker calls, inside of the section or outside of it. */
#define must_be_in_turn(t)                                                                     \
    do {                                                                                       \
        must_be_worker((t)->w);                                                                \
        must_be_reading();                                                                     \
    } while (0)
#define must_be_outside_section(t)                                                             \
    do {                                                                                       \
        must_be_worker((t)->w);                                                                \
        must_not_be_reading();                                                                 \
    } while (0)

/* Did its client come over the control socket? Context: worker. */
static inline bool turn_is_control(const struct turn *t)
{
    return t->client != NULL && client_is_control(t->client);
}

/* ---- life -------------------------------------------------------------------------------- */

/*
 * Begin a turn: opens a read-side section, reads the clock, takes the worker's output buffer.
 * Context: worker, outside a section.
 */
void turn_begin(struct turn *t, struct worker *w);

/*
 * The next requests are those of client c. NULL: those of a datagram; then no output is sent, a
 * full output buffer sets is_halted, and no store waits for room. Context: worker, in the turn.
 */
void turn_take(struct turn *t, struct client *c);

/*
 * End the requests of that client: flush and count. has_more: input is left. Context: worker,
 * in the turn.
 */
void turn_pass(struct turn *t, bool has_more);

/*
 * Close the section and open a new one, with a new time and routing table; items found before
 * are no longer valid. Context: worker, in the turn, after turn_pass().
 */
void turn_renew(struct turn *t);

/*
 * Further requests were read during the turn: read the clock again, so that the time of the
 * turn is not before their arrival. Context: worker, in the turn.
 */
void turn_read_clock(struct turn *t);

/* Close the section. Context: worker, in the turn, after turn_pass(). */
void turn_end(struct turn *t);

/*
 * Leave the section for a command that must not run inside one, or may take long; items found
 * in it are no longer valid. False when the output refers to a value and cannot be sent now:
 * the turn is still in its section, and nothing may be executed. Context: worker, in the turn.
 */
bool turn_leave_section(struct turn *t);

/* Open a new one. Context: worker, after turn_leave_section(). */
void turn_enter_section(struct turn *t);

/*
 * Is another connection of this worker ready? A system call. Always true for a datagram, which
 * ends where a connection would yield. Context: worker.
 */
bool turn_others_are_ready(struct turn *t);

/* The share of one client in a turn of the loop, in units of work. Context: worker. */
uint64_t turn_share_units(const struct worker *w);

/* Move the counts of the turn to the worker's counters. Context: worker. */
void turn_tally(struct turn *t);

static inline void turn_tally_miss(struct turn *t, enum miss why)
{
    t->tally.misses++;
    t->tally.expired += why == MISS_EXPIRED;
    t->tally.flushed += why == MISS_FLUSHED;
}

/* The descriptor of the client, -1 for a datagram. */
static inline int turn_fd(const struct turn *t)
{
    return t->client != NULL ? t->client->io.fd : -1;
}

/* May the client use commands and flags that memcached does not have? Context: in turn. */
bool turn_has_extensions(const struct turn *t);

/* ---- times and cas values ---------------------------------------------------------------- */

/*
 * A deadline from an exptime as memcached reads it: 0 never, negative at once, up to 30 days
 * relative, else absolute. Context: worker, in the turn.
 */
msec_t turn_deadline(const struct turn *t, int64_t exptime);

/* The same for an exptime in milliseconds. Context: worker, in the turn. */
msec_t turn_deadline_ms(const struct turn *t, int64_t exptime_ms);

/*
 * The instant of a flush after `delay`, an exptime of which 0 means at once. It is not rounded
 * up as times to live are: a get that is sent after the delay must miss. Context: worker, in
 * the turn.
 */
msec_t turn_flush_at(const struct turn *t, int64_t delay);

/*
 * The deadline `ms` milliseconds from now, and the one at a Unix time, which may be arbitrarily
 * far. A time that has passed becomes t->now. Context: worker, in the turn.
 */
msec_t turn_deadline_after(const struct turn *t, int64_t ms);
msec_t turn_deadline_at(const struct turn *t, int64_t unix_ms);

/*
 * Move a deadline earlier by 0 to pct per cent of the time until then, with equal probability
 * for each millisecond. It is derived from the hash of the key and the time, so there is no
 * state. MSEC_NEVER, and a deadline that has passed, are not changed. Context: worker, in the
 * turn.
 */
msec_t turn_jitter(const struct turn *t, uint64_t hash, msec_t deadline, uint32_t pct);

/* turn_deadline() for a store, with the jitter of the settings. Context: as above. */
msec_t turn_store_deadline(const struct turn *t, uint64_t hash, int64_t exptime);

/* Milliseconds to a deadline; 0: it has passed; -1: there is none. */
int64_t turn_ms_left(const struct turn *t, msec_t deadline);

/* A deadline other than MSEC_NEVER as a Unix time in milliseconds. Context: worker. */
int64_t turn_unix_ms(const struct turn *t, msec_t deadline);

/*
 * The same as turn_ms_left() in seconds, rounded up: in memcached items expire at the end of
 * their last second.
 */
static inline int64_t turn_seconds_left(const struct turn *t, msec_t deadline)
{
    return meta_seconds(turn_ms_left(t, deadline));
}

/* Under -C no cas value matches, but C0 of md: memcached has none then, and answers EXISTS. */
#define TURN_CAS_NEVER UINT64_MAX

/* The cas value to compare with, if the client sent one. */
static inline uint64_t turn_cas_expected(const struct turn *t, uint64_t given)
{
    return t->hides_cas ? TURN_CAS_NEVER : given;
}

/* The cas value as the client sees it. */
static inline uint64_t turn_cas_shown(const struct turn *t, uint64_t cas)
{
    return t->hides_cas ? 0 : cas;
}

/* ---- output ------------------------------------------------------------------------------ */

/*
 * Send the composed output to the socket; bytes that it does not accept are queued. The output
 * is always empty afterwards; t->is_halted is set if the client must stop.
 * Context: worker, in the turn; read side while it refers to a value.
 */
void turn_flush(struct turn *t);

/* Append bytes of any length to the output. Context: as turn_flush(). */
void turn_emit(struct turn *t, const char *bytes, size_t n);

/*
 * Append a line, including its end; it is cut off after TURN_LINE_MAX bytes.
 * Returns TURN_GOES_ON. Context: as turn_flush().
 */
#define TURN_LINE_MAX 1536u
enum turn_stop turn_line(struct turn *t, const char *fmt, ...) MF_PRINTF(2, 3);

/*
 * Room for n more bytes of reply, n well below the size of the output. Never fails: the reply
 * to an executed request is never lost. The caller adds the bytes that it wrote to t->out.len.
 * Context: as turn_flush().
 */
static inline char *turn_room(struct turn *t, size_t n)
{
    if (MF_UNLIKELY(t->out.cap - t->out.len < n)) {
        turn_flush(t);
        must(t->out.cap - t->out.len >= n);
    }
    return t->out.base + t->out.len;
}

/*
 * Make room in the output for a reply that refers to a large value, and n more bytes. Output
 * that refers to another value is sent first. False: the client has to wait for its socket, and
 * nothing was composed. Context: worker, read side.
 */
bool turn_has_room_for_value(struct turn *t, size_t n);

/* Append a fixed reply; REPLY_NONE is empty. Context: as turn_flush(). */
static inline void turn_reply(struct turn *t, enum reply r)
{
    if (r != REPLY_NONE) {
        struct span text = reply_text(r);

        memcpy(turn_room(t, text.len), text.ptr, text.len);
        t->out.len += text.len;
    }
}

/* The same, unless r is noreply. TURN_GOES_ON. Context: as turn_flush(). */
static inline enum turn_stop turn_answer(struct turn *t, const struct request *r,
                                         enum reply reply)
{
    if (!r->noreply) {
        turn_reply(t, reply);
    }
    return TURN_GOES_ON;
}

/*
 * A fixed answer of the binary protocol; a quiet request gets none for success. Context: as
 * turn_flush().
 */
void turn_bin_reply(struct turn *t, const struct request *r, enum bin_reply reply,
                    uint64_t cas);

#endif
