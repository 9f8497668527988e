/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of changes of an engine, for one sink: the records of all shards' rings
 * (lib/shard/changes.h), each shipped as the present state of its key. Together with a walk
 * that begins after the stream, it keeps a copy up to date. No slot may move between the two:
 * see feed.c.
 *
 *     put, meta, drop    the key is looked up and shipped, or dropped if it is absent
 *     flush              shipped when it was read in every ring, after all earlier records
 *     prefix             shipped when it was read in any ring
 *
 * A record is skipped if the walk will still visit its key, unless the key is gone, or if the
 * key was shipped after the record was written. So a key that changes often is shipped once for
 * all its waiting records.
 */
#ifndef MAYFLY_LIB_SHIP_STREAM_H
#define MAYFLY_LIB_SHIP_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/engine/engine.h"
#include "lib/shard/changes.h"
#include "lib/ship/ship.h"
#include "lib/ship/walk.h"

/* Records that are looked up together. */
#define STREAM_BATCH 256u

/* Size of the table of recently shipped keys, by hash. */
#define STREAM_COVERED 4096u

enum stream_state {
    STREAM_IDLE,    /* nothing more to read, or a flush is on its way to some shards */
    STREAM_GOES_ON, /* there may be more */
    STREAM_OVERRUN, /* records were lost: restart */
    STREAM_FLUSHED, /* a flush was half done when the stream began: restart */
    STREAM_REFUSED, /* rest() returned false */
};

struct stream {
    struct engine *engine;     /* [borrowed] */
    struct stream_ring *rings; /* one for each shard that there may be */
    uint32_t ring_count;       /* rings being read; grows with the shards of the engine */
    uint64_t later_id;         /* the newest delayed flush that was shipped */
    uint64_t prefix_id;        /* the newest flush of a prefix, likewise */
    uint64_t flushed_before; /* the newest flush command that any shard knew at the beginning */
    struct stream_covered *covered;
    struct stream_batch *batch;
    bool records_expiries; /* see stream_record_expiries() */
    /* [atomic] progress, for other threads */
    _Atomic uint64_t records; /* read */
    _Atomic uint64_t shipped; /* of them, shipped as a state or an absence */
    _Atomic uint64_t read; /* sum of the positions up to which records are shipped (release) */
};

/*
 * Start recording changes in every shard. If another stream has started that already, both use
 * the same rings. All rings together have config.ring_bytes of the engine. If that is 0, they
 * have 1/32 of the limit when the first stream begins, at least 2 MiB and at most 16 MiB.
 * MF_ENOMEM. Context: registered thread, outside a section and a shard; the stream stays on it.
 */
enum mf_err stream_begin(struct stream *st, struct engine *e);

/*
 * Skip all unread records, and continue with those written from now on. A due flush is carried
 * out first. Context: as above.
 */
void stream_skip(struct stream *st);

/*
 * Ship up to STREAM_BATCH records of each ring. walk: one in progress, or NULL. Context: as
 * above.
 */
enum stream_state stream_slice(struct stream *st, struct ship *ship, const struct walk *walk);

/*
 * Instead of stream_slice(), without a walk: ship all records written before the call.
 * STREAM_IDLE: all were shipped. STREAM_GOES_ON: a flush is not in all rings yet, or records
 * follow one. Context: as above.
 */
enum stream_state stream_pass(struct stream *st, struct ship *ship);

/*
 * Instead of both: pass the keys of up to `max` records of each ring to fn, without looking up
 * their items; flushes are skipped. STREAM_IDLE: all keys written before the call were passed.
 * STREAM_GOES_ON: there are more. Context: as above, and so is that of fn.
 */
typedef void (*stream_key_fn)(void *arg, const char *key, size_t key_len);
enum stream_state stream_keys(struct stream *st, unsigned max, stream_key_fn fn, void *arg);

/*
 * Switch on or off that the shards write a record of each expired item; it is on after
 * stream_begin(). They write them while any stream wants them. The records of mass expiry may
 * exceed the rings. Context: as above.
 */
void stream_record_expiries(struct stream *st, bool records);

/*
 * Number of items that expired without a record. Any time that the clock shows after the call
 * is later than their deadlines. Context: any thread, until stream_end().
 */
uint64_t stream_expired(const struct stream *st);

/*
 * A time up to which nothing due is left in any shard: see shard_due_gone(). Records of changes
 * to these items are all in the rings when this returns. Context: as above, outside a section
 * and a shard.
 */
msec_t stream_due_gone(const struct stream *st, msec_t now);

/* Number of records read. Context: any thread. */
static inline uint64_t stream_records(const struct stream *st)
{
    return atomic_load_explicit(&st->records, memory_order_relaxed);
}

/*
 * The unread part of the fullest ring, as a fraction of STREAM_FULL; larger: records were lost.
 * Context: the thread of the stream, also within callbacks.
 */
#define STREAM_FULL 256u
uint64_t stream_fullness(const struct stream *st);

/*
 * stream_note_written() notes the present ends of the rings. stream_has_noted(): was everything
 * up to there read and shipped? Not together with stream_pass(). Context: as above.
 */
void stream_note_written(struct stream *st);
bool stream_has_noted(const struct stream *st);

/* Does a ring wait for others, until a flush is read in all of them? Context: as above. */
bool stream_is_held(const struct stream *st);

/*
 * Bytes of unshipped records. 0: all changes made before the call have been shipped, unless a
 * walk is in progress. Context: any thread, until stream_end().
 */
uint64_t stream_lag(const struct stream *st);

/* The last stream to end stops the recording. Context: as above. */
void stream_end(struct stream *st);

#endif
