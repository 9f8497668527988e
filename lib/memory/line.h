/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of a shard for large values that wait for whole segments, in order of arrival.
 * Segments that become free are reserved for the first waiter, which is called. A new waiter
 * comes after all others, unless there is room for all. Only called waiters run the cursor, so
 * they are served one after the other.
 *
 * Values in blocks are not in the queue. Together they have one place at its front: one segment
 * serves hundreds of them, so they delay the others by one segment for each that they fill.
 */
#ifndef MAYFLY_LIB_MEMORY_LINE_H
#define MAYFLY_LIB_MEMORY_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

struct memory;

/*
 * A waiter. All zero but `wake`: in no line. Only one thread lets it join and leave: "its
 * thread" below.
 */
struct waiter {
    void (*wake)(struct waiter *w); /* [const] its turn has come; in shard, on any thread */
    struct memory *memory; /* [lock] the memory in whose line it is; NULL: none. Written only by
                              its thread, which may read it outside the shard */
    /* [lock] of the shard */
    struct waiter *next, *prev;
    uint32_t want; /* segments, at least 1 */
    /* [atomic] */
    _Atomic bool is_called; /* changed in the shard */
};

/*
 * At most this many segments are made and kept free for the queue: later waiters get the next
 * ones.
 */
#define LINE_MOST 32u

/* All zero: empty. */
struct room_line {
    /* [lock] */
    struct waiter *first, *last;
    uint32_t wanted;   /* segments that all waiters want */
    uint32_t promised; /* of these: segments that called waiters want */
    msec_t blocks_at;  /* when a block last found no room; 0: a block has found room since */
};

/*
 * Number of free segments that w must leave to others: those promised to other waiters, or, if
 * w was not called, those wanted by the waiters before it. NULL: a caller that is not in the
 * line. Context: in shard.
 */
uint32_t line_ahead(const struct memory *m, const struct waiter *w);

/*
 * Must w wait because there are waiters before it, and not enough segments for all? Context: in
 * shard, its thread.
 */
bool line_is_behind(const struct memory *m, const struct waiter *w);

/*
 * Join at the end, or keep the place; the waiter now wants `want` segments. Context: in shard,
 * its thread. It is in no other line.
 */
void line_join(struct memory *m, struct waiter *w, uint32_t want);

/* Call w, whether there is room or not: if not, it makes room. Context: in shard. */
void line_call(struct memory *m, struct waiter *w);

/* A called waiter found no segment: it waits until it is called again. Context: in shard. */
void line_uncall(struct memory *m, struct waiter *w);

/* w took one segment; after its last one it leaves the line. Context: in shard, its thread. */
void line_took(struct memory *m, struct waiter *w);

/* Leave, if it is in a line. Context: its thread, outside a shard. */
void line_leave(struct waiter *w);

/*
 * Room may have been made: call the waiters for which it suffices. If none was called and no
 * room is about to come, call the first one, to make some. Context: in shard.
 */
void line_settle(struct memory *m);

/*
 * A grace period has ended: if no waiter is called, call the first one. Context: in shard.
 */
void line_nudge(struct memory *m);

/*
 * Are the free segments, and those that only wait for a grace period, enough for all that they
 * are reserved for? If not, the called waiter makes more. Context: in shard.
 */
bool line_is_provided(const struct memory *m);

/* A block found no room, or did. Context: in shard. */
void line_note_blocks(struct memory *m, bool has_room);

/* Do blocks wait, so that they get the next segment? Context: in shard. */
bool line_has_blocks(const struct memory *m);

/*
 * Is there a waiter, or do blocks wait? Blocks wait if one found no room within the last
 * `within` milliseconds, and none has found room since. Context: in shard.
 */
bool line_is_waited_in(const struct memory *m, msec_t within);

#endif
