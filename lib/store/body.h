/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies: large values that are being received. Whole segments are taken one by one as the
 * bytes arrive, so that room for a value is made in many small steps. Bytes for pieces wait in
 * a buffer of the body until the value is complete. Alternatively the body is *placed*: it has
 * all its segments and the loose blocks of the future item, and bytes are received directly
 * into them. A body stays placed for one read-side section at most; until its end the blocks
 * stay valid, even if a flush takes their segments away.
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
 * When there is no segment for the body, it waits with this waiter in the line of its shard,
 * instead of last of all. all: the caller gives the body up whenever it has to wait, so the
 * waiter waits for all its segments. Otherwise it waits for the next segment, and leaves the
 * line when the body is aborted. Context: the thread that began it, which is the waiter's.
 */
void body_wait_in_line(struct body *b, struct waiter *w, bool all);

/*
 * Sets *ptr and *n to the memory for the next bytes (*n is at least 1 while the body is not
 * full). OUT_OK, OUT_WAIT (retry in 1 ms), or OUT_NO_MEMORY. Context: the thread that began it,
 * outside a shard.
 */
enum outcome body_room(struct body *b, bool may_wait, char **ptr, size_t *n);

/*
 * Place the body, before any byte for its pieces has arrived: take its remaining segments,
 * without waiting, and allocate the blocks of the item that this store makes. Bytes received
 * there are not copied again. Before the read-side section ends, the body must be stored,
 * unplaced (body_unplace()) or aborted. False: not possible now, continue without; segments
 * that were taken are kept. Context: read side, no shard held.
 */
bool body_place(struct body *b, const struct store *st, msec_t now);

/* Largest number of segments that may be missing when a body is placed. */
#define BODY_SEGMENTS_MAX 8u

/* Largest value, in bytes, that is received by one read. */
#define BODY_PLACE_MAX ((size_t)256 << 10)

/* May a value of `len` bytes be placed before its first byte arrives? Context: any thread. */
bool engine_may_place(const struct engine *e, size_t len);

/*
 * Are all whole segments full, and no byte of the pieces received? Context: as body_filled().
 */
bool body_is_at_pieces(const struct body *b);

/*
 * Use these when much of the value has probably arrived. body_take_ahead() takes segments for
 * one read of up to BODY_PLACE_MAX bytes, as far as that takes no waiting. After the read,
 * body_give_ahead() returns the segments after that of the next byte, so that a body holds no
 * more memory than it has received bytes. Context: as body_room().
 */
void body_take_ahead(struct body *b);
void body_give_ahead(struct body *b);

/*
 * Sets `places` to the memory for the missing bytes: for all of them if the body is placed,
 * otherwise as far as it has segments. Returns their number. Context: as body_room().
 */
#define BODY_PLACES_MAX (BODY_SEGMENTS_MAX + 15u)
unsigned body_places(struct body *b, struct iovec places[BODY_PLACES_MAX]);

/*
 * Release the blocks, after copying the bytes received there, so that the section may end.
 * Segments without received bytes are released as well. Does nothing if the body is not placed.
 * False: no memory, the body can only be aborted. Context: the section of body_place().
 */
bool body_unplace(struct body *b);

/* n bytes were received into the places of body_room(). Context: the thread that began it. */
void body_filled(struct body *b, size_t n);

/* Bytes still missing. */
size_t body_missing(const struct body *b);

/*
 * Memory that the body takes: its segments, and the bytes received for its pieces. Context: the
 * thread that began it.
 */
size_t body_held_bytes(const struct body *b);

/* Is there memory for the next byte, so that body_room() takes nothing? Context: the same. */
bool body_next_is_held(const struct body *b);

/*
 * Release everything and null the pointer; accepts NULL. Context: the thread that began it.
 */
void body_abort(struct body **b);

/* ---- inside the engine ------------------------------------------------------------------- */

/* The parts of a full body. Context: the thread that began it. */
void body_parts(const struct body *b, struct body_parts *out);

/*
 * Copy the bytes received into its blocks to the body's buffer. False: no memory. Context: the
 * section of the blocks.
 */
bool body_keep_bytes(struct body *b);

/* The blocks into which the body was received, to be linked; NULL when it is not placed. */
struct loose *body_loose(struct body *b);

/*
 * The blocks were released, or belong to an item: the body forgets them. Context: the section
 * of the blocks.
 */
void body_lose_place(struct body *b);

/*
 * Segments and blocks now belong to an item, or were released: the body forgets them. Context:
 * the thread that began it.
 */
void body_disown(struct body *b);

/*
 * Take all its whole segments before anything is filled in, so that a copy needs no wait.
 * Outcomes as below; segments that were taken are kept.
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
