/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies: large values on their way in. Whole segments are taken one by one as the bytes
 * arrive, so that room for a value is made in many small steps; what goes into pieces waits in
 * a buffer of the body until the value is whole. Or the body is placed: it has all its segments
 * and the loose blocks of the item to be, and the bytes go there at once. That lasts no longer
 * than one read-side section, in which those blocks stay what they are even if a flush takes
 * their segments away.
 */
#ifndef MAYFLY_LIB_STORE_BODY_H
#define MAYFLY_LIB_STORE_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"

struct body_parts;
struct engine;
struct shard;
struct body;
struct loose;
struct store;
struct waiter;

/*
 * Begin to receive a value of len bytes, more than ENGINE_SMALL_MAX. Takes no room yet.
 * NULL when there is no memory. Context: read side, no shard held.
 */
struct body *body_begin(struct engine *e, uint64_t hash, size_t len);

/*
 * Where it cannot have a segment it waits with this place in the line of its shard, instead of
 * being behind everybody. all: it is given up whenever it has to wait, so it waits for all its
 * segments, else for the next, and has left the line when it is aborted. Context: the thread
 * that began it, and the waiter's.
 */
void body_wait_in_line(struct body *b, struct waiter *w, bool all);

/*
 * Where the next bytes go: fills ptr and n (at least 1 while the body is not full). OUT_OK, or
 * OUT_WAIT (ask again in 1 ms), or OUT_NO_MEMORY. Context: the thread that began it, outside a
 * shard.
 */
enum outcome body_room(struct body *b, bool may_wait, char **ptr, size_t *n);

/*
 * Before anything has come for its pieces: take the segments that are still to be taken,
 * without a wait, make the blocks of the item that this store makes, and receive the bytes
 * there. Then they are not copied again. The blocks are the caller's until its read-side
 * section ends, or until body_unplace(): by then the body must have been stored, unplaced or
 * aborted. False: not now, go on without; what was taken is kept. Context: read side, no shard
 * held.
 */
bool body_place(struct body *b, const struct store *st, msec_t now);

/* At most so many segments are filled while a body is placed. */
#define BODY_SEGMENTS_MAX 8u

/* Longer values are worth more than one read. */
#define BODY_PLACE_MAX ((size_t)256 << 10)

/* May a value of so many bytes be placed before any has come? Context: any thread. */
bool engine_may_place(const struct engine *e, size_t len);

/* Has all come but what goes into pieces, and nothing of that? Context: as body_filled(). */
bool body_is_at_pieces(const struct body *b);

/*
 * Much of it has probably come: take segments ahead, for one read of up to BODY_PLACE_MAX, as
 * far as there are some without a wait. After the read give back what was taken beyond the
 * segment of the next byte: a body holds what has come. Context: as body_room().
 */
void body_take_ahead(struct body *b);
void body_give_ahead(struct body *b);

/*
 * The places of the bytes still missing: of all if the body is placed, else as far as it has
 * taken segments for them. Returns how many. Context: as body_room().
 */
#define BODY_PLACES_MAX (BODY_SEGMENTS_MAX + 15u)
unsigned body_places(struct body *b, struct iovec places[BODY_PLACES_MAX]);

/*
 * Give the blocks back and keep the bytes received there elsewhere, so that the section may
 * end. Segments that nothing was received into are given back as well. Does nothing if the body
 * is not placed. False: no memory, the body can only be aborted. Context: the section of
 * body_place().
 */
bool body_unplace(struct body *b);

/* n bytes were written there. Context: the thread that began it. */
void body_filled(struct body *b, size_t n);

/* Bytes still missing. */
size_t body_missing(const struct body *b);

/*
 * Memory that the body takes: its segments, and the bytes received for its pieces. Context: the
 * thread that began it.
 */
size_t body_held_bytes(const struct body *b);

/* Has the next byte its place already, so that body_room() takes nothing? Context: the same. */
bool body_next_is_held(const struct body *b);

/*
 * Give everything back; takes the address and nulls it; accepts NULL. Context: the thread that
 * began it.
 */
void body_abort(struct body **b);

/* ---- inside the engine ------------------------------------------------------------------- */

/* What it consists of, when it is full. Context: the thread that began it. */
void body_parts(const struct body *b, struct body_parts *out);

/*
 * Copy to the body what was received into its blocks. False: no memory. Context: their section.
 */
bool body_keep_bytes(struct body *b);

/* The blocks into which the body was received, to be linked; NULL when it is not placed. */
struct loose *body_loose(struct body *b);

/* They were given back, or belong to an item: the body forgets them. Context: their section. */
void body_lose_place(struct body *b);

/*
 * Segments and blocks now belong to an item, or were given back: the body forgets them.
 * Context: the thread that began it.
 */
void body_disown(struct body *b);

/*
 * Take all its whole segments before anything is filled in: then there is no wait amid a copy.
 * Outcomes as below; what was taken is kept.
 */
enum outcome body_take(struct body *b, bool may_wait);

/*
 * Fill the whole segments from a span; the rest may be passed as tail. OUT_OK, OUT_WAIT,
 * OUT_NO_MEMORY.
 */
enum outcome body_fill_segments(struct body *b, struct span value, bool may_wait);
/* Append a span to a body. Outcomes as above. */
enum outcome body_append(struct body *b, struct span part, bool may_wait);
/*
 * Copy the body's segments to segments of another shard. Outcomes as above. OUT_WAIT also after
 * BUDGET_copy_bytes, if may_wait: the next call continues.
 */
enum outcome body_rehome(struct body *b, struct shard *to, bool may_wait);

#endif
