/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of changes: see stream.h.
 *
 * Flushes. Each shard carries out a flush command by itself and writes a record with the number
 * of the command. Reading a ring stops at such a record until all other rings have reached one
 * with that number or a higher one, or will have none (because a pending flush has replaced the
 * command). Then the flush is shipped once, and reading continues. Numbers increase in each
 * ring.
 *
 * New shards (lib/engine/grow.h). Their rings are added when a slice begins, and before a flush
 * counts as read everywhere. A new ring has no record of the flushes that were done when it was
 * made, but other rings may still have unread ones. So the new ring is not read until all of
 * these are shipped. Otherwise they would remove what was stored in the new shard since. The
 * same holds for flushes of a prefix.
 */
#include "lib/ship/stream.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/engine/prefix.h"
#include "lib/engine/rings.h"
#include "lib/index/table_inline.h"
#include "lib/shard/expire.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"

/* Distance at which records of keys are prefetched, and the bytes prefetched of each item. */
#define PREFETCH_BYTES      512u
#define PREFETCH_ITEM_BYTES 512u

#define KEYS_BATCH 64u /* keys that are copied out together */
#define LOOKUP_LAG 8u  /* records between two steps of a lookup */

struct stream_ring {
    const struct changes *changes; /* [borrowed] until stream_end() */
    uint64_t pos;                  /* shipped up to there: what follows is still needed */
    uint64_t until;                /* the end of this pass; or the position that was noted */
    uint64_t passed;               /* the newest flush command that is over in this ring */
    uint64_t held_at;              /* the flush command of the next record; 0: none */
    uint64_t opens_at; /* not read until all rings have reached this command: see may_read() */
    uint64_t opens_at_prefix; /* nor before this flush of a prefix was read */
};

/* 16 bytes, so that none is in two cache lines. */
struct stream_covered {
    uint64_t key; /* its hash, plus the number of the ring */
    uint64_t pos; /* records of this key before that position need not be shipped */
};

/* A record of a key. It is read in place, so all of it may be overwritten: see changes.h. */
struct stream_record {
    uint64_t pos;
    uint64_t hash;
    uint8_t key_len;
    uint8_t kind;
    /* as found in the present section */
    const struct item *item; /* NULL: not found at first sight */
    const struct shard *shard;
};

struct stream_batch {
    unsigned n;
    uint64_t end; /* of the batch in the ring: the ring's `pos` once the batch is shipped */
    struct stream_record record[STREAM_BATCH];
    struct change change[KEYS_BATCH]; /* copies of records; only stream_keys() has several */
};

/* Counters of the stream's thread. */
static void count(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, before + n, memory_order_relaxed);
}

/* ---- rings ------------------------------------------------------------------------------- */

/* Publish the progress for observers. */
static void note_read(struct stream *st)
{
    uint64_t read = 0;

    for (uint32_t i = 0; i < st->ring_count; i++) {
        read += st->rings[i].pos;
    }
    atomic_store_explicit(&st->read, read, memory_order_release);
}

/* Add the rings of new shards: all their records were written since the shards were made. */
static void take_up_rings(struct stream *st)
{
    const uint32_t count = st->engine->shard_count;

    while (st->ring_count < count) {
        const struct changes *c = st->engine->shards[st->ring_count]->changes;

        st->rings[st->ring_count] = (struct stream_ring){.changes = c,
                                                         .passed = c->flushed_before,
                                                         .opens_at = c->flushed_before,
                                                         .opens_at_prefix = c->prefix_before};
        st->ring_count++;
    }
}

/* May this ring be read? See "New shards" above. */
static bool may_read(struct stream *st, struct stream_ring *r)
{
    for (uint32_t i = 0; r->opens_at != 0 && i < st->ring_count; i++) {
        const struct stream_ring *other = &st->rings[i];

        if (other->passed < r->opens_at && other->held_at <= r->opens_at) {
            return false;
        }
    }
    r->opens_at = 0;
    return r->opens_at_prefix <= st->prefix_id;
}

static void stream_release(struct stream *st)
{
    mem_free(st->rings);
    mem_free(st->covered);
    mem_free(st->batch);
    *st = (struct stream){0};
}

enum mf_err stream_begin(struct stream *st, struct engine *e)
{
    must_not_be_reading();
    *st = (struct stream){.engine = e};
    st->rings = mem_zalloc(e->shard_capacity * sizeof(*st->rings));
    st->covered = mem_zalloc(STREAM_COVERED * sizeof(*st->covered));
    st->batch = mem_zalloc(sizeof(*st->batch));
    if (st->rings == NULL || st->covered == NULL || st->batch == NULL || !rings_use(e)) {
        stream_release(st);
        return MF_ENOMEM;
    }
    stream_record_expiries(st, true);
    stream_skip(st);
    return MF_OK;
}

void stream_skip(struct stream *st)
{
    must_not_be_reading();
    take_up_rings(st);
    for (uint32_t i = 0; i < st->ring_count; i++) {
        shard_flush(st->engine->shards[i], clock_now(&st->engine->clock));
    }
    /* No flush of a prefix is incomplete: records read from now on are of later flushes. */
    pthread_mutex_lock(&st->engine->flush_lock);
    st->flushed_before = 0;
    for (uint32_t i = 0; i < st->ring_count; i++) {
        struct shard *s = st->engine->shards[i];

        shard_enter(s);
        st->rings[i].pos = changes_published(s->changes);
        st->rings[i].passed = shard_flushes_over(s);
        st->rings[i].held_at = 0;
        st->rings[i].opens_at = 0;
        st->rings[i].opens_at_prefix = 0;
        shard_leave(s);
        if (st->flushed_before < st->rings[i].passed) {
            st->flushed_before = st->rings[i].passed;
        }
    }
    st->prefix_id = engine_prefix_newest(st->engine);
    pthread_mutex_unlock(&st->engine->flush_lock);
    memset(st->covered, 0, STREAM_COVERED * sizeof(*st->covered));
    note_read(st);
}

void stream_end(struct stream *st)
{
    must_not_be_reading();
    stream_record_expiries(st, false);
    rings_leave(st->engine);
    stream_release(st);
}

/* ---- expiry ------------------------------------------------------------------------------ */

void stream_record_expiries(struct stream *st, bool records)
{
    must_not_be_reading();
    if (records == st->records_expiries) {
        return;
    }
    st->records_expiries = records;
    rings_record_expiries(st->engine, records);
}

uint64_t stream_expired(const struct stream *st)
{
    uint64_t expired = 0;

    for (uint32_t i = 0; i < st->engine->shard_count; i++) {
        expired += changes_expired(st->engine->shards[i]->changes);
    }
    return expired;
}

msec_t stream_due_gone(const struct stream *st, msec_t now)
{
    msec_t gone = now;

    must_not_be_reading();
    for (uint32_t i = 0; i < st->engine->shard_count; i++) {
        struct shard *s = st->engine->shards[i];

        shard_enter(s);
        msec_t one = shard_due_gone(s, now);
        shard_leave(s);
        gone = one < gone ? one : gone;
    }
    return gone;
}

/* ---- flushes ----------------------------------------------------------------------------- */

/* The lowest number that a ring is held at; 0: none is. */
static uint64_t first_held(const struct stream *st)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < st->ring_count; i++) {
        uint64_t at = st->rings[i].held_at;

        if (at != 0 && (first == 0 || at < first)) {
            first = at;
        }
    }
    return first;
}

bool stream_is_held(const struct stream *st)
{
    return first_held(st) != 0;
}

/* Has every ring come to this command? Shards that are late are made to carry it out. */
static bool is_everywhere(struct stream *st, uint64_t id)
{
    bool is = true;

    for (uint32_t i = 0; i < st->ring_count; i++) {
        const struct stream_ring *r = &st->rings[i];

        if (r->held_at < id && r->passed < id) {
            shard_flush(st->engine->shards[i], clock_now(&st->engine->clock));
            is = false;
        }
    }
    return is;
}

/* Ship the flushes that are due. True if there was one. */
static bool pass_flushes(struct stream *st, struct ship *ship)
{
    uint64_t id = first_held(st);

    take_up_rings(st);
    if (id == 0 || !is_everywhere(st, id)) {
        return false;
    }
    ship->ops->flush(ship->arg);
    /* The flush also removes later states of keys that were shipped for records before it. */
    memset(st->covered, 0, STREAM_COVERED * sizeof(*st->covered));
    for (uint32_t i = 0; i < st->ring_count; i++) {
        struct stream_ring *r = &st->rings[i];

        if (r->held_at == id) {
            struct change c;

            r->held_at = 0;
            r->passed = id;
            /* Read already; if it was overwritten meanwhile, so was what follows. */
            (void)changes_get(r->changes, &r->pos, &c);
        }
    }
    return true;
}

/* A pending flush has replaced the flush commands before it. */
static void note_later(struct stream *st, struct stream_ring *r, const struct change *c,
                       struct ship *ship)
{
    if (r->passed < c->id - 1) {
        r->passed = c->id - 1;
    }
    if (st->later_id < c->id) {
        st->later_id = c->id;
        ship->ops->flush_later(ship->arg, c->at);
    }
}

/*
 * Each ring has a record of the command. The first record that is read ships it, when the
 * command has come into force in all shards: later lookups and walks see the state after it. A
 * key that was shipped earlier, but stored after the flush, has a later record in its ring, and
 * is shipped again.
 */
static void note_prefix(struct stream *st, const struct change *c, struct ship *ship)
{
    if (st->prefix_id < c->id) {
        st->prefix_id = c->id;
        pthread_mutex_lock(&st->engine->flush_lock); /* the command has it until then */
        pthread_mutex_unlock(&st->engine->flush_lock);
        ship->ops->flush_prefix(ship->arg, span_of(c->key, c->key_len));
        memset(st->covered, 0, STREAM_COVERED * sizeof(*st->covered));
    }
}

/* ---- one batch --------------------------------------------------------------------------- */

static struct stream_covered *covered_by(struct stream *st, uint64_t hash)
{
    return &st->covered[hash % STREAM_COVERED];
}

static bool is_covered(struct stream *st, uint32_t ring, const struct stream_record *rec)
{
    const struct stream_covered *c = covered_by(st, rec->hash);

    return c->key == rec->hash + ring && rec->pos < c->pos;
}

/*
 * Read a record that is not of a key. STREAM_IDLE; STREAM_OVERRUN: the ring has come around;
 * STREAM_FLUSHED.
 */
static MF_NOINLINE enum stream_state read_other(struct stream *st, struct stream_ring *r,
                                                struct ship *ship)
{
    struct stream_batch *b = st->batch;
    struct change *c = b->change;
    uint64_t pos = b->end;

    if (!changes_get(r->changes, &b->end, c)) {
        return STREAM_OVERRUN;
    }
    if (c->kind == CHANGE_FLUSH && c->id <= st->flushed_before) {
        return STREAM_FLUSHED; /* in another shard it was over when the stream began */
    }
    if (c->kind == CHANGE_FLUSH) {
        r->held_at = c->id;
        b->end = pos;
    } else if (c->kind == CHANGE_LATER) {
        note_later(st, r, c, ship);
    } else {
        note_prefix(st, c, ship);
    }
    count(&st->records, 1);
    return STREAM_IDLE;
}

/* Is all of it still in the ring? Else a position may be in the middle of another record. */
static bool is_batch_there(const struct stream *st, const struct stream_ring *r)
{
    return st->batch->n == 0 || changes_has(r->changes, st->batch->record[0].pos);
}

/* Read records up to `until`, or to a flush. Results: see read_other(). */
static enum stream_state read_batch(struct stream *st, struct stream_ring *r, uint64_t until,
                                    struct ship *ship)
{
    enum stream_state state = STREAM_IDLE;
    struct stream_batch *b = st->batch;

    b->n = 0;
    b->end = r->pos;
    while (b->n < STREAM_BATCH && b->end != until && r->held_at == 0 && state == STREAM_IDLE) {
        const struct change_head head = changes_head(r->changes, b->end);
        struct stream_record *rec = &b->record[b->n];

        if (MF_UNLIKELY(head.kind != CHANGE_PUT && head.kind != CHANGE_DROP)) {
            state = is_batch_there(st, r) ? read_other(st, r, ship) : STREAM_OVERRUN;
            continue;
        }
        rec->pos = b->end;
        rec->hash = head.id;
        rec->key_len = head.key_len;
        rec->kind = (uint8_t)head.kind;
        b->end += changes_bytes(head.key_len);
        b->n++;
    }
    count(&st->records, b->n);
    return is_batch_there(st, r) ? state : STREAM_OVERRUN;
}

/* The item of a key, unless it is flushed; *in: its shard. */
static MF_INLINE const struct item *find_in(const struct shard *s, uint64_t hash,
                                            const struct change *c, msec_t now,
                                            const struct shard **in)
{
    if (now >= atomic_load_explicit(&s->flush_at, memory_order_acquire)) {
        return NULL;
    }
    if (shard_hides(s, hash, c->key, c->key_len)) {
        return NULL;
    }
    const struct item *it =
        table_find(&s->table, s->memory.arena.base, hash, c->key, c->key_len);
    *in = s;
    return it;
}

/* Like engine_find(), but finds items past their deadline, too: see takes_due. */
static MF_INLINE const struct item *find(const struct route *rt, uint64_t hash,
                                         const struct change *c, msec_t now,
                                         const struct shard **in)
{
    const struct route_slot *rs = route_slot(rt, hash);
    const struct item *it = find_in(rt->shards[rs->from], hash, c, now, in);

    return it == NULL && route_is_moving(rs) ? find_in(rt->shards[rs->to], hash, c, now, in)
                                             : it;
}

/*
 * A lookup has three steps, each of which prefetches what the next one reads. `bytes` is the
 * length of the batch in the ring, and so the distance to the next one. Read side.
 */
static void prefetch_bucket(struct stream *st, const struct route *rt,
                            const struct changes *changes, uint64_t bytes,
                            struct stream_record *rec)
{
    changes_prefetch(changes, rec->pos + bytes);
    rec->shard = route_shard(rt, rec->hash);
    table_prefetch_bucket(&rec->shard->table, rec->hash);
    __builtin_prefetch(covered_by(st, rec->hash));
}

static void prefetch_item(struct stream_record *rec, msec_t now)
{
    const struct shard *s = rec->shard;

    rec->item = MF_LIKELY(now < atomic_load_explicit(&s->gate_at, memory_order_acquire))
                    ? table_prefetch_item(&s->table, s->memory.arena.base, rec->hash)
                    : NULL;
}

static void prefetch_value(struct stream_record *rec, const struct changes *changes)
{
    const struct item *it = rec->item;

    if (MF_UNLIKELY(it == NULL) || MF_UNLIKELY(it->key_len != rec->key_len) ||
        MF_UNLIKELY(!changes_key_is(changes, rec->pos, item_key(it), it->key_len))) {
        rec->item = NULL;
        return;
    }
    for (size_t bytes = item_bytes(it), at = 2 * MF_LINE_BYTES;
         at < bytes && at < PREFETCH_ITEM_BYTES; at += MF_LINE_BYTES) {
        __builtin_prefetch((const char *)it + at);
    }
}

/* Ship the absence of a key. That of an overwritten record is not known. */
static enum shipped ship_absent(struct stream *st, const struct changes *changes,
                                const struct stream_record *rec, struct ship *ship)
{
    struct change *c = st->batch->change;
    uint64_t pos = rec->pos;

    return changes_get(changes, &pos, c) ? ship_drop(ship, span_of(c->key, c->key_len))
                                         : SHIP_DONE;
}

/* Ship the present state of a key that was not found at first sight. Context: read side. */
static MF_NOINLINE enum shipped ship_searched(struct stream *st, const struct changes *changes,
                                              const struct stream_record *rec,
                                              struct ship *ship)
{
    enum shipped out = SHIP_GONE;
    uint64_t pos = rec->pos;

    if (!changes_get(changes, &pos, st->batch->change)) {
        return SHIP_DONE;
    }
    /* A block that only moved has no other record, so it is looked up again. */
    while (out == SHIP_GONE) {
        const struct shard *s;
        const struct item *it = find(router_read(&st->engine->router), rec->hash,
                                     st->batch->change, clock_now(&st->engine->clock), &s);

        out = it != NULL ? ship_put(ship, s, it) : SHIP_LEFT;
    }
    return out;
}

/* Ship the present state of a key of the batch. Context: read side. */
static enum shipped ship_change(struct stream *st, const struct changes *changes,
                                const struct stream_record *rec, struct ship *ship)
{
    const struct item *it = rec->item;
    enum shipped out = it != NULL ? ship_put(ship, rec->shard, it) : SHIP_GONE;

    if (MF_UNLIKELY(out == SHIP_GONE)) {
        out = ship_searched(st, changes, rec, ship);
    }
    /* If an item cannot be shipped, drop its key: the sink must not keep the old item. */
    return MF_UNLIKELY(out == SHIP_LEFT) ? ship_absent(st, changes, rec, ship) : out;
}

/* The sink has the present state of a key, so it needs no record of it before `until`. */
static void cover(struct stream *st, uint32_t ring, uint64_t until,
                  const struct stream_record *rec)
{
    *covered_by(st, rec->hash) = (struct stream_covered){rec->hash + ring, until};
}

/*
 * Ship a record of the batch, unless it is covered. The walk will visit keys that are present
 * now. It will not visit a key that is gone, though the key may have been shipped: by a record,
 * while a position was half done and counted as passed, or by the walk, at a position that is
 * restarted. Read side.
 */
static MF_INLINE enum shipped ship_record(struct stream *st, uint32_t ring, uint64_t until,
                                          const struct stream_record *rec, struct ship *ship,
                                          const struct walk *walk)
{
    const struct changes *changes = st->rings[ring].changes;

    if (is_covered(st, ring, rec)) {
        return SHIP_DONE;
    }
    if (walk != NULL && !walk_passed(walk, ring, rec->hash)) {
        return rec->kind == CHANGE_DROP ? ship_absent(st, changes, rec, ship) : SHIP_DONE;
    }
    enum shipped out = ship_change(st, changes, rec, ship);
    if (out != SHIP_FULL) {
        cover(st, ring, until, rec);
        count(&st->shipped, 1);
    }
    return out;
}

/*
 * Ship a part of the batch in one section. Returns SHIP_DONE at its end. The steps of a lookup
 * run `lag` records apart, so that cache misses overlap with each other and with the copying.
 */
static enum shipped ship_some(struct stream *st, uint32_t ring, uint64_t until, unsigned *at,
                              struct ship *ship, const struct walk *walk)
{
    const struct route *rt = router_read(&st->engine->router);
    const struct changes *changes = st->rings[ring].changes;
    const msec_t now = clock_now(&st->engine->clock);
    struct stream_record *const rec = st->batch->record + *at;
    const unsigned n = st->batch->n - *at;
    const unsigned lag = n < LOOKUP_LAG ? n : LOOKUP_LAG;
    const uint64_t bytes = st->batch->end - st->batch->record[0].pos;

    must_be_reading();
    for (unsigned i = 0; i < n + 3 * lag; i++) {
        if (i < n) {
            prefetch_bucket(st, rt, changes, bytes, &rec[i]);
        }
        /* Before the beginning these numbers are large. */
        if (i - lag < n) {
            prefetch_item(&rec[i - lag], now);
        }
        if (i - 2 * lag < n) {
            prefetch_value(&rec[i - 2 * lag], changes);
        }
        if (i - 3 * lag < n) {
            enum shipped out = ship_record(st, ring, until, &rec[i - 3 * lag], ship, walk);

            *at += out != SHIP_FULL;
            if (out != SHIP_DONE) {
                return out;
            }
        }
    }
    return SHIP_DONE;
}

/*
 * Read a batch of records up to `until`, and ship it. What is looked up from here on is at
 * least as new as all records up to `now`. STREAM_IDLE; STREAM_REFUSED: no more is wanted;
 * STREAM_OVERRUN: a record may have been overwritten before it was shipped; STREAM_FLUSHED. A
 * large value that was cut is looked up again: if its slot has moved, there is no other record.
 */
static enum stream_state ship_batch(struct stream *st, uint32_t ring, uint64_t until,
                                    uint64_t now, struct ship *ship, const struct walk *walk)
{
    const struct stream_batch *b = st->batch;
    struct stream_ring *r = &st->rings[ring];
    enum stream_state state = read_batch(st, r, until, ship);
    unsigned at = 0, again = 0;

    while (at < b->n && state == STREAM_IDLE) {
        rcu_begin();
        enum shipped out = ship_some(st, ring, now, &at, ship, walk);
        rcu_end();
        const uint64_t left_out = ship->left_out;
        if ((out == SHIP_LARGE && !ship_large(ship)) ||
            (out != SHIP_DONE && !ship_rest(ship))) {
            state = STREAM_REFUSED;
        }
        if (ship->left_out != left_out && at != again) {
            ship->left_out = left_out;
            again = at--;
            covered_by(st, b->record[at].hash)->pos = 0;
        }
    }
    r->pos = b->end;
    return state == STREAM_REFUSED || is_batch_there(st, r) ? state : STREAM_OVERRUN;
}

enum stream_state stream_slice(struct stream *st, struct ship *ship, const struct walk *walk)
{
    bool has_read = pass_flushes(st, ship);

    must_not_be_reading();
    for (uint32_t i = 0; i < st->ring_count; i++) {
        struct stream_ring *r = &st->rings[i];
        uint64_t until = changes_published(r->changes);

        if (r->pos == until || r->held_at != 0 || !may_read(st, r)) {
            continue;
        }
        enum stream_state state = ship_batch(st, i, until, until, ship, walk);
        if (state != STREAM_IDLE) {
            return state;
        }
        has_read = true;
    }
    note_read(st);
    if (has_read && !ship_rest(ship)) {
        return STREAM_REFUSED;
    }
    return has_read ? STREAM_GOES_ON : STREAM_IDLE;
}

void stream_note_written(struct stream *st)
{
    take_up_rings(st);
    for (uint32_t i = 0; i < st->ring_count; i++) {
        st->rings[i].until = changes_published(st->rings[i].changes);
    }
}

bool stream_has_noted(const struct stream *st)
{
    bool has = true;

    for (uint32_t i = 0; i < st->ring_count; i++) {
        has = has && st->rings[i].pos >= st->rings[i].until;
    }
    return has;
}

uint64_t stream_fullness(const struct stream *st)
{
    uint64_t fullest = 0;

    for (uint32_t i = 0; i < st->ring_count; i++) {
        const struct stream_ring *r = &st->rings[i];
        uint64_t unread = changes_published(r->changes) - r->pos;
        uint64_t parts = (unread * STREAM_FULL + r->changes->bytes - 1) / r->changes->bytes;

        fullest = parts > fullest ? parts : fullest;
    }
    return fullest;
}

/* Ship the records of a ring up to `until`, or to a flush. */
static enum stream_state pass_ring(struct stream *st, uint32_t ring, struct ship *ship)
{
    struct stream_ring *r = &st->rings[ring];

    while (r->pos != r->until && r->held_at == 0 && may_read(st, r)) {
        uint64_t now = changes_published(r->changes);
        enum stream_state state = ship_batch(st, ring, r->until, now, ship, NULL);

        if (state != STREAM_IDLE) {
            return state;
        }
    }
    return r->pos != r->until ? STREAM_GOES_ON : STREAM_IDLE;
}

enum stream_state stream_pass(struct stream *st, struct ship *ship)
{
    enum stream_state state = STREAM_IDLE;

    must_not_be_reading();
    (void)pass_flushes(st, ship);
    stream_note_written(st);
    for (uint32_t i = 0; i < st->ring_count; i++) {
        enum stream_state one = pass_ring(st, i, ship);

        if (one > STREAM_GOES_ON) {
            return one;
        }
        state = one == STREAM_GOES_ON ? one : state;
    }
    note_read(st);
    return state;
}

/*
 * Copy out up to `max` records. Their keys are hashed later: that loads several words of a key
 * at once, and would wait until each of them is stored. False: the ring has come around.
 */
static bool read_keys(struct stream *st, struct stream_ring *r, uint64_t until, unsigned max)
{
    struct stream_batch *b = st->batch;

    b->n = 0;
    for (unsigned i = 0; i < max && r->pos != until; i++) {
        struct change *c = &b->change[b->n];

        changes_prefetch(r->changes, r->pos + PREFETCH_BYTES);
        if (!changes_get(r->changes, &r->pos, c)) {
            return false;
        }
        count(&st->records, 1);
        if (c->kind <= CHANGE_DROP) {
            b->n++;
        } else if (c->kind == CHANGE_PREFIX) {
            st->prefix_id = c->id > st->prefix_id ? c->id : st->prefix_id;
        } else {
            /* So that stream_pass() can continue from here, also from where it has stopped. */
            r->held_at = 0;
            r->passed = c->kind == CHANGE_FLUSH ? c->id : c->id - 1;
        }
    }
    return true;
}

enum stream_state stream_keys(struct stream *st, unsigned max, stream_key_fn fn, void *arg)
{
    enum stream_state state = STREAM_IDLE;

    must_not_be_reading();
    take_up_rings(st);
    for (uint32_t i = 0; i < st->ring_count; i++) {
        struct stream_ring *r = &st->rings[i];
        uint64_t until = changes_published(r->changes);
        uint64_t n = 0;

        if (until - r->pos > r->changes->bytes) {
            return STREAM_OVERRUN;
        }
        while (r->pos != until && n < max) {
            unsigned part = max - n < KEYS_BATCH ? (unsigned)(max - n) : KEYS_BATCH;

            if (!read_keys(st, r, until, part)) {
                return STREAM_OVERRUN;
            }
            n += part;
            for (unsigned k = 0; k < st->batch->n; k++) {
                fn(arg, st->batch->change[k].key, st->batch->change[k].key_len);
            }
        }
        if (r->pos != until) {
            state = STREAM_GOES_ON;
        }
    }
    note_read(st);
    return state;
}

uint64_t stream_lag(const struct stream *st)
{
    uint64_t read = atomic_load_explicit(&st->read, memory_order_acquire);
    uint64_t written = 0;

    for (uint32_t i = 0; i < st->engine->shard_count; i++) {
        written += changes_published(st->engine->shards[i]->changes);
    }
    return written - read;
}
