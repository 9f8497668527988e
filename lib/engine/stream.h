/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of changes of an engine, for one sink: the records of all shards' rings
 * (lib/shard/changes.h), each shipped as the state that its key has by now. Together with a
 * walk that looks at nothing before the stream begins, it keeps a copy up to date. No slot may
 * move between the two: see feed.c.
 *
 *     put, meta, drop    the key is looked up and shipped, or dropped if it is absent
 *     flush              when it was read in every ring: all before it is shipped by then
 *     prefix             when it was read in any ring
 *
 * A record is passed over if a walk will yet meet its key, unless the key is gone, or if the
 * key was shipped after the record had been written. So a key that changes often is shipped
 * once for all the records that wait.
 */
#ifndef MAYFLY_LIB_ENGINE_STREAM_H
#define MAYFLY_LIB_ENGINE_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/engine/engine.h"
#include "lib/engine/ship.h"
#include "lib/engine/walk.h"
#include "lib/shard/changes.h"

/* Records that are looked up together. */
#define STREAM_BATCH 64u

/* Keys shipped lately, by hash. */
#define STREAM_COVERED 4096u

enum stream_state {
    STREAM_IDLE,    /* nothing more to read, or a flush is on its way to some shards */
    STREAM_GOES_ON, /* there may be more */
    STREAM_OVERRUN, /* records were lost: begin anew */
    STREAM_FLUSHED, /* a flush was half done when the stream began: start again */
    STREAM_REFUSED, /* rest() wanted no more */
};

struct stream {
    struct engine *engine;     /* [borrowed] */
    struct stream_ring *rings; /* one for each shard that there may be */
    uint32_t ring_count;       /* those that are read: further shards' are taken up */
    uint64_t later_id;         /* the newest delayed flush that was shipped */
    uint64_t prefix_id;        /* the newest flush of a prefix, likewise */
    uint64_t flushed_before; /* the newest flush command that any shard knew at the beginning */
    struct stream_covered *covered;
    struct stream_batch *batch;
    bool records_expiries; /* see stream_record_expiries() */
    /* [atomic] for whoever watches */
    _Atomic uint64_t records; /* read */
    _Atomic uint64_t shipped; /* of them: a state, or an absence */
    _Atomic uint64_t read; /* sum of the positions, after what was read was shipped (release) */
};

/*
 * Have every shard write records from now on; if another stream has them do so already, its
 * rings serve both. In all they have config.ring_bytes of the engine; if that is 0, a
 * thirty-second of the limit when the first stream begins, but at least 2 MiB and at most
 * 16 MiB. MF_ENOMEM. Context: registered thread, outside a section and a shard; the stream
 * stays on it.
 */
enum mf_err stream_begin(struct stream *st, struct engine *e);

/*
 * Forget what was not read: go on with what is written from now on. A flush that is due is
 * carried out first. Context: as above.
 */
void stream_skip(struct stream *st);

/*
 * Ship up to STREAM_BATCH records of each ring. walk: one that goes on, or NULL. Context: as
 * above.
 */
enum stream_state stream_slice(struct stream *st, struct ship *ship, const struct walk *walk);

/*
 * Instead of stream_slice(), where no walk goes on: ship all that was written before the call.
 * STREAM_IDLE: that was done. STREAM_GOES_ON: a flush is not in all rings yet, or there is
 * more behind one. Context: as above.
 */
enum stream_state stream_pass(struct stream *st, struct ship *ship);

/*
 * Instead of both: hand out the keys of up to `max` records of each ring, without a
 * look at what became of them; flushes are passed over. STREAM_IDLE: of all that was written
 * before the call. STREAM_GOES_ON: not yet. Context: as above, and so is that of fn.
 */
typedef void (*stream_key_fn)(void *arg, const char *key, size_t key_len);
enum stream_state stream_keys(struct stream *st, unsigned max, stream_key_fn fn, void *arg);

/*
 * Have the shards write a record of each item that expires, as they do from stream_begin() on,
 * or not; they do as long as any stream wants that. The records of a mass of deaths may be more
 * than the rings hold. Context: as above.
 */
void stream_record_expiries(struct stream *st, bool records);

/*
 * Number of items that expired without a record, so far; any time that the clock shows after
 * the call is later than their deadlines. Context: any thread, until stream_end().
 */
uint64_t stream_expired(const struct stream *st);

/*
 * A time up to which nothing due is left in any shard: see shard_due_gone(). What is read from
 * the rings after the call has all that was made of these items before. Context: as above,
 * outside a section and a shard.
 */
msec_t stream_due_gone(const struct stream *st, msec_t now);

/* Records that were read so far. Context: any thread. */
static inline uint64_t stream_records(const struct stream *st)
{
    return atomic_load_explicit(&st->records, memory_order_relaxed);
}

/*
 * How much of the fullest ring is not read yet, in parts of STREAM_FULL; more: it has lost
 * records. Context: the thread of the stream, also within callbacks.
 */
#define STREAM_FULL 256u
uint64_t stream_fullness(const struct stream *st);

/*
 * Note what is written by now; has all that was written then been read, and shipped by the
 * slice that read it? Not together with stream_pass(). Context: as above.
 */
void stream_note_written(struct stream *st);
bool stream_has_noted(const struct stream *st);

/* Does a ring wait for others, until a flush is read in all of them? Context: as above. */
bool stream_is_held(const struct stream *st);

/*
 * Bytes of records that are not shipped yet. 0: what was changed before the call has been
 * shipped, unless a walk goes on. Context: any thread, until stream_end().
 */
uint64_t stream_lag(const struct stream *st);

/* The last stream to end has the shards write no more. Context: as above. */
void stream_end(struct stream *st);

#endif
