/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard as a whole: made and released, its index resized, flushed, looked up in.
 */
#include "lib/shard/shard.h"

#include <string.h>

#include "lib/base/check.h"

/* Index at start, when nothing else is asked for: small, it grows in steps. */
#define ITEMS_AT_START 4096

/* The largest block: a sixteenth of a segment, and what the size field can tell. */
static uint32_t block_max_units(const struct arena *a)
{
    uint32_t units = segment_bytes(a) / 16 / ITEM_UNIT;

    return units < ITEM_SIZE_MAX ? units : ITEM_SIZE_MAX;
}

static bool init_parts(struct shard *s, uint64_t limit, uint64_t share, uint64_t items)
{
    struct engine *e = s->engine;

    if (!arena_init(&s->arena, limit, share, &e->budget, reclaim_grace(e->reclaimer))) {
        return false;
    }
    s->block_max_units = block_max_units(&s->arena);
    s->piece_max = s->block_max_units * ITEM_UNIT - (uint32_t)sizeof(struct item);
    if (!blocks_init(s, share) || !table_init(&s->table, items, s->seed, &e->budget)) {
        return false;
    }
    s->wheel = wheel_create(s->arena.base, &e->budget, &s->lock, clock_now(&e->clock));
    return s->wheel != NULL;
}

struct shard *shard_create(struct engine *e, uint32_t id)
{
    uint64_t limit = e->config.limit_bytes;
    uint64_t hint = e->config.items_hint / e->config.shards;
    struct shard *s = mem_alloc_aligned(sizeof(*s), 64);

    if (s == NULL) {
        return NULL;
    }
    memset(s, 0, sizeof(*s));
    s->magic = SHARD_MAGIC;
    s->id = id;
    s->engine = e;
    s->seed = e->config.seed;
    s->evictions = e->config.evictions;
    atomic_init(&s->flush_at, MSEC_NEVER);
    atomic_init(&s->next_due, MSEC_NEVER);
    lock_init(&s->lock);
    cycle_init(&s->cycle);
    s->items_at_start = hint > ITEMS_AT_START ? hint : ITEMS_AT_START;
    if (!init_parts(s, limit, limit / e->config.shards, s->items_at_start)) {
        shard_destroy(&s);
    }
    return s;
}

void shard_destroy(struct shard **sp)
{
    struct shard *s = *sp;

    if (s == NULL) {
        return;
    }
    must(s->magic == SHARD_MAGIC);
    ghost_destroy(&s->ghost, &s->engine->budget);
    shard_flush_fini(s);
    wheel_destroy(&s->wheel);
    if (atomic_load_explicit(&s->table.view, memory_order_relaxed) != NULL) {
        table_fini(&s->table);
    }
    mem_free(s->table_retiree);
    blocks_fini(s);
    if (s->arena.base != NULL) {
        arena_fini(&s->arena);
    }
    s->magic = 0;
    mem_free(s);
    *sp = NULL;
}

const struct counters *shard_counters(const struct shard *s)
{
    return &s->counters;
}

/* ---- looking up -------------------------------------------------------------------------- */

void engine_prefetch_bucket(const struct route *rt, uint64_t hash)
{
    table_prefetch_bucket(&route_shard(rt, hash)->table, hash);
}

void engine_prefetch_items(const struct route *rt, const uint64_t *hash, size_t stride,
                           unsigned n)
{
    const char *p = (const char *)hash;

    for (; n > 0; n--, p += stride) {
        uint64_t h = *(const uint64_t *)(const void *)p;
        const struct shard *s = route_shard(rt, h);

        table_prefetch_item(&s->table, s->arena.base, h);
    }
}

void shard_tell(struct shard *s, const struct item *it, enum engine_event_kind kind, msec_t now)
{
    struct engine *e = s->engine;
    struct engine_event ev = {kind, it, now};

    if ((atomic_load_explicit(&e->observed, memory_order_acquire) & 1u << kind) != 0) {
        e->config.observer(e->config.observer_arg, &ev);
    }
}

/* A reader met a due item: unlink it if nobody is in the shard, else the sampler will. */
static void expire_lazily(struct shard *s, uint64_t hash, const char *key, size_t key_len,
                          msec_t now)
{
    if (!shard_try_enter(s)) {
        return;
    }

    _Atomic handle_t *slot = table_slot(&s->table, s->arena.base, hash, key, key_len);

    if (slot != NULL) {
        const struct item *it = shard_item(s, atomic_load_explicit(slot, memory_order_relaxed));

        if (item_is_due(it, now)) {
            ctr_add(&s->counters, CTR_expired_lazy, 1);
            if (!item_was_fetched(it)) {
                ctr_add(&s->counters, CTR_expired_unfetched, 1);
            }
            shard_observe(s, it, ENGINE_EXPIRED_LAZY, now);
            keyspace_unlink(s, hash, slot, DEATH_EXPIRE);
        }
    }
    shard_leave(s);
}

static const struct item *find_in(struct shard *s, uint64_t hash, const char *key,
                                  size_t key_len, msec_t now, enum miss *miss)
{
    const struct item *it;

    /* Acquire: whoever sees the flush over sees the new index too. */
    if (MF_UNLIKELY(now >= atomic_load_explicit(&s->flush_at, memory_order_acquire))) {
        *miss = MISS_FLUSHED;
        return NULL;
    }
    it = table_find(&s->table, s->arena.base, hash, key, key_len);
    if (it != NULL && MF_UNLIKELY(item_is_due(it, now))) {
        *miss = MISS_EXPIRED;
        expire_lazily(s, hash, key, key_len, now);
        return NULL;
    }
    return it;
}

/* All of engine_find(), with everything that is rare. */
static MF_NOINLINE struct found find_slowly(const struct route *rt, uint64_t hash,
                                            const char *key, size_t key_len, msec_t now)
{
    const struct route_slot *rs = route_slot(rt, hash);
    struct found f = {NULL, rt->shards[rs->from], MISS_ABSENT};

    f.item = find_in(f.shard, hash, key, key_len, now, &f.miss);
    if (f.item == NULL && route_is_moving(rs)) {
        f.shard = rt->shards[rs->to];
        f.item = find_in(f.shard, hash, key, key_len, now, &f.miss);
    }
    return f;
}

struct found engine_find(struct engine *e, const struct route *rt, uint64_t hash,
                         const char *key, size_t key_len, msec_t now)
{
    const struct route_slot *rs = route_slot(rt, hash);
    struct shard *s = rt->shards[rs->from];

    (void)e;
    /* Acquire: whoever sees the flush over sees the new index too. */
    if (MF_LIKELY(now < atomic_load_explicit(&s->flush_at, memory_order_acquire))) {
        const struct item *it = table_find(&s->table, s->arena.base, hash, key, key_len);

        if (it != NULL ? MF_LIKELY(!item_is_due(it, now)) : !route_is_moving(rs)) {
            return (struct found){it, s, MISS_ABSENT};
        }
    }
    return find_slowly(rt, hash, key, key_len, now);
}

/* ---- resizing the index ------------------------------------------------------------------ */

/* What a resize leaves; made before it begins, so that its end cannot fail. */
struct table_retiree {
    struct retired retired;
    struct table_waste waste;
    struct budget *budget;
    int64_t bytes;
};

static void release_waste(struct retired *r)
{
    struct table_retiree *t = (struct table_retiree *)(void *)r;

    budget_retire(t->budget, -t->bytes);
    table_waste_release(&t->waste, t->budget);
    mem_free(t);
}

static void begin_resize(struct shard *s)
{
    struct table_grow grow;
    struct table_retiree *t = NULL;
    uint64_t want;

    shard_enter(s);
    want = table_wants(&s->table);
    shard_leave(s);
    if (want == 0 || !table_prepare(&s->table, want, &grow)) {
        return;
    }
    t = mem_zalloc(sizeof(*t));
    if (t == NULL) {
        table_prepare_undo(&s->table, &grow);
        return;
    }
    shard_enter(s);
    if (table_wants(&s->table) == want && s->table_retiree == NULL) {
        table_publish(&s->table, &grow);
        s->table_stamp = grace_stamp(s->arena.grace);
        s->table_retiree = t;
        t = NULL;
    }
    shard_leave(s);
    if (t != NULL) {
        table_prepare_undo(&s->table, &grow); /* somebody else was faster */
        mem_free(t);
    } else {
        grace_ask(s->arena.grace, GRACE_SOON);
    }
}

bool shard_resize_step(struct shard *s, uint64_t buckets)
{
    if (s->table.phase == TABLE_STEADY) {
        return false;
    }
    if (s->table.phase == TABLE_PUBLISHED) {
        if (!grace_is_over(s->arena.grace, s->table_stamp)) {
            return true;
        }
        table_begin_move(&s->table);
    }
    if (table_step(&s->table, s->arena.base, buckets)) {
        struct table_retiree *t = s->table_retiree;

        s->table_retiree = NULL;
        table_retire(&s->table, &t->waste);
        t->budget = &s->engine->budget;
        t->bytes = (int64_t)t->waste.array_bytes;
        budget_retire(t->budget, t->bytes);
        t->retired.fn = release_waste;
        reclaim_push(s->engine->reclaimer, &t->retired);
        return false;
    }
    return true;
}

/* ---- what writers and the home worker carry on ------------------------------------------- */

bool shard_wants_work(const struct shard *s)
{
    return atomic_load_explicit(&s->wants_work, memory_order_relaxed);
}

/* Make or enlarge the ghost; outside the shard but for the swap. */
static void grow_ghost(struct shard *s)
{
    uint64_t items = ctr_get(&s->counters, CTR_curr_items);
    struct ghost fresh;
    struct ghost old;

    if (!ghost_create(&fresh, items + items / 8 + 1024, &s->engine->budget)) {
        return;
    }
    shard_enter(s);
    old = s->ghost;
    s->ghost = fresh;
    s->ghost_wanted = false;
    shard_leave(s);
    ghost_destroy(&old, &s->engine->budget);
}

static bool ghost_is_small(const struct shard *s)
{
    return s->ghost_wanted &&
           ghost_capacity(&s->ghost) < ctr_get(&s->counters, CTR_curr_items) / 2 + 512;
}

void shard_note_work(struct shard *s)
{
    bool memory =
        (s->table.phase == TABLE_STEADY && table_wants(&s->table) != 0) || ghost_is_small(s);
    bool work = memory || s->table.phase != TABLE_STEADY || cursor_wants_tidy(s) ||
                budget_left(&s->engine->budget) < 0;

    if (MF_UNLIKELY(work != atomic_load_explicit(&s->wants_work, memory_order_relaxed))) {
        atomic_store_explicit(&s->wants_work, work, memory_order_relaxed);
    }
    if (MF_UNLIKELY(memory != atomic_load_explicit(&s->wants_memory, memory_order_relaxed))) {
        atomic_store_explicit(&s->wants_memory, memory, memory_order_relaxed);
    }
}

void shard_make_wanted(struct shard *s)
{
    bool wants_resize;
    bool wants_ghost;

    shard_enter(s);
    wants_resize = s->table.phase == TABLE_STEADY && table_wants(&s->table) != 0;
    wants_ghost = ghost_is_small(s);
    shard_leave(s);
    if (wants_resize) {
        begin_resize(s);
    }
    if (wants_ghost) {
        grow_ghost(s);
    }
    shard_enter(s);
    shard_note_work(s);
    shard_leave(s);
}

/* Work of the cursor at once by the home worker. */
#define HOME_WORK 256

/* One round: true when another is wanted at once. */
static bool maintain_once(struct shard *s, uint64_t buckets, msec_t now)
{
    bool more;

    shard_enter(s);
    more = shard_resize_step(s, buckets) && s->table.phase == TABLE_MOVING;
    room_release(s);
    blocks_ripen(s, 64);
    if (room_is_short(s) && ctr_get(&s->counters, CTR_curr_items) > 0) {
        more = cursor_slice(s, HOME_WORK, now) || more;
        room_release(s);
    } else if (cursor_wants_tidy(s)) {
        more = cursor_tidy(s, HOME_WORK, now) || more;
    }
    shard_note_work(s);
    shard_leave(s);
    shard_after_leave(s);
    return more;
}

/* Buckets moved at once by the home worker: some ten microseconds. */
#define HOME_BUCKETS 32

bool shard_maintain(struct shard *s, msec_t now, usec_t max_us)
{
    usec_t start;
    bool more;

    if (now >= atomic_load_explicit(&s->flush_at, memory_order_relaxed)) {
        shard_flush(s, now);
    }
    start = clock_mono_us();
    do {
        more = maintain_once(s, HOME_BUCKETS, now);
    } while (more && clock_mono_us() - start < max_us);
    return more;
}
