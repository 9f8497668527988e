/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volatile items of a shard by deadline: adding and removing, in buckets that are chains of
 * chunks. The shape of the wheel is explained in expires_wheel.h, chunks in
 * expires_pool.h; time and sampling are in expires_time.c. Runs inside the shard's lock; every
 * call takes constant time. Nothing here can fail but expires_create() and expires_reserve().
 */
#include "lib/expiry/expires.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/expiry/expires_wheel.h"

static inline void set_position(const struct expires *e, handle_t handle, uint32_t pos)
{
    atomic_store_explicit(&item_ttl(item_at(e->base, handle))->expires_pos, pos,
                          memory_order_relaxed);
}

static inline void set_count(struct expires *e, uint64_t count)
{
    atomic_store_explicit(&e->count, count, memory_order_relaxed);
}

static void clear_due(struct expires *e, unsigned id)
{
    e->due[id / 64] &= ~(1ULL << (id % 64));
    if (e->due[id / 64] == 0) {
        e->due_words &= ~(1ULL << (id / 64));
    }
}

/* ---- chains ------------------------------------------------------------------------------ */

void expires_bucket_emptied(struct expires *e, unsigned id)
{
    struct expires_bucket *b = &e->bucket[id];

    must(b->count == 0);
    b->top = 0;
    b->bytes = 0;
    e->occupied[id / 64] &= ~(1ULL << (id % 64));
    if (e->occupied[id / 64] == 0) {
        e->occupied_words &= ~(1ULL << (id / 64));
    }
    clear_due(e, id);
    if (id == EXPIRES_DUE) {
        e->due_oldest = MSEC_NEVER;
    }
}

/* A bucket is about to get its first chunk. */
static void bucket_filled(struct expires *e, unsigned id)
{
    e->occupied[id / 64] |= 1ULL << (id % 64);
    e->occupied_words |= 1ULL << (id / 64);
    if (id == EXPIRES_DUE) {
        expires_set_due(e, id);
    }
}

/* Put an empty chunk on top; returns the position before its first handle. */
static __attribute__((noinline)) uint32_t push_chunk(struct expires *e, unsigned id)
{
    struct expires_bucket *b = &e->bucket[id];
    uint32_t number = expires_pool_take(&e->pool);
    struct expires_chunk *c = expires_chunk_at(&e->pool, number);

    c->bucket = id;
    c->prev = 0;
    c->next = b->top / EXPIRES_WORDS;
    if (b->top) {
        expires_chunk_at(&e->pool, c->next)->prev = number;
    } else {
        bucket_filled(e, id);
    }
    return number * EXPIRES_WORDS + EXPIRES_WORD_FIRST - 1;
}

/* The top chunk is empty: take it off. */
static __attribute__((noinline)) void pop_chunk(struct expires *e, unsigned id)
{
    struct expires_bucket *b = &e->bucket[id];
    uint32_t number = b->top / EXPIRES_WORDS;
    uint32_t next = expires_chunk_at(&e->pool, number)->next;

    if (next) {
        struct expires_chunk *c = expires_chunk_at(&e->pool, next);

        c->prev = 0;
        b->top = next * EXPIRES_WORDS + EXPIRES_WORD_LAST;
        __builtin_prefetch(expires_chunk_at(&e->pool, c->next ? (uint32_t)c->next : next));
    } else {
        expires_bucket_emptied(e, id);
    }
    expires_pool_give(&e->pool, number, expires_size(e));
}

/* Does a bucket need a chunk for the next handle? Empty (0) and full (last word) do. */
static inline bool needs_chunk(uint32_t top)
{
    return (top + 1) % EXPIRES_WORDS < EXPIRES_WORD_FIRST;
}

/* Store a handle at the next position of a bucket, and count it there. */
static inline void store_handle(struct expires *e, struct expires_bucket *b, uint32_t pos,
                                handle_t handle)
{
    *expires_handle_at(&e->pool, pos) = handle;
    set_position(e, handle, pos);
    b->top = pos;
    b->count++;
    set_count(e, expires_size(e) + 1);
}

/* Append an item to a bucket of a ring, or a far one, that needs a chunk. */
static __attribute__((noinline)) void attach_in_new_chunk(struct expires *e, unsigned id,
                                                          handle_t handle, uint32_t bytes)
{
    struct expires_bucket *b = &e->bucket[id];

    store_handle(e, b, push_chunk(e, id) + 1, handle);
    b->bytes += bytes;
}

/* Append an item to a bucket of a ring, or a far one. */
static inline void attach(struct expires *e, unsigned id, handle_t handle, uint32_t bytes)
{
    struct expires_bucket *b = &e->bucket[id];
    uint32_t pos = b->top;

    if (MF_UNLIKELY(needs_chunk(pos))) {
        attach_in_new_chunk(e, id, handle, bytes);
        return;
    }
    store_handle(e, b, pos + 1, handle);
    b->bytes += bytes;
}

/* Fill the gap at a position by the bucket's last handle, and count it off. */
static inline struct expires_bucket *fill_gap(struct expires *e, uint32_t pos, uint32_t bytes)
{
    unsigned id = expires_chunk_at(&e->pool, pos / EXPIRES_WORDS)->bucket;
    struct expires_bucket *b = &e->bucket[id];

    if (pos != b->top) {
        handle_t last = *expires_handle_at(&e->pool, b->top);

        *expires_handle_at(&e->pool, pos) = last;
        set_position(e, last, pos);
    }
    b->count--;
    if (MF_UNLIKELY(expires_is_due(e, id))) {
        e->due_keys--;
        e->due_bytes -= bytes;
    } else {
        b->bytes -= bytes;
    }
    set_count(e, expires_size(e) - 1);
    return b;
}

/* Was that the last handle of its chunk? */
static inline bool empties_chunk(const struct expires_bucket *b)
{
    return b->top % EXPIRES_WORDS == EXPIRES_WORD_FIRST;
}

/* Where a deadline that has not come yet belongs. */
static inline unsigned place(const struct expires *e, msec_t deadline)
{
    if (deadline < e->horizon[1]) {
        return MF_LIKELY(deadline >= e->horizon[0]) ? expires_slot(1, deadline)
                                                    : expires_slot(0, deadline);
    }
    if (deadline < e->horizon[2]) {
        return expires_slot(2, deadline);
    }
    return deadline < e->horizon[3] ? expires_slot(3, deadline) : e->far;
}

void expires_put(struct expires *e, handle_t handle, msec_t deadline, uint32_t bytes)
{
    attach(e, place(e, deadline), handle, bytes);
}

void expires_put_due(struct expires *e, handle_t handle, uint32_t bytes, msec_t oldest)
{
    struct expires_bucket *b = &e->bucket[EXPIRES_DUE];

    store_handle(e, b, (needs_chunk(b->top) ? push_chunk(e, EXPIRES_DUE) : b->top) + 1, handle);
    e->due_keys++;
    e->due_bytes += bytes;
    if (oldest < e->due_oldest) {
        e->due_oldest = oldest;
    }
}

void expires_pull(struct expires *e, uint32_t pos, uint32_t bytes)
{
    struct expires_bucket *b = fill_gap(e, pos, bytes);

    if (empties_chunk(b)) {
        pop_chunk(e, (unsigned)(b - e->bucket));
    } else {
        b->top--;
    }
}

/* ---- the pool shrinks -------------------------------------------------------------------- */

/* Copy one chunk of the block that is to go, its items' positions with it. */
static void move_chunk(struct expires *e, uint32_t from)
{
    struct expires_chunk *old = expires_chunk_at(&e->pool, from);
    uint32_t to = expires_pool_take(&e->pool);
    struct expires_chunk *c = expires_chunk_at(&e->pool, to);
    struct expires_bucket *b = &e->bucket[old->bucket];
    unsigned handles = EXPIRES_SLOTS;

    *c = *old;
    if (b->top / EXPIRES_WORDS == from) {
        uint32_t word = b->top % EXPIRES_WORDS;

        b->top = to * EXPIRES_WORDS + word;
        handles = word - EXPIRES_WORD_FIRST + 1;
    } else {
        expires_chunk_at(&e->pool, c->prev)->next = to;
    }
    if (c->next) {
        expires_chunk_at(&e->pool, c->next)->prev = to;
    }
    for (unsigned i = 0; i < handles; i++) {
        __builtin_prefetch(item_ttl(item_at(e->base, c->handle[i])), 1);
    }
    for (unsigned i = 0; i < handles; i++) {
        set_position(e, c->handle[i], to * EXPIRES_WORDS + EXPIRES_WORD_FIRST + i);
    }
    expires_pool_give(&e->pool, from, expires_size(e));
}

void expires_shrink_step(struct expires *e)
{
    uint32_t chunk = expires_pool_victim(&e->pool, expires_size(e));

    if (chunk) {
        move_chunk(e, chunk);
    }
}

/* ---- items come and go ------------------------------------------------------------------- */

static __attribute__((noinline)) bool grow(struct expires *e)
{
    while (expires_size(e) >= e->pool.room) {
        if (!expires_pool_grow(&e->pool)) {
            return false;
        }
    }
    return true;
}

bool expires_reserve(struct expires *e)
{
    return MF_LIKELY(expires_size(e) < e->pool.room) || grow(e);
}

void expires_add(struct expires *e, handle_t handle)
{
    const struct item *it = item_at(e->base, handle);
    msec_t deadline = atomic_load_explicit(&item_ttl(it)->deadline, memory_order_relaxed);
    uint32_t bytes = item_bytes(it);

    debug_must(item_has_ttl(it) && deadline != MSEC_NEVER && expires_size(e) < e->pool.room);
    /* What has come is asked first: in a ring's past no bucket is looked at any more. */
    if (MF_UNLIKELY(deadline < e->tick)) {
        expires_put_due(e, handle, bytes, deadline);
        return;
    }
    attach(e, place(e, deadline), handle, bytes);
}

static __attribute__((noinline)) void free_chunk(struct expires *e, unsigned id)
{
    pop_chunk(e, id);
    if (expires_wants_shrink(e)) {
        expires_shrink_step(e);
    }
}

void expires_remove(struct expires *e, handle_t handle)
{
    const struct item *it = item_at(e->base, handle);
    struct expires_bucket *b;
    struct item_ttl *ttl;
    uint32_t pos;

    if (!item_has_ttl(it)) {
        return;
    }
    ttl = item_ttl(it);
    pos = atomic_load_explicit(&ttl->expires_pos, memory_order_relaxed);
    if (pos == 0) {
        return;
    }
    debug_must(*expires_handle_at(&e->pool, pos) == handle);
    atomic_store_explicit(&ttl->expires_pos, 0, memory_order_relaxed);
    b = fill_gap(e, pos, item_bytes(it));
    if (MF_UNLIKELY(empties_chunk(b))) {
        free_chunk(e, (unsigned)(b - e->bucket));
        return;
    }
    b->top--;
}

/*
 * Would an item with this deadline be added to the very bucket now that position pos is in?
 * Then all that is counted there stays right. *id: the bucket.
 */
static inline bool belongs_at(const struct expires *e, uint32_t pos, msec_t deadline,
                              unsigned *id)
{
    debug_must(deadline != MSEC_NEVER);
    /* What has come is asked here, too: place() is for what has not. */
    if (pos == 0 || MF_UNLIKELY(deadline < e->tick)) {
        return false;
    }
    *id = expires_chunk_at(&e->pool, pos / EXPIRES_WORDS)->bucket;
    return *id == place(e, deadline);
}

bool expires_replace(struct expires *e, handle_t old, handle_t handle)
{
    const struct item *was = item_at(e->base, old);
    const struct item *is = item_at(e->base, handle);
    uint32_t pos = atomic_load_explicit(&item_ttl(was)->expires_pos, memory_order_relaxed);
    msec_t deadline = atomic_load_explicit(&item_ttl(is)->deadline, memory_order_relaxed);
    unsigned id;

    debug_must(item_has_ttl(was) && item_has_ttl(is));
    if (!belongs_at(e, pos, deadline, &id)) {
        return false;
    }
    debug_must(*expires_handle_at(&e->pool, pos) == old && !expires_is_due(e, id));
    *expires_handle_at(&e->pool, pos) = handle;
    e->bucket[id].bytes += (uint64_t)item_bytes(is) - item_bytes(was);
    atomic_store_explicit(&item_ttl(is)->expires_pos, pos, memory_order_relaxed);
    atomic_store_explicit(&item_ttl(was)->expires_pos, 0, memory_order_relaxed);
    return true;
}

bool expires_retime(struct expires *e, handle_t handle, msec_t deadline)
{
    struct item_ttl *ttl = item_ttl(item_at(e->base, handle));
    uint32_t pos = atomic_load_explicit(&ttl->expires_pos, memory_order_relaxed);
    unsigned id;

    debug_must(item_has_ttl(item_at(e->base, handle)));
    if (!belongs_at(e, pos, deadline, &id)) {
        return false;
    }
    debug_must(*expires_handle_at(&e->pool, pos) == handle && !expires_is_due(e, id));
    atomic_store_explicit(&ttl->deadline, deadline, memory_order_relaxed);
    return true;
}

void expires_moved(struct expires *e, handle_t from, handle_t to)
{
    const struct item *it = item_at(e->base, to);
    uint32_t was = item_bytes(item_at(e->base, from));
    uint32_t is = item_bytes(it);
    uint32_t pos;

    if (!item_has_ttl(it)) {
        return;
    }
    pos = atomic_load_explicit(&item_ttl(it)->expires_pos, memory_order_relaxed);
    if (pos == 0) {
        return;
    }
    debug_must(*expires_handle_at(&e->pool, pos) == from);
    *expires_handle_at(&e->pool, pos) = to;
    if (MF_UNLIKELY(was != is)) {
        unsigned id = expires_chunk_at(&e->pool, pos / EXPIRES_WORDS)->bucket;
        uint64_t *sum = expires_is_due(e, id) ? &e->due_bytes : &e->bucket[id].bytes;

        *sum = *sum - was + is;
    }
}

uint64_t expires_count(const struct expires *e)
{
    return expires_size(e);
}

/* ---- beginning and end ------------------------------------------------------------------- */

void expires_begin(struct expires *e, msec_t now)
{
    debug_must(expires_count(e) == 0);
    e->tick = now + 1;
    for (unsigned l = 0; l < EXPIRES_LEVELS; l++) {
        msec_t step = expires_step(l);

        e->horizon[l] = (e->tick & ~(step - 1)) + 2 * step;
    }
}

struct expires *expires_create(char *base, struct budget *budget, msec_t now)
{
    struct expires *e = mem_zalloc(sizeof(*e));

    if (!e) {
        return NULL;
    }
    e->base = base;
    e->far = EXPIRES_FAR;
    e->due_oldest = MSEC_NEVER;
    expires_begin(e, now);
    expires_pool_init(&e->pool, EXPIRES_BUCKETS, budget);
    if (budget) {
        budget_add(budget, sizeof(*e));
    }
    return e;
}

void expires_destroy(struct expires **e)
{
    struct budget *budget;

    if (!*e) {
        return;
    }
    budget = (*e)->pool.budget;
    expires_pool_fini(&(*e)->pool);
    if (budget) {
        budget_add(budget, -(int64_t)sizeof(**e));
    }
    mem_free(*e);
    *e = NULL;
}
