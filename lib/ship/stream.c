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
#include "lib/shard/expire.h"
#include "lib/shard/flush.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"
#include "lib/store/find.h"

/* Distance at which records are prefetched, and the bytes prefetched of each item. */
#define PREFETCH_BYTES      512u
#define PREFETCH_ITEM_BYTES 512u

struct stream_ring {
    const struct changes *changes; /* [borrowed] until stream_end() */
    uint64_t pos;                  /* read up to there */
    uint64_t until;                /* the end of this pass; or the position that was noted */
    uint64_t passed;               /* the newest flush command that is over in this ring */
    uint64_t held_at;              /* the flush command of the next record; 0: none */
    uint64_t opens_at; /* not read before all rings have come to this command: see may_read() */
    uint64_t opens_at_prefix; /* nor before this flush of a prefix was read */
};

struct stream_covered {
    uint64_t hash;
    uint64_t pos; /* records of this key before that position need not be shipped */
    uint32_t ring;
};

struct stream_batch {
    unsigned n;
    struct change change[STREAM_BATCH];
    uint64_t pos[STREAM_BATCH];
    uint64_t hash[STREAM_BATCH];
    /* as found in the present section */
    const struct item *item[STREAM_BATCH]; /* NULL: absent */
    const struct shard *shard[STREAM_BATCH];
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

/* May this ring be read? See "further shards" above. */
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
    for (uint32_t i = 0; i < st->ring_count; i++) {
        struct shard *s = st->engine->shards[i];

        shard_enter(s);
        st->rings[i].pos = changes_published(s->changes);
        st->rings[i].passed = shard_flushes_over(s);
        st->rings[i].held_at = 0;
        st->rings[i].opens_at = 0;
        st->rings[i].opens_at_prefix = 0;
        shard_leave(s);
    }
    st->prefix_id = engine_prefix_newest(st->engine);
    pthread_mutex_unlock(&st->engine->flush_lock);
    memset(st->covered, 0, STREAM_COVERED * sizeof(*st->covered));
    st->flushed_before = 0;
    for (uint32_t i = 0; i < st->ring_count; i++) {
        if (st->flushed_before < st->rings[i].passed) {
            st->flushed_before = st->rings[i].passed;
        }
    }
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

bool stream_is_held(const struct stream *st)
{
    for (uint32_t i = 0; i < st->ring_count; i++) {
        if (st->rings[i].held_at != 0) {
            return true;
        }
    }
    return false;
}

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
    /* With it goes what was shipped of later states, of keys with a record before the flush. */
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

/* A flush that waits for its instant has replaced those before it. */
static void note_later(struct stream *st, struct stream_ring *r, const struct change *c,
                       struct ship *ship)
{
    if (r->passed < c->cas - 1) {
        r->passed = c->cas - 1;
    }
    if (st->later_id < c->cas) {
        st->later_id = c->cas;
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
    if (st->prefix_id < c->cas) {
        st->prefix_id = c->cas;
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

/* Copy a record without the unused part of its key. */
static void change_copy(struct change *to, const struct change *from)
{
    to->kind = from->kind;
    to->key_len = from->key_len;
    to->cas = from->cas;
    /* Whole words, which takes less time than a copy of a length that is not known. */
    for (size_t n = 0; n < from->key_len; n += sizeof(uint64_t)) {
        memcpy(to->key + n, from->key + n, sizeof(uint64_t));
    }
}

static bool is_covered(struct stream *st, uint32_t ring, uint64_t pos, uint64_t hash)
{
    const struct stream_covered *c = covered_by(st, hash);

    return c->hash == hash && c->ring == ring && pos < c->pos;
}

/*
 * Not while records are copied: it loads several words of a key at once, and would wait until
 * each of them is stored.
 */
static void hash_batch(struct stream *st)
{
    struct stream_batch *b = st->batch;

    for (unsigned i = 0; i < b->n; i++) {
        b->hash[i] = engine_hash(st->engine, b->change[i].key, b->change[i].key_len);
        __builtin_prefetch(covered_by(st, b->hash[i]));
    }
}

/* Remove covered records from the batch. */
static void drop_covered(struct stream *st, uint32_t ring)
{
    struct stream_batch *b = st->batch;
    unsigned n = 0;

    for (unsigned i = 0; i < b->n; i++) {
        if (is_covered(st, ring, b->pos[i], b->hash[i])) {
            continue;
        }
        if (n != i) {
            b->pos[n] = b->pos[i];
            b->hash[n] = b->hash[i];
            change_copy(&b->change[n], &b->change[i]);
        }
        n++;
    }
    b->n = n;
}

/*
 * Copy records up to `until` out, except for those that are covered. Stops at a flush.
 * STREAM_IDLE; STREAM_OVERRUN: the ring has come around; STREAM_FLUSHED.
 */
static enum stream_state read_batch(struct stream *st, uint32_t ring, uint64_t until,
                                    struct ship *ship)
{
    struct stream_ring *r = &st->rings[ring];
    struct stream_batch *b = st->batch;

    b->n = 0;
    for (unsigned i = 0; i < STREAM_BATCH && r->pos != until && r->held_at == 0; i++) {
        struct change *c = &b->change[b->n];
        uint64_t pos = r->pos;

        changes_prefetch(r->changes, pos + PREFETCH_BYTES);
        if (!changes_get(r->changes, &r->pos, c)) {
            return STREAM_OVERRUN;
        }
        if (MF_LIKELY(c->kind <= CHANGE_DROP)) {
            b->pos[b->n++] = pos;
            continue;
        }
        if (c->kind == CHANGE_FLUSH && c->cas <= st->flushed_before) {
            return STREAM_FLUSHED; /* in another shard it was over when the stream began */
        }
        if (c->kind == CHANGE_FLUSH) {
            r->held_at = c->cas;
            r->pos = pos;
        } else if (c->kind == CHANGE_LATER) {
            note_later(st, r, c, ship);
        } else {
            note_prefix(st, c, ship);
        }
        count(&st->records, 1);
    }
    count(&st->records, b->n);
    hash_batch(st);
    drop_covered(st, ring);
    return STREAM_IDLE;
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

/* Look up the keys of the batch, so that the cache misses of their items overlap. Read side. */
static void find_all(struct stream *st, unsigned from)
{
    const struct route *rt = router_read(&st->engine->router);
    msec_t now = clock_now(&st->engine->clock);
    struct stream_batch *b = st->batch;

    must_be_reading();
    for (unsigned i = from; i < b->n; i++) {
        engine_prefetch_bucket(rt, b->hash[i]);
    }
    engine_prefetch_items(rt, &b->hash[from], sizeof(b->hash[0]), b->n - from);
    for (unsigned i = from; i < b->n; i++) {
        const struct item *it = find(rt, b->hash[i], &b->change[i], now, &b->shard[i]);
        size_t bytes = it != NULL ? ship_bytes(it) : 0;

        b->item[i] = it;
        for (size_t at = MF_LINE_BYTES; at < bytes && at < PREFETCH_ITEM_BYTES;
             at += MF_LINE_BYTES) {
            __builtin_prefetch((const char *)it + at);
        }
    }
}

/* Ship an item as it was found after a change. Context: read side. */
static enum shipped ship_found(struct ship *ship, const struct change *c, const struct shard *s,
                               const struct item *it)
{
    if (c->kind == CHANGE_META && item_cas(it) == c->cas && ship->ops->meta != NULL) {
        return ship_meta(ship, it);
    }
    return ship_put(ship, s, it);
}

/* Ship the present state of a key of the batch. Context: read side. */
static enum shipped ship_change(struct stream *st, unsigned i, struct ship *ship)
{
    const struct change *c = &st->batch->change[i];
    const struct shard *s = st->batch->shard[i];
    const struct item *it = st->batch->item[i];
    enum shipped out = it != NULL ? ship_found(ship, c, s, it) : SHIP_LEFT;

    /* A block that only moved has no other record, so it is looked up again. */
    while (MF_UNLIKELY(out == SHIP_GONE)) {
        it = find(router_read(&st->engine->router), st->batch->hash[i], c,
                  clock_now(&st->engine->clock), &s);
        out = it != NULL ? ship_found(ship, c, s, it) : SHIP_LEFT;
    }
    /* What cannot be shipped is dropped, or the sink would keep what was there before. */
    return out == SHIP_LEFT ? ship_drop(ship, span_of(c->key, c->key_len)) : out;
}

/* The sink has the state that a key has now, so it needs no record before `until`. */
static void cover(struct stream *st, uint32_t ring, uint64_t hash, uint64_t until,
                  const struct change *c)
{
    if (c->kind != CHANGE_META) { /* the sink may have the previous value */
        *covered_by(st, hash) = (struct stream_covered){hash, until, ring};
    }
}

/*
 * The walk will visit keys that are present now. It will not visit a key that is gone, though
 * the key may have been shipped: by a record, while a position was half done and counted as
 * passed, or by the walk, at a position that is restarted.
 */
static enum shipped ship_unmet(const struct change *c, struct ship *ship)
{
    return c->kind == CHANGE_DROP ? ship_drop(ship, span_of(c->key, c->key_len)) : SHIP_DONE;
}

/* Ship a part of the batch in one section. Returns SHIP_DONE at its end. */
static enum shipped ship_some(struct stream *st, uint32_t ring, uint64_t until, unsigned *at,
                              struct ship *ship, const struct walk *walk)
{
    struct stream_batch *b = st->batch;
    enum shipped out = SHIP_DONE;
    uint64_t shipped = 0;

    find_all(st, *at);
    while (*at < b->n && out == SHIP_DONE) {
        const bool is_met = walk == NULL || walk_passed(walk, ring, b->hash[*at]);

        /* Perhaps another record of the batch was of the same key. */
        if (!is_covered(st, ring, b->pos[*at], b->hash[*at])) {
            out = is_met ? ship_change(st, *at, ship) : ship_unmet(&b->change[*at], ship);
            if (out == SHIP_FULL) {
                break;
            }
            if (is_met) {
                cover(st, ring, b->hash[*at], until, &b->change[*at]);
                shipped++;
            }
        }
        ++*at;
    }
    count(&st->shipped, shipped);
    return out;
}

/* Ship the batch. False: no more is wanted. */
static bool ship_batch(struct stream *st, uint32_t ring, uint64_t until, struct ship *ship,
                       const struct walk *walk)
{
    unsigned at = 0;

    while (at < st->batch->n) {
        rcu_begin();
        enum shipped out = ship_some(st, ring, until, &at, ship, walk);
        rcu_end();
        if ((out == SHIP_LARGE && !ship_large(ship)) ||
            (out != SHIP_DONE && !ship_rest(ship))) {
            return false;
        }
    }
    return true;
}

enum stream_state stream_slice(struct stream *st, struct ship *ship, const struct walk *walk)
{
    bool has_read = pass_flushes(st, ship);

    must_not_be_reading();
    for (uint32_t i = 0; i < st->ring_count; i++) {
        struct stream_ring *r = &st->rings[i];
        uint64_t until = changes_published(r->changes);

        if (until - r->pos > r->changes->bytes) {
            return STREAM_OVERRUN;
        }
        if (r->pos == until || r->held_at != 0 || !may_read(st, r)) {
            continue;
        }
        enum stream_state state = read_batch(st, i, until, ship);
        if (state != STREAM_IDLE) {
            return state;
        }
        if (!ship_batch(st, i, until, ship, walk)) {
            return STREAM_REFUSED;
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

static bool is_lost(const struct stream_ring *r)
{
    return changes_published(r->changes) - r->pos > r->changes->bytes;
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
        enum stream_state state = STREAM_OVERRUN;

        if (now - r->pos <= r->changes->bytes) {
            state = read_batch(st, ring, r->until, ship);
        }
        if (state != STREAM_IDLE) {
            return state;
        }
        /* What is looked up from here on is at least as new as all records up to now. */
        if (!ship_batch(st, ring, now, ship, NULL)) {
            return STREAM_REFUSED;
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
 * Copy out up to `max` records. The batch holds the keys, which are looked up later: see
 * hash_batch(). False: see read_batch().
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
            st->prefix_id = c->cas > st->prefix_id ? c->cas : st->prefix_id;
        } else {
            /* So that stream_pass() can continue from here, also from where it has stopped. */
            r->held_at = 0;
            r->passed = c->kind == CHANGE_FLUSH ? c->cas : c->cas - 1;
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

        if (is_lost(r)) {
            return STREAM_OVERRUN;
        }
        while (r->pos != until && n < max) {
            unsigned part = max - n < STREAM_BATCH ? (unsigned)(max - n) : STREAM_BATCH;

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
