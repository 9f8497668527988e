/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking over items: see attach.h. One pass visits the segments in order. An item is linked a
 * few blocks after it was read, when its bucket has been fetched into the cache. Large values
 * are checked afterwards, when all their pieces are known.
 */
#include "lib/shard/attach.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/memory/blocks.h"
#include "lib/shard/expire.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/upkeep.h"

/* Items that wait for their buckets; a power of two. */
#define AHEAD 16u

/* A block of a large value: its head, with how many of its pieces were met, or a piece. */
struct attach_part {
    handle_t handle;
    uint32_t met;
};

struct attach_parts {
    struct attach_part *at;
    size_t n, room;
};

struct attach_scan {
    struct shard *shard;
    struct attach_job *job;
    struct {
        handle_t handle;
        uint64_t hash;
    } ahead[AHEAD];
    uint32_t ahead_first, ahead_end; /* free-running */
    struct attach_parts heads, pieces;
    uint64_t due_bytes;
};

#define doubt(x, ...) (snprintf((x)->job->why, (x)->job->why_size, __VA_ARGS__), false)

static bool note(struct attach_scan *x, struct attach_parts *p, handle_t h)
{
    if (p->n == p->room) {
        size_t room = p->room != 0 ? p->room * 2 : 256;
        struct attach_part *at = mem_realloc(p->at, room * sizeof(*at));

        if (at == NULL) {
            return doubt(x, "out of memory");
        }
        p->at = at;
        p->room = room;
    }
    p->at[p->n++] = (struct attach_part){h, 0};
    return true;
}

/* ---- items ------------------------------------------------------------------------------- */

/* The bytes before the value: header and key. */
static uint64_t bytes_before_value(const struct item *it)
{
    return shape_header_bytes(item_shape(it)) + it->key_len;
}

/* Are the fields of an item as they can be? All of them are in its block. */
static bool is_sane(const struct item *it)
{
    uint64_t before = bytes_before_value(it);

    if (it->key_len > ITEM_KEY_MAX || before > item_bytes(it)) {
        return false;
    }
    if (item_is_wide(it) &&
        (item_wide(it)->cas_high >> (64 - CAS_BITS) != 0 ||
         (!item_has_ttl(it) &&
          (item_wide(it)->far_large > WIDE_LARGE ||
           !(item_is_large(it) ||
             item_needs_wide(item_flags(it), item_cas(it), MSEC_NEVER)))))) {
        return false;
    }
    if (!item_is_large(it)) {
        return before + item_len(it) <= item_bytes(it);
    }
    before = (before + 3) & ~UINT64_C(3);
    return before + LARGE_BYTES(0) <= item_bytes(it) && item_large(it)->pieces <= PIECES_MAX &&
           before + LARGE_BYTES(item_large(it)->pieces) <= item_bytes(it);
}

static bool link_item(struct attach_scan *x, handle_t h, uint64_t hash)
{
    struct shard *s = x->shard;
    struct item *it = shard_item(s, h);

    if (MF_UNLIKELY(table_find(&s->table, s->memory.arena.base, hash, item_key(it),
                               it->key_len) != NULL)) {
        return doubt(x, "block %u has the key of another", h);
    }
    if (MF_UNLIKELY(!keyspace_reserve(s, item_has_ttl(it)))) {
        return doubt(x, "out of memory");
    }
    if (x->job->marks_stale) {
        atomic_store_explicit(&it->shape,
                              (uint16_t)((item_shape(it) & ~SHAPE_TOP) | SHAPE_STALE),
                              memory_order_relaxed);
    }
    keyspace_insert(s, hash, h);
    x->job->items++;
    return true;
}

static bool link_oldest(struct attach_scan *x)
{
    uint32_t i = x->ahead_first++ % AHEAD;

    return link_item(x, x->ahead[i].handle, x->ahead[i].hash);
}

static bool link_later(struct attach_scan *x, handle_t h, uint64_t hash)
{
    if (x->ahead_end - x->ahead_first == AHEAD && !link_oldest(x)) {
        return false;
    }
    uint32_t i = x->ahead_end++ % AHEAD;
    x->ahead[i].handle = h;
    x->ahead[i].hash = hash;
    table_prefetch_bucket(&x->shard->table, hash);
    return true;
}

static bool take_item(struct attach_scan *x, handle_t h)
{
    struct shard *s = x->shard;
    struct item *it = shard_item(s, h);

    if (MF_UNLIKELY(!is_sane(it))) {
        return doubt(x, "block %u is no item", h);
    }
    uint64_t hash = shard_hash(s, it);
    const uint16_t *owner = x->job->owners[hash >> x->job->owner_shift];
    if (MF_UNLIKELY(owner[0] != s->id && owner[1] != s->id)) {
        return doubt(x, "block %u has a key of another shard", h);
    }
    if (item_has_ttl(it)) {
        item_set_node(it, 0);
    }
    if (item_is_due(it, shard_due_now(s, x->job->now))) {
        /* If it has pieces, they are found to have no owner. */
        x->job->expired++;
        x->due_bytes += item_all_bytes(it);
        blocks_enter_dead(&s->memory, h);
        return true;
    }
    blocks_enter_live(&s->memory, h);
    return item_is_large(it) ? note(x, &x->heads, h) : link_later(x, h, hash);
}

static bool take_piece(struct attach_scan *x, handle_t h)
{
    const struct item *it = shard_item(x->shard, h);

    if (item_shape(it) != (item_units(it) | SHAPE_WIDE) ||
        item_bytes(it) < PIECE_HEADER_BYTES ||
        item_block_len(it) > item_bytes(it) - PIECE_HEADER_BYTES) {
        return doubt(x, "block %u is no piece", h);
    }
    return note(x, &x->pieces, h);
}

/* ---- segments ---------------------------------------------------------------------------- */

/* One block. *live, *dead: what its segment has. */
static inline bool take_block(struct attach_scan *x, handle_t h, uint16_t shape, uint32_t *live,
                              uint32_t *dead)
{
    if (shape_is_dead(shape)) {
        *dead += (shape & SHAPE_SIZE) * ITEM_UNIT;
        blocks_enter_dead(&x->shard->memory, h);
        return true;
    }
    ++*live;
    if (MF_UNLIKELY(shape_is_loose(shape))) { /* the process that was filling it is gone */
        blocks_enter_dead(&x->shard->memory, h);
        return true;
    }
    return shard_item(x->shard, h)->key_len != 0 ? take_item(x, h) : take_piece(x, h);
}

static bool take_segment(struct attach_scan *x, const struct keep_segment *k)
{
    const struct arena *a = &x->shard->memory.arena;
    handle_t first = segment_handle(a, k->number);
    uint32_t live = 0;
    uint32_t dead = 0;
    uint32_t at = 0;

    while (at < k->fill) {
        handle_t h = first + at / ITEM_UNIT;

        if (k->fill - at < sizeof(struct item)) {
            return doubt(x, "segment %u has no block at %u", k->number, at);
        }
        uint16_t shape = item_shape(arena_item(a, h));
        uint32_t bytes = (shape & SHAPE_SIZE) * ITEM_UNIT;
        if (bytes < sizeof(struct item) || bytes > k->fill - at) {
            return doubt(x, "segment %u has a block of %u bytes at %u", k->number, bytes, at);
        }
        if (!take_block(x, h, shape, &live, &dead)) {
            return false;
        }
        at += bytes;
    }
    if (live != k->live || dead != k->dead) {
        return doubt(x, "segment %u has %u live blocks and %u dead bytes, not %u and %u",
                     k->number, live, dead, k->live, k->dead);
    }
    return true;
}

static bool take_segments(struct attach_scan *x)
{
    for (uint32_t i = 0; i < x->job->left->segments; i++) {
        if (x->job->list[i].place != KEEP_WHOLE && !take_segment(x, &x->job->list[i])) {
            return false;
        }
    }
    while (x->ahead_first != x->ahead_end) {
        if (!link_oldest(x)) {
            return false;
        }
    }
    return true;
}

/* ---- large values ------------------------------------------------------------------------ */

static int by_handle(const void *a, const void *b)
{
    handle_t l = ((const struct attach_part *)a)->handle;
    handle_t r = ((const struct attach_part *)b)->handle;

    return (l > r) - (l < r);
}

/* A piece belongs to the value whose head names it; one that nobody names is dead. */
static void take_pieces(struct attach_scan *x)
{
    struct memory *m = &x->shard->memory;

    for (size_t i = 0; i < x->pieces.n; i++) {
        handle_t h = x->pieces.at[i].handle;
        const struct item *piece = memory_item(m, h);
        const struct attach_part key = {piece_owner(piece), 0};
        struct attach_part *head =
            x->heads.n == 0 ? NULL
                            : bsearch(&key, x->heads.at, x->heads.n, sizeof(key), by_handle);
        const struct large *l = head != NULL ? item_large(memory_item(m, key.handle)) : NULL;

        if (l != NULL && piece_number(piece) < l->pieces &&
            atomic_load_explicit(&l->piece[piece_number(piece)], memory_order_relaxed) == h) {
            head->met++;
            blocks_enter_live(m, h);
        } else {
            blocks_enter_dead(m, h);
        }
    }
}

/* Claim the whole segments of a value; how many bytes they have, UINT64_MAX: a doubt. */
static uint64_t claim_segments(struct attach_scan *x, const struct large *l)
{
    struct memory *m = &x->shard->memory;
    const struct segment *segs = m->arena.segments;
    uint64_t bytes = 0;
    segment_t n = l->first;

    for (uint32_t i = 0; i < l->segments; i++) {
        if (!keep_claim(m, n) || segs[n].skip >= segs[n].fill) {
            return UINT64_MAX;
        }
        /* A value with pieces goes on in them where its segments end: there is no gap. */
        if (l->pieces != 0 && (segs[n].skip != 0 || segs[n].fill != segment_bytes(&m->arena))) {
            return UINT64_MAX;
        }
        bytes += segs[n].fill - segs[n].skip;
        if (i + 1 == l->segments) {
            return n == l->last && segs[l->first].skip == l->skip ? bytes : UINT64_MAX;
        }
        n = segs[n].next;
    }
    return l->skip == 0 ? 0 : UINT64_MAX;
}

static bool take_head(struct attach_scan *x, const struct attach_part *p)
{
    struct shard *s = x->shard;
    const struct item *it = shard_item(s, p->handle);
    struct large *l = item_large(it);
    uint64_t bytes = claim_segments(x, l);

    if (bytes == UINT64_MAX || p->met != l->pieces) {
        return doubt(x, "the value of block %u is not whole", p->handle);
    }
    for (uint32_t i = 0; i < l->pieces; i++) {
        bytes += item_block_len(
            shard_item(s, atomic_load_explicit(&l->piece[i], memory_order_relaxed)));
    }
    if (bytes != item_len(it)) {
        return doubt(x, "the value of block %u has %llu bytes, not %u", p->handle,
                     (unsigned long long)bytes, item_len(it));
    }
    l->anchor = l->first; /* link_item() makes it so */
    return link_item(x, p->handle, shard_hash(s, it));
}

static bool take_large(struct attach_scan *x)
{
    if (x->heads.n > 1) {
        qsort(x->heads.at, x->heads.n, sizeof(*x->heads.at), by_handle);
    }
    take_pieces(x);
    for (size_t i = 0; i < x->heads.n; i++) {
        if (!take_head(x, &x->heads.at[i])) {
            return false;
        }
    }
    return true;
}

/* ---- all of it --------------------------------------------------------------------------- */

/* An index that need not grow meanwhile. */
static bool fit_index(struct attach_scan *x)
{
    struct shard *s = x->shard;
    uint64_t least = table_items_in(x->job->left->index_bytes);
    uint64_t items = x->job->left->items > least ? x->job->left->items : least;

    if (items <= s->items_at_start) {
        return true;
    }
    table_fini(&s->table);
    if (!table_init(&s->table, items, s->seed, s->group->budget, &s->lock)) {
        return doubt(x, "out of memory");
    }
    shard_enter(s);
    table_set_least(&s->table, s->items_at_start);
    shard_leave(s);
    return true;
}

static bool is_flushed(const struct attach_job *job)
{
    return job->now >= job->left->flush_at;
}

static bool take_all(struct attach_scan *x)
{
    struct attach_job *job = x->job;
    struct shard *s = x->shard;

    if (!keep_enter(&s->memory, job->list, is_flushed(job) ? 0 : job->left->segments,
                    job->left->fresh)) {
        return doubt(x, "the table of segments contradicts itself");
    }
    if (is_flushed(job)) {
        job->flushed = job->left->items;
    } else if (!keep_back(&s->memory, job->list, job->left->segments)) {
        return doubt(x, "its file system has no room for pages that are missing");
    } else if (!take_segments(x) || !take_large(x)) {
        return false;
    } else if (job->items + job->expired != job->left->items ||
               ctr_get(&s->counters, CTR_item_bytes) + x->due_bytes != job->left->bytes) {
        return doubt(x, "%llu items were left, and %llu are there",
                     (unsigned long long)job->left->items,
                     (unsigned long long)(job->items + job->expired));
    }
    keep_entered(&s->memory);
    return true;
}

bool shard_attach(struct shard *s, struct attach_job *job)
{
    struct attach_scan x = {.shard = s, .job = job};

    job->items = job->expired = job->flushed = 0;
    if (!fit_index(&x)) {
        return false;
    }
    shard_enter(s);
    bool is_done = take_all(&x);
    keyspace_note_due(s);
    shard_note_work(s);
    shard_leave(s);
    mem_free(x.heads.at);
    mem_free(x.pieces.at);
    return is_done;
}

void shard_leave_behind(const struct shard *s, struct attach_shard *left,
                        struct keep_segment *list)
{
    shard_must_be_entered(s);
    left->segments = keep_count(&s->memory);
    left->fresh = s->memory.arena.fresh;
    left->items = ctr_get(&s->counters, CTR_curr_items);
    left->bytes = ctr_get(&s->counters, CTR_item_bytes);
    left->index_bytes = table_bytes(&s->table);
    left->flush_at = atomic_load_explicit(&s->flush_at, memory_order_relaxed);
    if (list != NULL) {
        keep_list(&s->memory, list);
    }
}
