/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of writers on the index: insert, remove, resize, walk. The lookup is in
 * table_inline.h. Everything that changes a bucket runs in the shard. So a word has one writer
 * at a time, which changes it by a relaxed load and a release store.
 *
 * The order of the stores, each of them a release: an insert stores the counts of the buckets
 * it passes over, the handle, and the tag; a removal stores the tag, the handle, and the
 * counts. A move inserts before it removes, so a reader whose acquire load sees anything that
 * the removal cleared finds the item in the new array.
 *
 * The steps of a resize, and what readers may hold at that time:
 *
 *     prepare, touch -                 the new array becomes resident
 *     publish        view (new, old)   some readers know only the old array: nothing moves
 *     begin_move     the same          all readers know both: buckets move from old to new
 *     retire         view (new)        some readers still look in the old array, now empty
 *     waste_release  -                 a grace period later: the old array and views go
 *
 * Inserts go to the new array from publish on. A reader that knows only the old array began
 * before the insert, so it may miss the item. In a rolling resize they go to the old array
 * while their bucket has not moved (roll_insert()).
 */
#include "lib/index/table.h"

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/num.h"

/*
 * In percent of all slots. Growing doubles; shrinking halves as long as the result is below
 * SETTLED.
 */
#define GROW_ABOVE   80u
#define SHRINK_BELOW 15u
#define SETTLED      40u

/*
 * Fill level of a new table with the expected number of items, in percent. If the number is
 * exact, the table may be as full as one that does not grow yet. So in a full cache the indexes
 * of two shards need no more memory than the index of the one shard that had their items
 * before.
 */
#define INIT_FULL 75u

/* Arrays of at least this size ask for huge pages. */
#define HUGE_BYTES ((uint64_t)2 << 20)

/* Maximum distance from its home bucket of an insert in the old array of a rolling resize. */
#define ROLL_PASSES 8u

/* One array, for the functions below. */
struct array {
    struct table_bucket *buckets;
    uint64_t mask;
};

static struct table_view *view_of(const struct table *t)
{
    return atomic_load_explicit(&t->view, memory_order_acquire);
}

static struct array array_new(const struct table_view *v)
{
    return (struct array){v->buckets, v->mask};
}

static struct array array_old(const struct table_view *v)
{
    return (struct array){v->old, v->old_mask};
}

static uint64_t array_bytes(uint64_t buckets)
{
    return buckets * sizeof(struct table_bucket);
}

static struct table_bucket *array_map(uint64_t buckets)
{
    uint64_t bytes = array_bytes(buckets);

    return mem_map(bytes, bytes >= HUGE_BYTES ? MEM_PAGES_HUGE : MEM_PAGES_SMALL);
}

static void count_bytes(struct budget *budget, int64_t bytes)
{
    if (budget != NULL) {
        budget_add(budget, bytes);
    }
}

/* ---- one array: find room, link, unlink -------------------------------------------------- */

static uint64_t load_word(const struct table_bucket *b, unsigned i)
{
    return atomic_load_explicit(&b->word[i], memory_order_relaxed);
}

static unsigned match_bucket(const struct table_bucket *b, uint8_t tag)
{
    return table_match(load_word(b, 0), load_word(b, 1), tag);
}

static void set_tag(struct table_bucket *b, unsigned slot, uint8_t tag)
{
    unsigned shift = slot % 8 * 8;
    uint64_t word = load_word(b, slot / 8);

    word = (word & ~(0xffULL << shift)) | (uint64_t)tag << shift;
    atomic_store_explicit(&b->word[slot / 8], word, memory_order_release);
}

/* Count an item that passes over the buckets from `from` up to `to`, not included. */
static void count_pass(struct array a, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at != to; at = (at + 1) & a.mask) {
        uint64_t word = load_word(&a.buckets[at], 1);

        atomic_store_explicit(&a.buckets[at].word[1], word + TABLE_COUNT_ONE,
                              memory_order_release);
    }
}

/* The reverse of count_pass(). */
static void uncount_pass(struct array a, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at != to; at = (at + 1) & a.mask) {
        uint64_t word = load_word(&a.buckets[at], 1);

        must(word >= TABLE_COUNT_ONE);
        atomic_store_explicit(&a.buckets[at].word[1], word - TABLE_COUNT_ONE,
                              memory_order_release);
    }
}

/* Insert into an array that is not full. */
static void array_insert(struct array a, uint64_t hash, handle_t handle)
{
    uint64_t home = table_home(hash, a.mask);
    uint64_t at = home;
    unsigned empty = match_bucket(&a.buckets[at], 0);

    while (MF_UNLIKELY(empty == 0)) {
        at = (at + 1) & a.mask;
        must(at != home);
        empty = match_bucket(&a.buckets[at], 0);
    }
    if (MF_UNLIKELY(at != home)) {
        count_pass(a, home, at);
    }

    unsigned slot = (unsigned)__builtin_ctz(empty);
    atomic_store_explicit(&a.buckets[at].slot[slot], handle, memory_order_release);
    set_tag(&a.buckets[at], slot, table_tag(hash));
}

static void array_remove(struct array a, uint64_t hash, uint64_t at, unsigned slot)
{
    struct table_bucket *b = &a.buckets[at];

    set_tag(b, slot, 0);
    atomic_store_explicit(&b->slot[slot], 0, memory_order_release);
    uncount_pass(a, table_home(hash, a.mask), at);
}

/* Does this array have the slot? Sets *at to the bucket that it is in. */
static bool array_holds(struct array a, const _Atomic handle_t *slot, uint64_t *at)
{
    uintptr_t offset = (uintptr_t)slot - (uintptr_t)a.buckets;

    *at = offset / sizeof(struct table_bucket);
    return a.buckets != NULL && (uintptr_t)slot >= (uintptr_t)a.buckets && *at <= a.mask;
}

static _Atomic handle_t *array_slot_of(struct array a, uint64_t hash, handle_t handle)
{
    uint8_t tag = table_tag(hash);

    for (uint64_t at = hash >> TABLE_TAG_BITS, passed = 0;; at++) {
        struct table_bucket *b = &a.buckets[at & a.mask];

        for (unsigned hits = match_bucket(b, tag); hits != 0; hits &= hits - 1) {
            _Atomic handle_t *slot = &b->slot[(unsigned)__builtin_ctz(hits)];

            if (atomic_load_explicit(slot, memory_order_relaxed) == handle) {
                return slot;
            }
        }
        if (load_word(b, 1) < TABLE_COUNT_ONE || passed++ == a.mask) {
            return NULL;
        }
    }
}

/* ---- begin and end ----------------------------------------------------------------------- */

static bool is_too_full(uint64_t items, uint64_t buckets, unsigned pct)
{
    return items * 100 > buckets * TABLE_SLOTS * pct;
}

static uint64_t buckets_for(uint64_t items, unsigned pct)
{
    uint64_t buckets = TABLE_MIN_BUCKETS;

    while (is_too_full(items, buckets, pct)) {
        buckets *= 2;
    }
    return buckets;
}

uint64_t table_items_in(uint64_t bytes)
{
    uint64_t buckets = TABLE_MIN_BUCKETS;

    while (array_bytes(buckets * 2) <= bytes) {
        buckets *= 2;
    }
    return buckets * TABLE_SLOTS * INIT_FULL / 100;
}

void table_set_least(struct table *t, uint64_t items)
{
    table_must_be_entered(t);
    t->min_buckets = buckets_for(items, INIT_FULL);
}

bool table_init(struct table *t, uint64_t items, uint64_t seed, struct budget *budget,
                const struct lock *lock)
{
    uint64_t buckets = buckets_for(items, INIT_FULL);
    struct table_view *v = mem_zalloc(sizeof(*v));

    if (v == NULL) {
        return false;
    }
    v->buckets = array_map(buckets);
    if (v->buckets == NULL) {
        mem_free(v);
        return false;
    }
    v->mask = buckets - 1;
    if (array_bytes(buckets) <= MEM_TOUCH_BYTES) {
        mem_touch(v->buckets, array_bytes(buckets));
    } /* a hint requested a larger table; it is unknown how soon that will be full */

    *t = (struct table){.budget = budget, .lock = lock, .min_buckets = buckets, .seed = seed};
    t->phase = TABLE_STEADY;
    t->ready = TABLE_ALL;
    t->part_buckets = TABLE_PART_BUCKETS;
    atomic_init(&t->view, v);
    count_bytes(budget, (int64_t)array_bytes(buckets));
    return true;
}

void table_rest(struct table *t)
{
    struct table_view *v = view_of(t);

    table_must_be_entered(t);
    must(t->count == 0);
    mem_discard_zeros(v->buckets, array_bytes(v->mask + 1));
}

void table_fini(struct table *t)
{
    struct table_view *v = view_of(t);

    count_bytes(t->budget, -(int64_t)table_bytes(t));
    mem_unmap(v->buckets, array_bytes(v->mask + 1));
    if (v->old != NULL) {
        mem_unmap(v->old, array_bytes(v->old_mask + 1));
    }
    mem_free(t->before);
    mem_free(t->after);
    mem_free(v);
    t->before = NULL;
    t->after = NULL;
    atomic_store_explicit(&t->view, NULL, memory_order_relaxed);
}

/* ---- single keys ------------------------------------------------------------------------- */

/* The slot of a key in either array, old first, or NULL; *handle is set to what it held. */
static _Atomic handle_t *lookup_both(const struct table_view *v, const char *base,
                                     uint64_t hash, const char *key, size_t key_len,
                                     handle_t *handle)
{
    struct array arrays[2] = {array_old(v), array_new(v)};

    for (unsigned i = v->old != NULL ? 0 : 1; i < 2; i++) {
        _Atomic handle_t *slot =
            table_lookup(arrays[i].buckets, arrays[i].mask, base, hash, key, key_len, handle);

        if (slot != NULL) {
            return slot;
        }
    }
    return NULL;
}

const struct item *table_find_slowly(const struct table_view *v, const char *base,
                                     uint64_t hash, const char *key, size_t key_len)
{
    handle_t h;

    return lookup_both(v, base, hash, key, key_len, &h) == NULL ? NULL : table_item(base, h);
}

_Atomic handle_t *table_slot_slowly(const struct table_view *v, const char *base, uint64_t hash,
                                    const char *key, size_t key_len)
{
    handle_t h;

    return lookup_both(v, base, hash, key, key_len, &h);
}

_Atomic handle_t *table_slot_of(struct table *t, uint64_t hash, handle_t handle)
{
    const struct table_view *v = view_of(t);
    _Atomic handle_t *slot = NULL;

    table_must_be_entered(t);
    if (v->old != NULL) {
        slot = array_slot_of(array_old(v), hash, handle);
    }
    if (slot == NULL) {
        slot = array_slot_of(array_new(v), hash, handle);
    }
    return slot;
}

/*
 * Insert into the old array during a rolling resize, so that most pages of the new one are
 * untouched until their turn. False: the bucket has moved, or there is no room near it. An item
 * never passes the end of the array, since the first buckets may have moved. Context: in shard.
 */
static bool roll_insert(struct table *t, uint64_t hash, handle_t handle)
{
    struct array a = array_old(view_of(t));
    uint64_t home = table_home(hash, a.mask);
    uint64_t end = home + ROLL_PASSES <= a.mask ? home + ROLL_PASSES : a.mask;

    if (home < t->move_next) {
        return false;
    }
    for (uint64_t at = home; at <= end; at++) {
        if (match_bucket(&a.buckets[at], 0) != 0) {
            array_insert(a, hash, handle);
            return true;
        }
    }
    return false;
}

void table_insert(struct table *t, uint64_t hash, handle_t handle)
{
    table_must_be_entered(t);
    debug_must(handle != 0 && table_has_room(t));
    if (MF_LIKELY(t->ready == TABLE_ALL) || !roll_insert(t, hash, handle)) {
        array_insert(array_new(view_of(t)), hash, handle);
    }
    t->count++;
}

void table_remove(struct table *t, uint64_t hash, _Atomic handle_t *slot)
{
    const struct table_view *v = view_of(t);
    struct array a = array_new(v);
    uint64_t at;

    table_must_be_entered(t);
    if (!array_holds(a, slot, &at)) {
        a = array_old(v);
        must(array_holds(a, slot, &at));
    }
    must(t->count > 0);
    array_remove(a, hash, at, (unsigned)(slot - a.buckets[at].slot));
    t->count--;
}

/* ---- resizing ---------------------------------------------------------------------------- */

void table_ask(struct table *t, uint64_t items, bool rolls)
{
    table_must_be_entered(t);
    t->asked = buckets_for(items, GROW_ABOVE);
    t->asked_rolls = rolls;
}

uint64_t table_bytes_for(uint64_t items)
{
    return array_bytes(buckets_for(items, GROW_ABOVE));
}

uint64_t table_wants(const struct table *t)
{
    uint64_t have = view_of(t)->mask + 1;
    uint64_t want = have;

    table_must_be_entered(t);
    if (t->phase != TABLE_STEADY) {
        return 0;
    }
    if (MF_UNLIKELY(t->asked != 0) && t->asked != have &&
        !is_too_full(t->count, t->asked, GROW_ABOVE)) {
        return t->asked;
    }
    if (is_too_full(t->count, have, GROW_ABOVE)) {
        return have * 2;
    }
    if (!is_too_full(t->count, have, SHRINK_BELOW)) {
        while (want > t->min_buckets && !is_too_full(t->count, want / 2, SETTLED)) {
            want /= 2;
        }
    }
    return want == have ? 0 : want;
}

bool table_prepare(const struct table *t, uint64_t buckets, struct table_grow *grow)
{
    debug_must(t->lock == NULL || !lock_is_held_here(t->lock));
    must(buckets >= TABLE_MIN_BUCKETS && (buckets & (buckets - 1)) == 0);
    *grow = (struct table_grow){0};
    grow->view = mem_zalloc(sizeof(*grow->view));
    grow->after = mem_zalloc(sizeof(*grow->after));
    if (grow->view == NULL || grow->after == NULL) {
        goto fail;
    }
    grow->view->buckets = array_map(buckets);
    if (grow->view->buckets == NULL) {
        goto fail;
    }
    grow->view->mask = buckets - 1;
    grow->bytes = array_bytes(buckets);
    count_bytes(t->budget, (int64_t)grow->bytes);
    return true;

fail:
    mem_free(grow->view);
    mem_free(grow->after);
    *grow = (struct table_grow){0};
    return false;
}

void table_prepare_undo(const struct table *t, struct table_grow *grow)
{
    if (grow->view != NULL) {
        count_bytes(t->budget, -(int64_t)grow->bytes);
        mem_unmap(grow->view->buckets, grow->bytes);
        mem_free(grow->view);
        mem_free(grow->after);
    }
    *grow = (struct table_grow){0};
}

bool table_touch(struct table_grow *grow)
{
    return mem_touch_next(grow->view->buckets, grow->bytes, &grow->touched);
}

void table_publish(struct table *t, struct table_grow *grow)
{
    struct table_view *now = view_of(t);
    struct table_view *next = grow->view;

    table_must_be_entered(t);
    must(t->phase == TABLE_STEADY && next != NULL);
    next->old = now->buckets;
    next->old_mask = now->mask;
    t->asked = 0;
    t->asked_rolls = false;
    t->ready = grow->rolls ? 0 : TABLE_ALL;
    t->touched = 0;
    t->drained = 0;
    t->move_next = 0;

    /*
     * If the new array has become too small, it plays the part of the old one: it is empty, so
     * nothing will move, and it is the waste that the resize leaves.
     */
    if (next->mask < now->mask && is_too_full(t->count, next->mask + 1, GROW_ABOVE)) {
        next->old = next->buckets;
        next->old_mask = next->mask;
        next->buckets = now->buckets;
        next->mask = now->mask;
        t->ready = TABLE_ALL;
    }

    t->before = now;
    t->after = grow->after;
    t->after->buckets = next->buckets;
    t->after->mask = next->mask;
    t->phase = TABLE_PUBLISHED;
    atomic_store_explicit(&t->view, next, memory_order_release);
    *grow = (struct table_grow){0};
}

void table_begin_move(struct table *t)
{
    table_must_be_entered(t);
    must(t->phase == TABLE_PUBLISHED);
    t->phase = TABLE_MOVING;
}

static uint64_t hash_of(const struct table *t, const char *base, handle_t h)
{
    const struct item *it = table_item(base, h);

    return hash_key(t->seed, item_key(it), it->key_len);
}

static void prefetch_items(const struct table_bucket *b, const char *base)
{
    for (unsigned i = 0; i < TABLE_SLOTS; i++) {
        handle_t h = atomic_load_explicit(&b->slot[i], memory_order_relaxed);

        if (h != 0) {
            __builtin_prefetch(table_item(base, h));
        }
    }
}

/*
 * Move everything in one old bucket, wherever its home is. All keys are hashed first, so that
 * the cache misses overlap.
 */
static void move_bucket(struct table *t, const char *base, const struct table_view *v,
                        uint64_t at)
{
    struct table_bucket *b = &v->old[at];
    uint64_t hashes[TABLE_SLOTS];

    for (unsigned i = 0; i < TABLE_SLOTS; i++) {
        handle_t h = atomic_load_explicit(&b->slot[i], memory_order_relaxed);

        if (h != 0) {
            hashes[i] = hash_of(t, base, h);
            __builtin_prefetch(&v->buckets[table_home(hashes[i], v->mask)], 1);
        }
    }
    for (unsigned i = 0; i < TABLE_SLOTS; i++) {
        handle_t h = atomic_load_explicit(&b->slot[i], memory_order_relaxed);

        if (h != 0) {
            array_insert(array_new(v), hashes[i], h);
            array_remove(array_old(v), hashes[i], at, i);
        }
    }
}

bool table_step(struct table *t, const char *base, uint64_t buckets)
{
    const struct table_view *v = view_of(t);
    const uint64_t end = t->ready <= v->old_mask ? t->ready : v->old_mask + 1;

    table_must_be_entered(t);
    if (t->phase == TABLE_DRAINED) {
        return true;
    }
    must(t->phase == TABLE_MOVING);

    if (buckets > 0 && t->move_next < end) {
        prefetch_items(&v->old[t->move_next], base);
    }
    for (; buckets > 0 && t->move_next < end; buckets--, t->move_next++) {
        if (buckets > 1 && t->move_next + 1 < end) {
            prefetch_items(&v->old[t->move_next + 1], base);
        }
        move_bucket(t, base, v, t->move_next);
    }
    if (t->move_next <= v->old_mask) {
        return false;
    }
    t->phase = TABLE_DRAINED;
    return true;
}

void table_retire(struct table *t, struct table_waste *waste)
{
    struct table_view *v = view_of(t);

    table_must_be_entered(t);
    must(t->phase == TABLE_DRAINED);
    waste->views[0] = t->before;
    waste->views[1] = v;
    waste->array = v->old;
    waste->array_bytes = array_bytes(v->old_mask + 1);

    atomic_store_explicit(&t->view, t->after, memory_order_release);
    t->before = NULL;
    t->after = NULL;
    t->phase = TABLE_STEADY;
    t->ready = TABLE_ALL;
}

void table_waste_release(struct table_waste *waste, struct budget *budget)
{
    mem_free(waste->views[0]);
    mem_free(waste->views[1]);
    if (waste->array != NULL) {
        mem_unmap(waste->array, waste->array_bytes);
        count_bytes(budget, -(int64_t)waste->array_bytes);
    }
    *waste = (struct table_waste){0};
}

void table_swap(struct table *t, struct table *other)
{
    struct table_view *view = view_of(t);
    struct table_view *views[2] = {t->before, t->after};
    enum table_phase phase = t->phase;
    uint64_t count = t->count;
    uint64_t roll[] = {t->move_next, t->ready, t->touched, t->drained};

    table_must_be_entered(t);
    debug_must(t->lock == other->lock && t->seed == other->seed);
    t->before = other->before;
    t->after = other->after;
    t->phase = other->phase;
    t->count = other->count;
    t->move_next = other->move_next;
    t->ready = other->ready;
    t->touched = other->touched;
    t->drained = other->drained;
    other->before = views[0];
    other->after = views[1];
    other->phase = phase;
    other->count = count;
    other->move_next = roll[0];
    other->ready = roll[1];
    other->touched = roll[2];
    other->drained = roll[3];
    atomic_store_explicit(&t->view, view_of(other), memory_order_release);
    atomic_store_explicit(&other->view, view, memory_order_relaxed);
}

uint64_t table_bytes(const struct table *t)
{
    const struct table_view *v = view_of(t);

    return array_bytes(v->mask + 1) + (v->old != NULL ? array_bytes(v->old_mask + 1) : 0);
}

/* ---- walk -------------------------------------------------------------------------------- */

static uint64_t reverse_bits(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555ULL) | (x & 0x5555555555555555ULL) << 1;
    x = (x >> 2 & 0x3333333333333333ULL) | (x & 0x3333333333333333ULL) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fULL) | (x & 0x0f0f0f0f0f0f0f0fULL) << 4;
    return __builtin_bswap64(x);
}

/* The next cursor: counts from the highest bit of the mask down. */
static uint64_t cursor_next(uint64_t cursor, uint64_t mask)
{
    return reverse_bits(reverse_bits(cursor | ~mask) + 1);
}

/*
 * The cursor some positions further on. Reversed, the bits of the mask are a counter at the
 * top, and those beyond it, which the first step carries over, are zero after that.
 */
static uint64_t cursor_ahead(uint64_t cursor, uint64_t mask, unsigned positions)
{
    uint64_t one = 1ULL << (unsigned)__builtin_clzll(mask);

    return reverse_bits(reverse_bits(cursor | ~mask) + 1 + (positions - 1) * one);
}

/* The callback of a walk. */
struct walker {
    table_walk_fn fn;
    void *arg;
};

/*
 * Report the items whose home is pos, there and in the buckets that they may have moved on to.
 */
static void walk_home(const struct table *t, const char *base, struct array a, uint64_t pos,
                      const struct walker *w)
{
    for (uint64_t passed = 0; passed <= a.mask; passed++) {
        struct table_bucket *b = &a.buckets[(pos + passed) & a.mask];
        uint64_t word1 = atomic_load_explicit(&b->word[1], memory_order_acquire);

        for (unsigned i = 0; i < TABLE_SLOTS; i++) {
            handle_t h = atomic_load_explicit(&b->slot[i], memory_order_acquire);
            uint64_t hash = h != 0 ? hash_of(t, base, h) : 0;

            if (h != 0 && table_home(hash, a.mask) == pos) {
                w->fn(w->arg, h, hash);
            }
        }
        if (word1 < TABLE_COUNT_ONE) {
            return;
        }
    }
}

/* Report the positions of one array that make one position of an array of small + 1 buckets. */
static void walk_part(const struct table *t, const char *base, struct array a, uint64_t small,
                      uint64_t cursor, const struct walker *w)
{
    do {
        walk_home(t, base, a, cursor & a.mask, w);
        cursor = cursor_next(cursor, a.mask);
    } while ((cursor & (a.mask ^ small)) != 0);
}

/* Walk one position and count it; returns the next. */
static uint64_t walk_position(const struct table *t, const char *base, uint64_t cursor,
                              const struct walker *w, uint64_t *positions)
{
    const struct table_view *v = view_of(t);
    uint64_t small = v->mask;

    table_must_be_readable(t);
    /* The old array first: items that move at the same time go from old to new. */
    if (v->old != NULL) {
        small = v->old_mask < v->mask ? v->old_mask : v->mask;
        walk_part(t, base, array_old(v), small, cursor, w);
    }
    walk_part(t, base, array_new(v), small, cursor, w);
    *positions = small + 1;
    return cursor_next(cursor, small);
}

uint64_t table_walk(const struct table *t, const char *base, uint64_t cursor, table_walk_fn fn,
                    void *arg)
{
    struct walker w = {fn, arg};
    uint64_t positions;

    return walk_position(t, base, cursor, &w, &positions);
}

/* Number of positions in advance at which a bucket is prefetched, and then its items. */
#define AHEAD_BUCKET 8u
#define AHEAD_ITEMS  4u

/* Prefetch the next positions in one array. Most items extend into a second cache line. */
static void prefetch_ahead(struct array a, const char *base, uint64_t cursor)
{
    const struct table_bucket *b =
        &a.buckets[cursor_ahead(cursor, a.mask, AHEAD_ITEMS) & a.mask];

    __builtin_prefetch(&a.buckets[cursor_ahead(cursor, a.mask, AHEAD_BUCKET) & a.mask]);
    for (unsigned i = 0; i < TABLE_SLOTS; i++) {
        handle_t h = atomic_load_explicit(&b->slot[i], memory_order_relaxed);

        if (h != 0) {
            __builtin_prefetch(table_item(base, h));
            __builtin_prefetch((const char *)table_item(base, h) + TABLE_CACHE_LINE);
        }
    }
}

uint64_t table_walk_ahead(const struct table *t, const char *base, uint64_t cursor,
                          table_walk_fn fn, void *arg, uint64_t *positions)
{
    const struct table_view *v = view_of(t);
    struct walker w = {fn, arg};

    if (v->old != NULL) {
        prefetch_ahead(array_old(v), base, cursor);
    }
    prefetch_ahead(array_new(v), base, cursor);
    return walk_position(t, base, cursor, &w, positions);
}

bool table_walk_passed(uint64_t cursor, uint64_t hash)
{
    return reverse_bits(hash >> TABLE_TAG_BITS) < reverse_bits(cursor);
}
