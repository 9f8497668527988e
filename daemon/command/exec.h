/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a request meets the engine: command -> handler, outcome -> reply bytes. Handlers run
 * in a turn of a connection: they read and write the engine and compose into the turn's
 * output. A handler either does its request as a whole and returns TURN_GOES_ON, or tells why
 * not.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_H
#define MAYFLY_DAEMON_COMMAND_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/command/dump.h"
#include "daemon/net/outq.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "lib/engine/engine.h"
#include "proto/reply.h"
#include "proto/request.h"

struct buf;
struct conn;
struct server;
struct worker;
struct counters;

/* Requests that are looked up together, and keys of one line likewise. */
#define EXEC_BATCH 64u

/* A larger value makes the connection expect more of the kind. */
#define EXEC_BULK_BYTES (192u * 1024)

/* So does a larger one that can be placed (body_place()): it is worth a read of its own. */
#define EXEC_PLACE_BYTES (24u * 1024)

/* Why a turn of a connection ends, or does not. */
enum turn_stop {
    TURN_GOES_ON,
    TURN_DRY,     /* all that can be executed is: more has to be read */
    TURN_BLOCKED, /* the socket takes no more: go on when it does */
    TURN_WAITS,   /* a store found no room, or flushes come too fast: try again in 1 ms */
    TURN_YIELDS,  /* others are ready and this connection had its share */
    TURN_ASKED,   /* the answer is being gathered from other workers */
    TURN_LASTS,   /* the answer has begun, and goes on in turns of its own */
    TURN_STREAMS, /* the connection watches from now on: what it sent behind is dropped */
    TURN_CLOSES,  /* the connection ends when its replies are sent */
};

/* A turn of a connection, or of several one after the other; lives on the stack. */
struct turn {
    struct worker *w;          /* [borrowed] */
    struct engine *e;          /* [borrowed] */
    struct conn *conn;         /* [borrowed] whose requests these are; NULL: of a datagram */
    const struct route *route; /* [borrowed] of the read-side section that is open */
    msec_t now;                /* when the section opened, or what came later was read */
    uint32_t now_s;            /* the same in seconds */
    bool is_followed;          /* the round has others behind this connection */
    bool may_wait;             /* stores and flushes may ask for TURN_WAITS */
    bool is_halted;            /* output waits or is broken: begin no request */
    bool is_broken;            /* the connection is lost */
    uint32_t observed;         /* observe_flags(): 0 when nobody looks on */
    bool hides_cas;            /* -C: cas values are shown as 0 */
    bool is_bulk;              /* a large value was stored */
    bool is_placeable;         /* a value was stored that might have been placed */
    size_t behind;             /* bytes of room in the buffer behind the input */
    size_t grown;              /* bytes that were read there: they are input too */
    uint32_t requests;         /* executed */
    uint64_t units;            /* a measure of the work done: keys, and 4 KiB of output each */
    uint64_t unit_limit;       /* at so many, look whether others are ready */
    struct out out;            /* replies composed and not yet handed over */
    struct span rest;          /* get family: keys not answered, when it stopped amid them */
    struct {
        uint32_t gets, hits, misses, expired, flushed, stores;
    } tally; /* what exec_tally() moves to the worker's counters */
};

/*
 * A deadline from an exptime as memcached reads it: 0 never, negative at once, up to 30 days
 * relative, else absolute.
 */
msec_t exec_deadline(const struct worker *w, int64_t exptime, msec_t now);

/* Under -C no cas value ever matches: memcached has none then, and answers EXISTS. */
#define EXEC_CAS_NEVER UINT64_MAX

static inline void exec_tally_miss(struct turn *t, enum miss why)
{
    t->tally.misses++;
    t->tally.expired += why == MISS_EXPIRED;
    t->tally.flushed += why == MISS_FLUSHED;
}

/* Move what the turn tallied so far to the worker's counters. Context: worker. */
void exec_tally(struct turn *t);

/* ---- exec_get.c -------------------------------------------------------------------------- */

/* get, gets, gat, gats of any number of keys. Context: worker, read side. */
enum turn_stop exec_get(struct turn *t, const struct request *r);

/*
 * Answer the keys of a get line and its END. When it stops, t->rest has the keys not answered
 * (maybe none, with ptr set): call again with them. r tells the command. Context: worker,
 * read side.
 */
enum turn_stop exec_get_keys(struct turn *t, const struct request *r, struct span keys);

/*
 * Can the output take a reply that refers to a large value, and n bytes beside it? What it
 * refers to already is sent first. False: the connection has to wait for its socket, and
 * nothing was composed. Context: worker, read side.
 */
bool exec_can_put_large(struct turn *t, size_t n);

/* ---- exec_store.c ------------------------------------------------------------------------ */

/*
 * The storage commands. body: the full value, or NULL when r->value has it. Context: worker,
 * read side.
 */
enum turn_stop exec_store(struct turn *t, const struct request *r, struct body **body);

/*
 * May the bytes of a body that has none yet go straight to the blocks of the item that r makes?
 * See body_place(). Context: worker, read side.
 */
bool exec_place(struct turn *t, const struct request *r, struct body *b);

/*
 * A store ends without its value: count it (bad data, too large, no memory: by reply), drop
 * the old value where memcached does. Context: worker, read side.
 */
void exec_store_failed(struct turn *t, const struct request *r, enum reply why);

/* What a cas came to. Context: worker. */
void exec_count_cas(struct counters *c, enum outcome outcome);

/* ---- exec_meta.c, exec_meta_write.c ------------------------------------------------------ */

/* The meta commands; ms with its value in r->value. Context: worker, read side. */
enum turn_stop exec_meta(struct turn *t, const struct request *r);

/* As exec_store(). Context: worker, read side. */
enum turn_stop exec_meta_set(struct turn *t, const struct request *r, struct body **body);

enum turn_stop exec_meta_delete(struct turn *t, const struct request *r);
enum turn_stop exec_meta_arith(struct turn *t, const struct request *r);

/* Seconds to a deadline, begun ones included; 0: it has passed; -1: there is none. */
int64_t exec_meta_ttl(msec_t deadline, msec_t now);

/* ---- exec_arith.c ------------------------------------------------------------------------ */

enum turn_stop exec_arith(struct turn *t, const struct request *r);
enum turn_stop exec_delete(struct turn *t, const struct request *r);
enum turn_stop exec_touch(struct turn *t, const struct request *r);

/* ---- exec_bin.c -------------------------------------------------------------------------- */

/* Everything of CLASS_BINARY; more of the binary protocol in exec_bin.h. */
enum turn_stop exec_bin(struct turn *t, const struct request *r);

/* ---- conn_sasl.c ------------------------------------------------------------------------- */

/*
 * BIN_SASL_AUTH and BIN_SASL_STEP, with a mechanism of at most AUTH_MECH_MAX bytes. Context:
 * worker, in a turn.
 */
enum turn_stop conn_sasl(struct turn *t, const struct request *r);

/* ---- exec_admin.c ------------------------------------------------------------------------ */

/*
 * Flush as a client asked for it, with the delay or time it sent; the outcomes of
 * engine_flush(). Context: worker, outside a read-side section.
 */
enum outcome exec_flush(struct turn *t, int64_t exptime);

/* Commands of CLASS_ADMIN but stats. Context: worker, outside a read-side section. */
enum turn_stop exec_admin(struct turn *t, const struct request *r);

/* ---- turns, conn_turn.c ------------------------------------------------------------------ */

/*
 * Begin a turn, of one connection or of several one after the other: opens a read-side section,
 * reads the clock, takes the worker's output buffer. Context: worker, outside a section.
 */
void turn_begin(struct turn *t, struct worker *w);

/*
 * Whose requests come next; NULL: of a datagram. Then no output is sent, what would be makes
 * the turn is_halted, and no store waits for room. Context: worker, in the turn.
 */
void turn_take(struct turn *t, struct conn *c);

/*
 * They are through: flush and count. has_more: input is left. Context: worker, in the turn.
 */
void turn_pass(struct turn *t, bool has_more);

/*
 * Let go of what was found, and have section, clock and routing table anew. Context: worker,
 * in the turn, after turn_pass().
 */
void turn_renew(struct turn *t);

/*
 * Bytes were read in the turn that are requests too: its time is no earlier than theirs.
 * Context: worker, in the turn.
 */
void turn_read_clock(struct turn *t);

/* Close the section. Context: worker, in the turn, after turn_pass(). */
void turn_end(struct turn *t);

/* Commands that must not run inside a section, or may take long there. Context: in a turn. */
enum turn_stop turn_admin(struct turn *t, const struct request *r);

/* Execute one request. Context: in a turn. */
static inline enum turn_stop exec_request(struct turn *t, const struct request *r)
{
    switch ((enum command_class)r->cls) {
    case CLASS_GET:
        return exec_get(t, r);
    case CLASS_STORE:
        return exec_store(t, r, NULL);
    case CLASS_DELETE:
        return exec_delete(t, r);
    case CLASS_ARITH:
        return exec_arith(t, r);
    case CLASS_TOUCH:
        return exec_touch(t, r);
    case CLASS_BINARY:
        return exec_bin(t, r);
    case CLASS_ADMIN:
    case CLASS_BINARY_ADMIN:
        return turn_admin(t, r);
    case CLASS_META:
        return exec_meta(t, r);
    }
    unreachable();
}

/* ---- output, conn_turn.c ----------------------------------------------------------------- */

/*
 * Hand what was composed to the socket; what it does not take is kept. The output is empty
 * afterwards, whatever happened; t->is_halted tells whether the connection can go on.
 * Context: worker, read side.
 */
void turn_flush(struct turn *t);

/*
 * Begin a dump of all items or none: this connection's turns are its slices until it is
 * through. TURN_LASTS.
 * Context: worker, outside a read-side section.
 */
enum turn_stop turn_dump(struct turn *t, enum dump_format format, bool has_items);

/*
 * The connection watches these streams from now on: TURN_STREAMS; or an error was answered.
 * Context: worker, outside a read-side section.
 */
enum turn_stop turn_watch(struct turn *t, uint32_t streams);

/* The descriptor of the connection, -1 for a datagram. */
int turn_fd(const struct turn *t);

/* Is some other connection of this worker ready? A system call. Context: worker. */
bool turn_others_are_ready(struct turn *t);

/* Append bytes of any length to the output. Context: worker, read side. */
void turn_emit(struct turn *t, const char *bytes, size_t n);

/*
 * Room for n more bytes of reply, n well below the size of the output. Always there: a reply
 * to what was executed is never lost. The caller adds what it wrote to t->out.len.
 * Context: worker, read side.
 */
static inline char *turn_room(struct turn *t, size_t n)
{
    if (MF_UNLIKELY(t->out.cap - t->out.len < n)) {
        turn_flush(t);
    }
    debug_must(t->out.cap - t->out.len >= n);
    return t->out.base + t->out.len;
}

/* Append a fixed reply; REPLY_NONE is empty. */
static inline void turn_reply(struct turn *t, enum reply r)
{
    if (r != REPLY_NONE) {
        struct span text = reply_text(r);

        memcpy(turn_room(t, text.len), text.ptr, text.len);
        t->out.len += text.len;
    }
}

#endif
