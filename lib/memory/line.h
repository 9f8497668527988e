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
 * Somebody who may wait. All zero but `wake`: in no line. It has one thread, which makes it
 * join and leave; that is said by "its thread" below.
 */
struct waiter {
    void (*wake)(struct waiter *w); /* [const] its turn has come; in shard, on any thread */
    struct memory *memory; /* [lock] in whose line; NULL: in none. Its thread reads it also
                              outside, since nobody else writes it */
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
    uint32_t wanted;   /* segments that all in it want */
    uint32_t promised; /* of these: by those that were called */
    msec_t blocks_at;  /* when a block found no room last; 0: since then one did */
};

/*
 * How many free segments are not w's to take: those promised to others, or, if it was not
 * called, those that others want before. NULL: somebody without a place. Context: in shard.
 */
uint32_t line_ahead(const struct memory *m, const struct waiter *w);

/*
 * Must w wait because others are before it, and there is not enough for all? Context: in shard,
 * its thread.
 */
bool line_is_behind(const struct memory *m, const struct waiter *w);

/*
 * Join at the end, or keep the place; the waiter now wants `want` segments. Context: in shard,
 * its thread. It is in no other line.
 */
void line_join(struct memory *m, struct waiter *w, uint32_t want);

/* Its turn, whether there is room or not: it has to make some. Context: in shard. */
void line_call(struct memory *m, struct waiter *w);

/* There was nothing for it: it will be called again. Context: in shard. */
void line_uncall(struct memory *m, struct waiter *w);

/* One segment was taken: with the last it leaves. Context: in shard, its thread. */
void line_took(struct memory *m, struct waiter *w);

/* Leave, if it is in a line. Context: its thread, outside a shard. */
void line_leave(struct waiter *w);

/*
 * Room may have been made: call those that it will do for. If nobody is called and nothing is
 * about to come, the first is, to make some. Context: in shard.
 */
void line_settle(struct memory *m);

/*
 * A grace period ended somewhere: have the first look, if nobody is called. Context: in shard.
 */
void line_nudge(struct memory *m);

/*
 * Are the free segments, and those that only wait for a grace period, enough for all that they
 * are reserved for? If not, the called waiter makes more. Context: in shard.
 */
bool line_is_provided(const struct memory *m);

/* A block found no room, or did. Context: in shard. */
void line_note_blocks(struct memory *m, bool has_room);

/* Do blocks wait, so that the next segment is theirs? Context: in shard. */
bool line_has_blocks(const struct memory *m);

/*
 * Is there a waiter? Blocks wait if one found no room within the last `within` milliseconds,
 * and none found room since. Context: in shard.
 */
bool line_is_waited_in(const struct memory *m, msec_t within);

#endif
