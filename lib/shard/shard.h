/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard from the inside: its lock, its index, its item memory, its deadlines, its counters.
 * Included by the files of the storage engine and by tests only; the daemon knows engine.h.
 *
 * The parts: arena (segments), blocks (making and killing blocks), chunks (large values),
 * cursor (clean and evict), table (index), wheel (deadlines), ghost.
 */
#ifndef MAYFLY_LIB_SHARD_SHARD_H
#define MAYFLY_LIB_SHARD_SHARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/counters.h"
#include "lib/base/lock.h"
#include "lib/engine/engine.h"
#include "lib/expiry/cycle.h"
#include "lib/expiry/lag.h"
#include "lib/expiry/wheel.h"
#include "lib/index/table.h"
#include "lib/memory/arena.h"
#include "lib/memory/ghost.h"

/* Holes are listed by exact size in units. */
#define HOLE_SIZES (ITEM_SIZE_MAX + 1)
#define HOLE_WORDS (HOLE_SIZES / 64)

/* Sealed segments stand in bins by their dead share. */
#define DEAD_BINS_LOG2 4u
#define DEAD_BINS      (1u << DEAD_BINS_LOG2)
#define NO_BIN         0xff /* open, or under the cursor */

/* Blocks smaller than this are not worth splitting off a hole. */
#define SPLIT_MIN_UNITS 8u

/* One generation of segments, oldest first. */
struct chain {
    segment_t head, tail;
    uint32_t count;
    uint64_t bytes;    /* live bytes, whole segments of large values included */
    segment_t open;    /* where new blocks go */
    segment_t compact; /* where the cleaner's survivors go */
};

struct holes {
    handle_t head[HOLE_SIZES];
    uint64_t words[HOLE_WORDS]; /* bit: that size has a hole */
    uint32_t summary;           /* bit: that word is not zero */
};

/* A dead block that may become a hole when its grace period is over. */
struct death {
    handle_t handle;
    uint32_t generation; /* of its segment at death */
    uint32_t stamp;
    uint32_t units;
};

struct blocks {
    /* [lock] */
    struct chain chain[CHAINS];
    struct holes *holes; /* [CHAINS] */
    struct death *ring;
    uint32_t ring_mask;
    uint32_t ring_head, ring_tail; /* taken at head, put at tail; free-running */
    uint64_t dead_bytes;           /* in open and sealed segments, tails included */
    uint64_t hole_bytes;           /* the part of it that is listed */
    segment_t bin[DEAD_BINS];
    uint32_t bin_bits;
    /* of dead_bytes: what waits in the ring, soon of use again */
    uint64_t ring_bytes;
    uint64_t put_peak;      /* largest put_per_grace lately; the trimmer halves it */
    uint64_t put_bytes;     /* ever put */
    uint64_t put_mark;      /* put_bytes when the last grace period ended */
    uint64_t put_per_grace; /* put during the last whole one */
    uint32_t put_completed; /* its number */
    uint32_t want;          /* room_wanted() as of then */
};

enum cursor_mode { CURSOR_CLEAN, CURSOR_EVICT };

struct cursor {
    /* [lock] */
    segment_t segment; /* 0: none chosen */
    uint32_t offset;
    uint32_t ahead; /* offset up to which buckets were prefetched */
    enum cursor_mode mode;
    uint64_t kept, scanned; /* of an eviction pass over main */
};

struct shard {
    /* [const] */
    uint32_t magic;
    uint32_t id;
    struct engine *engine;
    uint64_t seed;
    bool evictions;
    uint32_t block_max_units; /* larger blocks are cut */
    uint32_t piece_max;       /* bytes of value in a piece */
    uint64_t items_at_start;  /* what a fresh index is made for */

    /* [rcu] read by anyone, written under the lock */
    struct table table;

    /* [atomic] */
    _Atomic msec_t flush_at;   /* everything here is flushed from then on; MSEC_NEVER */
    _Atomic bool wants_work;   /* see shard_note_work() */
    _Atomic bool wants_memory; /* an index or ghost is to be made, outside the lock */
    _Atomic bool is_held;      /* the sampler is held */
    _Atomic msec_t next_due;   /* hint of wheel_next() after the last change */
    _Atomic double stale_pct, avg_ttl_ms; /* estimates of the cycle, for statistics */

    struct lock lock MF_LINE_ALIGNED;

    /* [lock] */
    struct arena arena;
    struct blocks blocks;
    struct cursor cursor;
    struct ghost ghost;
    struct wheel *wheel;
    uint64_t epoch;           /* generations so far */
    uint64_t flush_id;        /* the flush command that set flush_at */
    uint64_t flush_done;      /* the newest that was carried out */
    struct generation *spare; /* empty ones: never fewer than flushes that are scheduled */
    uint64_t cas_next, cas_end;
    uint64_t cas_version; /* of the routing table for which the block was drawn */
    uint64_t large_items;
    uint64_t large_with_segments;        /* those of them that have whole segments */
    uint32_t table_stamp;                /* grace number that a resize waits for */
    struct table_retiree *table_retiree; /* made with a resize, used when it ends */
    bool ghost_wanted;
    struct lag lag;

    /* [home] */
    struct cycle cycle;

    /* [reclaimer] */
    msec_t trim_looked;
    uint64_t reclaim_seen; /* put_bytes when the hook last came by */

    /* [atomic] written inside the lock, read by anyone */
    struct counters counters MF_LINE_ALIGNED;
};

#define SHARD_MAGIC 0x6d665344u

/* Make and release. Context: before start / main, after the workers and the reclaimer. */
struct shard *shard_create(struct engine *e, uint32_t id);
void shard_destroy(struct shard **s);

/* The shard's lock. Context: any thread, no other shard held but as router.h says. */
static inline void shard_enter(struct shard *s)
{
    lock_take(&s->lock);
}

static inline bool shard_try_enter(struct shard *s)
{
    return lock_try(&s->lock);
}

static inline void shard_leave(struct shard *s)
{
    lock_give(&s->lock);
}

static inline struct item *shard_item(const struct shard *s, handle_t h)
{
    return arena_item(&s->arena, h);
}

static inline uint64_t shard_hash(const struct shard *s, const struct item *it)
{
    return hash_key(s->seed, item_key(it), it->key_len);
}

/* The rest of shard_observe(). */
void shard_tell(struct shard *s, const struct item *it, enum engine_event_kind kind,
                msec_t now);

/*
 * Tell the observer of an item that is about to be unlinked; a load when nobody wants to know.
 * Context: in shard.
 */
static inline void shard_observe(struct shard *s, const struct item *it,
                                 enum engine_event_kind kind, msec_t now)
{
    if (MF_UNLIKELY(atomic_load_explicit(&s->engine->observed, memory_order_acquire) != 0)) {
        shard_tell(s, it, kind, now);
    }
}

/* ---- blocks.c ---------------------------------------------------------------------------- */

bool blocks_init(struct shard *s, uint64_t share_bytes);
void blocks_fini(struct shard *s);
/* Forget every hole and death: a flush. */
void blocks_reset(struct shard *s);

/*
 * Who draws a segment: a put leaves ROOM_RESERVE; a pressed put and the cursor may overdraw and
 * take the last.
 */
enum draw { DRAW_PUT, DRAW_PRESSED, DRAW_CURSOR };

/*
 * A block of at least *units in a chain: a hole or the end of the open segment; *units is what
 * was taken. 0 when a new segment is needed and none can be had. Context: in shard.
 */
handle_t blocks_put(struct shard *s, enum chain_id chain, uint32_t *units, enum draw draw);

/*
 * The same, always at the end: of the open segment, or (after != 0) of the compaction segment
 * that follows `after`. Context: in shard.
 */
handle_t blocks_append(struct shard *s, enum chain_id chain, uint32_t units, segment_t after,
                       enum draw draw);

enum block_death { DEATH_REUSE, DEATH_FORGET };

/*
 * A linked block, a piece or a loose block dies: marked, counted; with DEATH_REUSE it becomes a
 * hole later. Context: in shard.
 */
void blocks_kill(struct shard *s, handle_t h, enum block_death death);

/* Turn up to max deaths whose grace period is over into holes. Context: in shard. */
void blocks_ripen(struct shard *s, unsigned max);

/*
 * The cursor begins with a segment: it leaves its bin, so that it is not chosen again. Context:
 * in shard.
 */
void blocks_claim(struct shard *s, segment_t n);

/* Take a hole off its list: the cursor passes over it. */
void blocks_unlist(struct shard *s, handle_t h);

/* The neighbours of a hole in the list of its size; 0: none. Context: in shard. */
static inline handle_t hole_next(const struct item *it)
{
    return (handle_t)it->cas;
}

static inline handle_t hole_prev(const struct item *it)
{
    return (handle_t)(it->cas >> 32);
}

/* The bin for a sealed segment with so many dead bytes. Context: in shard. */
static inline unsigned bin_for(const struct shard *s, const struct segment *g)
{
    unsigned bin = (unsigned)(((uint64_t)g->dead * DEAD_BINS) >> s->arena.shift);

    return bin < DEAD_BINS ? bin : DEAD_BINS - 1;
}

/* Take a segment out of its chain and bin; seal an open one. */
void blocks_detach(struct shard *s, segment_t g);
void blocks_seal(struct shard *s, segment_t g);

/* ---- chunks.c: large values -------------------------------------------------------------- */

#define PIECES_MAX 15u

/* Stands in a large item instead of its value, 4-aligned. */
struct large {
    segment_t first, last; /* [const] whole segments, joined by next; 0 when there are none */
    uint32_t segments;     /* [const] */
    uint32_t pieces;       /* [const] */
    _Atomic handle_t
        piece[PIECES_MAX]; /* [rcu] patched when a piece moves; only `pieces` of them exist */
};

#define LARGE_BYTES(pieces) (16u + 4u * (pieces))

static inline struct large *item_large(const struct item *it)
{
    uintptr_t p = (uintptr_t)item_value(it);

    return (struct large *)((p + 3) & ~(uintptr_t)3);
}

/* How a value is cut: whole segments, then pieces. */
struct cut {
    uint32_t segments;
    uint32_t pieces;
    uint32_t tail; /* bytes in pieces */
};
void chunks_cut(const struct shard *s, size_t len, struct cut *out);

enum death_reason { DEATH_EXPIRE, DEATH_EVICT, DEATH_OVERWRITE, DEATH_DELETE };

/*
 * Kill the pieces and retire the segments of a large item that was unlinked. Context: in shard.
 */
void chunks_kill(struct shard *s, const struct item *it, enum death_reason reason);

/* The head or a piece was copied to another place: patch the other side. Context: in shard. */
void chunks_head_moved(struct shard *s, handle_t to);
void chunks_piece_moved(struct shard *s, handle_t to);

/* ---- cursor.c ---------------------------------------------------------------------------- */

/*
 * Run the cursor for about `work` units. False when there was nothing it could do. Context: in
 * shard.
 */
bool cursor_slice(struct shard *s, int64_t work, msec_t now);

/*
 * The same until so many segments more than the shard wants for itself are free or waiting.
 * Context: in shard.
 */
bool cursor_slice_beyond(struct shard *s, int64_t work, msec_t now, uint32_t segments);

/*
 * The same when room is not short: cleans segments that are half dead or more, so that memory
 * goes back after a mass death, and evicts nothing. Context: in shard.
 */
bool cursor_tidy(struct shard *s, int64_t work, msec_t now);

/*
 * Is there a segment for cursor_tidy()? When a quarter of what is held is dead for longer than
 * the ring: what waits there is about to be used again. Context: in shard.
 */
static inline bool cursor_wants_tidy(const struct shard *s)
{
    return s->blocks.bin_bits >> (DEAD_BINS / 2) != 0 &&
           (s->blocks.dead_bytes - s->blocks.ring_bytes) * 4 > (uint64_t)s->arena.held
                                                                   << s->arena.shift;
}

/* ---- room.c ------------------------------------------------------------------------------ */

/* Segments that only the cursor may use, so that it can always go on. */
#define ROOM_RESERVE 2u

/* Segments to keep free, or on the way to be. Context: in shard. */
uint32_t room_wanted(const struct shard *s);

/*
 * What may be drawn beyond the limit while everything waits for a grace period, bytes. Context:
 * any thread.
 */
int64_t room_overdraw(const struct shard *s);

/*
 * Segments, or other memory of as many bytes, that only a grace period keeps. Context: in
 * shard.
 */
uint32_t room_waiting(const struct shard *s);

/* Is room short, so that the cursor should run? Context: in shard. */
bool room_is_short(const struct shard *s);

/*
 * A grace period has ended since the last put: release what is over, measure anew. Context: in
 * shard.
 */
void room_grace_ended(struct shard *s);

/* The rest of room_make(): bounded work of the cursor. Context: in shard. */
void room_make_slowly(struct shard *s, uint64_t bytes, msec_t now);

/*
 * Before a put of `bytes`: release what is over, and run the cursor while room is short.
 * Bounded work; a few loads when there is plenty. Context: in shard.
 */
static inline void room_make(struct shard *s, uint64_t bytes, msec_t now)
{
    const struct arena *a = &s->arena;
    uint32_t completed = atomic_load_explicit(&a->grace->completed, memory_order_acquire);
    int64_t left = budget_left(a->budget) >> a->shift;

    if (MF_UNLIKELY(completed != s->blocks.put_completed)) {
        room_grace_ended(s);
    }
    if (MF_UNLIKELY(left < 0 || (int64_t)a->free_count + left <= (int64_t)s->blocks.want)) {
        room_make_slowly(s, bytes, now);
    }
}

/*
 * A put found no room: OUT_OK when it may be tried again with DRAW_PRESSED, OUT_WAIT when only
 * a grace period can help (it is hurried), OUT_NO_MEMORY when nothing can. Context: in shard.
 */
enum outcome room_pressed(struct shard *s, msec_t now);

/*
 * Take a whole segment for a large value, with one bounded slice of the cursor. OUT_OK;
 * OUT_MISS: none yet, call again after leaving the shard; OUT_WAIT, OUT_NO_MEMORY as above.
 * Context: in shard.
 */
enum outcome room_take_whole(struct shard *s, msec_t now, segment_t *out);

/*
 * Give the pages of up to `want` free segments back to the system, and their bytes to the
 * budget. Returns how many there were. Context: outside a shard.
 */
uint32_t room_give_back(struct shard *s, uint32_t want);

/* Release from every queue what is over, and count it. Context: in shard. */
void room_release(struct shard *s);

/* Bytes of one shard's share of the limit. Context: any thread. */
uint64_t room_share(const struct shard *s);

/* ---- keyspace.c: items ------------------------------------------------------------------- */

/*
 * A filled block becomes the item of its key, which is absent. There must be room
 * (store_reserve). Context: in shard.
 */
void keyspace_insert(struct shard *s, uint64_t hash, handle_t h);

/* A filled block takes the place of the item in a slot, which dies. Context: in shard. */
void keyspace_replace(struct shard *s, handle_t h, _Atomic handle_t *slot,
                      enum death_reason reason);

/* Unlink the item in a slot and kill its block. Context: in shard. */
void keyspace_unlink(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                     enum death_reason reason);

/* Draw another block of CAS values. Context: in shard. */
void shard_draw_cas(struct shard *s);

/* Draw the next CAS value; unique in the process. Context: in shard. */
static inline uint64_t shard_next_cas(struct shard *s)
{
    if (MF_UNLIKELY(s->cas_next == s->cas_end)) {
        shard_draw_cas(s);
    }
    return s->cas_next++;
}

/* Units of a block with this key and so many bytes behind it. Context: any thread. */
static inline uint32_t keyspace_units(size_t key_len, size_t value_bytes, bool has_ttl)
{
    size_t n = sizeof(struct item) + (has_ttl ? ITEM_TTL_BYTES : 0) + key_len + value_bytes;

    return (uint32_t)((n + ITEM_UNIT - 1) / ITEM_UNIT);
}

/*
 * Fill a fresh block's header and key; it is not linked and not in the wheel yet. Context: in
 * shard.
 */
static inline struct item *keyspace_fill(struct shard *s, handle_t h, uint32_t units,
                                         struct span key, uint32_t flags, msec_t deadline,
                                         bool has_ttl, uint32_t value_len, msec_t now)
{
    struct item *it = shard_item(s, h);
    char *p = (char *)(it + 1);

    it->cas = shard_next_cas(s);
    it->client_flags = flags;
    it->value_len = value_len;
    it->key_len = (uint8_t)key.len;
    atomic_store_explicit(&it->access_s, (uint32_t)((uint64_t)now / 1000),
                          memory_order_relaxed);
    atomic_store_explicit(&it->heat, 0, memory_order_relaxed);
    atomic_store_explicit(&it->shape, (uint16_t)(units | (has_ttl ? SHAPE_TTL : 0)),
                          memory_order_relaxed);
    if (has_ttl) {
        struct item_ttl *t = item_ttl(it);

        atomic_store_explicit(&t->deadline, deadline, memory_order_relaxed);
        atomic_store_explicit(&t->wheel_pos, 0, memory_order_relaxed);
        p += ITEM_TTL_BYTES;
    }
    span_copy_short(p, key.ptr, key.len);
    return it;
}

/*
 * Carry on a resize of the index by so many old buckets. True when more is to be done. Context:
 * in shard.
 */
bool shard_resize_step(struct shard *s, uint64_t buckets);

/*
 * Look whether resize, ghost or budget want work, and raise the flags that say so. Context: in
 * shard.
 */
void shard_note_work(struct shard *s);

/*
 * Keep the hint of when the sampler has work; after every change of the wheel. Context: in
 * shard.
 */
void shard_note_due(struct shard *s);
void shard_note_added(struct shard *s, msec_t deadline);

/*
 * The same for a deadline that came where another was, in its bucket: the hint may lie amid the
 * bucket, behind a deadline that came nearer. Context: in shard.
 */
static inline void shard_note_changed(struct shard *s, msec_t deadline)
{
    if (MF_UNLIKELY(deadline < atomic_load_explicit(&s->next_due, memory_order_relaxed))) {
        shard_note_due(s);
    }
}

/* Make an index or a ghost that is wanted. Context: outside the shard. */
void shard_make_wanted(struct shard *s);

/* Old buckets moved by each writer that comes by while the index is resized. */
#define RESIZE_STEP_BUCKETS 2

/*
 * What a writer does before and after it leaves; cheap when nothing is due. Context: in shard /
 * outside.
 */
static inline void shard_before_leave(struct shard *s)
{
    if (MF_UNLIKELY(s->table.phase != TABLE_STEADY)) {
        shard_resize_step(s, RESIZE_STEP_BUCKETS);
    }
}

static inline void shard_after_leave(struct shard *s)
{
    if (MF_UNLIKELY(atomic_load_explicit(&s->wants_memory, memory_order_relaxed))) {
        shard_make_wanted(s);
    }
}

/* ---- shard_flush.c ----------------------------------------------------------------------- */

/*
 * Make what the next flush swaps in, before it is scheduled. False when the system has no
 * memory. Context: outside the shard, in engine_flush().
 */
bool shard_flush_prepare(struct shard *s);

/*
 * Carry out the flush whose instant (flush_at) has come; nothing when it has not. Cannot fail.
 * Context: outside the shard.
 */
void shard_flush(struct shard *s, msec_t now);

/*
 * A flush command is through: give back what it prepared and did not need, but for one, which
 * the next command will want. Context: outside the shard, in engine_flush().
 */
void shard_flush_settle(struct shard *s);

/* Release all that is prepared. Context: the shard is being destroyed. */
void shard_flush_fini(struct shard *s);

/* Background hook of one shard. Context: reclaimer. Returns as reclaim_hook_fn. */
uint64_t shard_reclaim(struct shard *s);

#endif
