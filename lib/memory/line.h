/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard's FIFO queue of large values that wait for whole segments. Free segments are reserved
 * for the first waiter, which is then called. A new waiter joins at the end, unless there is
 * room for all. Only called waiters run the cursor, so they are served one after the other.
 *
 * Values in blocks are not in the queue. Together they have one place at its front: one segment
 * serves hundreds of them, so they delay the queue by one segment for each that they fill.
 */
#ifndef MAYFLY_LIB_MEMORY_LINE_H
#define MAYFLY_LIB_MEMORY_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

struct memory;

/*
 * A waiter. All zero except `wake`: in no queue. Only one thread, its owner ("its thread"
 * below), adds and removes it.
 */
struct waiter {
    void (*wake)(struct waiter *w); /* [const] call it when its turn has come; in shard, on any
                                       thread */
    struct memory *memory; /* [lock] the memory whose queue it is in; NULL: none. Written only
                              by its thread, which may read it outside the shard */
    /* [lock] of the shard */
    struct waiter *next, *prev;
    uint32_t want; /* segments, at least 1 */
    /* [atomic] */
    _Atomic bool is_called; /* changed in the shard */
};

/*
 * Maximum number of segments that are kept free for the queue. Further waiters get the next
 * ones.
 */
#define LINE_MOST 32u

/* All zero: empty. */
struct room_line {
    /* [lock] */
    struct waiter *first, *last;
    uint32_t wanted;   /* segments that all waiters want */
    uint32_t promised; /* part of wanted: segments that called waiters want */
    msec_t blocks_at;  /* when a block last found no room; 0: a block has found room since */
};

/*
 * Number of free segments that w must leave to others: those promised to other waiters, or, if
 * w was not called, those wanted by the waiters before it. w is NULL for a caller outside the
 * queue. Context: in shard.
 */
uint32_t line_ahead(const struct memory *m, const struct waiter *w);

/*
 * Must w wait because there are waiters before it and too few segments for all? Context: in
 * shard, its thread.
 */
bool line_is_behind(const struct memory *m, const struct waiter *w);

/*
 * Join at the end, or keep the present place; w now wants `want` segments. Must not be in
 * another queue. Context: in shard, its thread.
 */
void line_join(struct memory *m, struct waiter *w, uint32_t want);

/* Call w even if there is no room: it then makes room. Context: in shard. */
void line_call(struct memory *m, struct waiter *w);

/* A called waiter found no segment and waits to be called again. Context: in shard. */
void line_uncall(struct memory *m, struct waiter *w);

/* w took one segment; it leaves the queue with its last one. Context: in shard, its thread. */
void line_took(struct memory *m, struct waiter *w);

/* Leave the queue, if it is in one. Context: its thread, outside a shard. */
void line_leave(struct waiter *w);

/*
 * Room may have been made: call the waiters for which there is enough. If none was called and
 * no room is expected, call the first one, to make some. Context: in shard.
 */
void line_settle(struct memory *m);

/*
 * A grace period has ended: if no waiter is called, call the first one. Context: in shard.
 */
void line_nudge(struct memory *m);

/*
 * Do the free segments, and those that only wait for a grace period, satisfy all reservations?
 * If not, the called waiter makes more room. Context: in shard.
 */
bool line_is_provided(const struct memory *m);

/* Record whether a block found room. Context: in shard. */
void line_note_blocks(struct memory *m, bool has_room);

/* Do blocks wait, so that they get the next segment? Context: in shard. */
bool line_has_blocks(const struct memory *m);

/*
 * Is there a waiter, or do blocks wait? Blocks wait if one found no room within the last
 * `within` milliseconds and none has found room since. Context: in shard.
 */
bool line_is_waited_in(const struct memory *m, msec_t within);

#endif
