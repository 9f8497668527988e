/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timing wheel: adding and removing items, in buckets that are chains of nodes. See
 * wheel_shape.h for the shape of the wheel and wheel_pool.h for the nodes; time and sampling
 * are in wheel_time.c. Every call takes constant time.
 */
#include "lib/expiry/wheel.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "lib/base/check.h"
#include "lib/expiry/wheel_shape.h"

static inline void set_node(const struct wheel *w, handle_t handle, uint32_t number)
{
    item_set_node(item_at(w->base, handle), number);
}

static inline void set_count(struct wheel *w, uint64_t count)
{
    atomic_store_explicit(&w->count, count, memory_order_relaxed);
}

static void clear_due(struct wheel *w, unsigned id)
{
    w->due[id / 64] &= ~(1ULL << (id % 64));
    if (w->due[id / 64] == 0) {
        w->due_words &= ~(1ULL << (id / 64));
    }
}

/* ---- chains ------------------------------------------------------------------------------ */

void wheel_bucket_emptied(struct wheel *w, unsigned id)
{
    struct wheel_bucket *b = &w->bucket[id];

    wheel_must_be_entered(w);
    must(b->count == 0);
    b->top = 0;
    b->bytes = 0;
    w->occupied[id / 64] &= ~(1ULL << (id % 64));
    if (w->occupied[id / 64] == 0) {
        w->occupied_words &= ~(1ULL << (id / 64));
    }
    clear_due(w, id);
    if (id == WHEEL_DUE) {
        w->due_oldest = MSEC_NEVER;
    }
}

/* A bucket is about to get its first node. */
static void bucket_filled(struct wheel *w, unsigned id)
{
    w->occupied[id / 64] |= 1ULL << (id % 64);
    w->occupied_words |= 1ULL << (id / 64);
    if (id == WHEEL_DUE) {
        wheel_mark_due(w, id);
    }
}

/* Put an empty node on top. Returns the position before its first handle. */
static MF_NOINLINE uint32_t push_node(struct wheel *w, unsigned id)
{
    struct wheel_bucket *b = &w->bucket[id];
    uint32_t number = wheel_pool_take(&w->pool);
    struct wheel_node *n = wheel_node_at(&w->pool, number);

    n->bucket = id;
    n->prev = 0;
    n->next = b->top / NODE_WORDS;
    if (b->top) {
        wheel_node_at(&w->pool, n->next)->prev = number;
    } else {
        bucket_filled(w, id);
    }
    return number * NODE_WORDS + NODE_WORD_FIRST - 1;
}

/* Take off the top node, which is empty. */
static MF_NOINLINE void pop_node(struct wheel *w, unsigned id)
{
    struct wheel_bucket *b = &w->bucket[id];
    uint32_t number = b->top / NODE_WORDS;
    uint32_t next = wheel_node_at(&w->pool, number)->next;

    if (next) {
        struct wheel_node *n = wheel_node_at(&w->pool, next);

        n->prev = 0;
        b->top = next * NODE_WORDS + NODE_WORD_LAST;
        __builtin_prefetch(wheel_node_at(&w->pool, n->next ? (uint32_t)n->next : next));
    } else {
        wheel_bucket_emptied(w, id);
    }
    wheel_pool_give(&w->pool, number, wheel_size(w));
}

/* Is a node needed for the next handle? Yes if the bucket is empty (0) or at the last word. */
static inline bool needs_node(uint32_t top)
{
    return (top + 1) % NODE_WORDS < NODE_WORD_FIRST;
}

/* Write a handle to the next position of a bucket, and count it. */
static inline void store_handle(struct wheel *w, struct wheel_bucket *b, uint32_t pos,
                                handle_t handle)
{
    *wheel_handle_at(&w->pool, pos) = handle;
    set_node(w, handle, pos / NODE_WORDS);
    b->top = pos;
    b->count++;
    set_count(w, wheel_size(w) + 1);
}

/* Append an item to a bucket of a ring, or a far one, that needs another node for it. */
static MF_NOINLINE void attach_in_new_node(struct wheel *w, unsigned id, handle_t handle,
                                           uint32_t bytes)
{
    struct wheel_bucket *b = &w->bucket[id];

    store_handle(w, b, push_node(w, id) + 1, handle);
    b->bytes += bytes;
}

/* Append an item to a bucket of a ring, or a far one. */
static inline void attach(struct wheel *w, unsigned id, handle_t handle, uint32_t bytes)
{
    struct wheel_bucket *b = &w->bucket[id];
    uint32_t pos = b->top;

    if (MF_UNLIKELY(needs_node(pos))) {
        attach_in_new_node(w, id, handle, bytes);
        return;
    }
    store_handle(w, b, pos + 1, handle);
    b->bytes += bytes;
}

/* Where a handle is in its node. After the last one, those of earlier times may be left. */
static inline uint32_t find_handle(const struct wheel *w, uint32_t number, handle_t handle)
{
    const struct wheel_node *n = wheel_node_at(&w->pool, number);

#ifdef __SSE2__
    _Static_assert(sizeof(*n) == 64 && NODE_WORDS == 16,
                   "four vectors, of which each has a bit");
    const __m128i *words = (const __m128i *)(const void *)n;
    const __m128i wanted = _mm_set1_epi32((int)handle);
    __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(wanted, _mm_load_si128(words)),
                                  _mm_cmpeq_epi32(wanted, _mm_load_si128(words + 1)));
    __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(wanted, _mm_load_si128(words + 2)),
                                   _mm_cmpeq_epi32(wanted, _mm_load_si128(words + 3)));
    unsigned found = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high));

    found &= ~0u << NODE_WORD_FIRST;
    debug_must(found != 0);
    return number * NODE_WORDS + (uint32_t)__builtin_ctz(found);
#else
    uint32_t i = 0;

    while (i < NODE_HANDLES - 1 && n->handle[i] != handle) {
        i++;
    }
    debug_must(n->handle[i] == handle);
    return number * NODE_WORDS + NODE_WORD_FIRST + i;
#endif
}

/* Count one item less in a bucket. */
static inline void uncount(struct wheel *w, struct wheel_bucket *b, uint32_t bytes)
{
    debug_must(b->count > 0 && b->top != 0);
    b->count--;
    if (MF_UNLIKELY(wheel_is_due(w, (unsigned)(b - w->bucket)))) {
        w->due_keys--;
        w->due_bytes -= bytes;
    } else {
        b->bytes -= bytes;
    }
    set_count(w, wheel_size(w) - 1);
}

/* Put the last handle of a bucket in the place of another. */
static inline void fill_gap(const struct wheel *w, const struct wheel_bucket *b,
                            uint32_t number, handle_t handle)
{
    handle_t last = *wheel_handle_at(&w->pool, b->top);

    if (last != handle) {
        *wheel_handle_at(&w->pool, find_handle(w, number, handle)) = last;
        if (b->top / NODE_WORDS != number) {
            set_node(w, last, number);
        }
    }
}

/* Is the top handle, which is about to go, the last one of its node? */
static inline bool empties_node(const struct wheel_bucket *b)
{
    return b->top % NODE_WORDS == NODE_WORD_FIRST;
}

/* The bucket of a deadline that has not come yet. */
static inline unsigned place(const struct wheel *w, msec_t deadline)
{
    if (deadline < w->horizon[1]) {
        return MF_LIKELY(deadline >= w->horizon[0]) ? wheel_bucket_at(1, deadline)
                                                    : wheel_bucket_at(0, deadline);
    }
    if (deadline < w->horizon[2]) {
        return wheel_bucket_at(2, deadline);
    }
    return deadline < w->horizon[3] ? wheel_bucket_at(3, deadline) : w->far;
}

void wheel_put(struct wheel *w, handle_t handle, msec_t deadline, uint32_t bytes)
{
    wheel_must_be_entered(w);
    debug_must(deadline >= w->tick);
    attach(w, place(w, deadline), handle, bytes);
}

void wheel_put_due(struct wheel *w, handle_t handle, msec_t deadline, uint32_t bytes)
{
    struct wheel_bucket *b = &w->bucket[WHEEL_DUE];

    wheel_must_be_entered(w);
    store_handle(w, b, (needs_node(b->top) ? push_node(w, WHEEL_DUE) : b->top) + 1, handle);
    w->due_keys++;
    w->due_bytes += bytes;
    w->due_deadlines += wheel_summand(deadline);
    if (deadline < w->due_oldest) {
        w->due_oldest = deadline;
    }
}

void wheel_pull(struct wheel *w, unsigned id, uint32_t bytes)
{
    struct wheel_bucket *b = &w->bucket[id];

    wheel_must_be_entered(w);
    uncount(w, b, bytes);
    if (empties_node(b)) {
        pop_node(w, id);
    } else {
        b->top--;
    }
}

/* ---- the pool shrinks -------------------------------------------------------------------- */

/* Copy one node of the slab that is being emptied, and update its items. */
static void move_node(struct wheel *w, uint32_t from)
{
    struct wheel_node *old = wheel_node_at(&w->pool, from);
    uint32_t to = wheel_pool_take(&w->pool);
    struct wheel_node *n = wheel_node_at(&w->pool, to);
    struct wheel_bucket *b = &w->bucket[old->bucket];
    unsigned handles = NODE_HANDLES;

    *n = *old;
    if (b->top / NODE_WORDS == from) {
        uint32_t word = b->top % NODE_WORDS;

        b->top = to * NODE_WORDS + word;
        handles = word - NODE_WORD_FIRST + 1;
    } else {
        wheel_node_at(&w->pool, n->prev)->next = to;
    }
    if (n->next) {
        wheel_node_at(&w->pool, n->next)->prev = to;
    }
    for (unsigned i = 0; i < handles; i++) {
        __builtin_prefetch(item_ttl(item_at(w->base, n->handle[i])), 1);
    }
    for (unsigned i = 0; i < handles; i++) {
        set_node(w, n->handle[i], to);
    }
    wheel_pool_give(&w->pool, from, wheel_size(w));
}

void wheel_shrink_step(struct wheel *w)
{
    uint32_t node = wheel_pool_victim(&w->pool, wheel_size(w));

    wheel_must_be_entered(w);
    if (node) {
        move_node(w, node);
    }
}

/* ---- items come and go ------------------------------------------------------------------- */

static MF_NOINLINE bool grow(struct wheel *w)
{
    while (wheel_size(w) >= w->pool.room) {
        if (!wheel_pool_grow(&w->pool)) {
            return false;
        }
    }
    return true;
}

/* There is little room, or none. */
static MF_NOINLINE bool reserve_slowly(struct wheel *w)
{
    if (w->pool.wants_spare != NULL && w->pool.spare.slab == NULL) {
        *w->pool.wants_spare = true;
    }
    return wheel_size(w) < w->pool.room || grow(w);
}

bool wheel_reserve(struct wheel *w)
{
    wheel_must_be_entered(w);
    return MF_LIKELY(wheel_size(w) < w->pool.enough) || reserve_slowly(w);
}

void wheel_tell(struct wheel *w, bool *wants_spare)
{
    w->pool.wants_spare = wants_spare;
}

uint32_t wheel_spare_capacity(const struct wheel *w)
{
    wheel_must_be_entered(w);
    return wheel_pool_spare_capacity(&w->pool);
}

void wheel_take_spare(struct wheel *w, struct wheel_spare *spare)
{
    wheel_must_be_entered(w);
    wheel_pool_take_spare(&w->pool, spare);
}

void wheel_add(struct wheel *w, handle_t handle)
{
    const struct item *it = item_at(w->base, handle);
    msec_t deadline = item_deadline(it);
    uint32_t bytes = item_bytes(it);

    wheel_must_be_entered(w);
    debug_must(item_has_ttl(it) && deadline != MSEC_NEVER && wheel_size(w) < w->pool.room);
    w->deadlines += wheel_summand(deadline);
    /* Check for the past first: no bucket of a ring's past is ever visited again. */
    if (MF_UNLIKELY(deadline < w->tick)) {
        wheel_put_due(w, handle, deadline, bytes);
        return;
    }
    attach(w, place(w, deadline), handle, bytes);
}

static MF_NOINLINE void free_node(struct wheel *w, unsigned id)
{
    pop_node(w, id);
    if (wheel_wants_shrink(w)) {
        wheel_shrink_step(w);
    }
}

void wheel_remove(struct wheel *w, handle_t handle)
{
    struct item *it = item_at(w->base, handle);

    wheel_must_be_entered(w);
    if (!item_has_ttl(it)) {
        return;
    }
    uint32_t number = item_node(it);
    if (number == 0) {
        return;
    }
    uint32_t bytes = item_bytes(it);
    msec_t summand = wheel_summand(item_deadline(it));
    item_set_node(it, 0);
    w->deadlines -= summand;
    struct wheel_bucket *b = &w->bucket[wheel_node_at(&w->pool, number)->bucket];
    fill_gap(w, b, number, handle);
    uncount(w, b, bytes);
    if (MF_UNLIKELY(b == &w->bucket[WHEEL_DUE])) {
        w->due_deadlines -= summand;
    }
    if (MF_UNLIKELY(empties_node(b))) {
        free_node(w, (unsigned)(b - w->bucket));
        return;
    }
    b->top--;
}

/*
 * Would an item with this deadline be added to the same bucket that a node is in? Then the
 * counts of the bucket stay right. Sets *id to the bucket.
 */
static inline bool belongs_in(const struct wheel *w, uint32_t number, msec_t deadline,
                              unsigned *id)
{
    debug_must(deadline != MSEC_NEVER);
    /* As in wheel_add(): place() is for deadlines that have not come yet. */
    if (number == 0 || MF_UNLIKELY(deadline < w->tick)) {
        return false;
    }
    *id = wheel_node_at(&w->pool, number)->bucket;
    return *id == place(w, deadline);
}

bool wheel_replace(struct wheel *w, handle_t old, handle_t handle)
{
    struct item *was = item_at(w->base, old);
    struct item *is = item_at(w->base, handle);
    uint32_t number = item_node(was);
    msec_t deadline = item_deadline(is);
    unsigned id;

    wheel_must_be_entered(w);
    debug_must(item_has_ttl(was) && item_has_ttl(is));
    if (!belongs_in(w, number, deadline, &id)) {
        return false;
    }
    debug_must(!wheel_is_due(w, id));
    *wheel_handle_at(&w->pool, find_handle(w, number, old)) = handle;
    w->bucket[id].bytes += (uint64_t)item_bytes(is) - item_bytes(was);
    w->deadlines += wheel_summand(deadline) - wheel_summand(item_deadline(was));
    item_set_node(is, number);
    item_set_node(was, 0);
    return true;
}

bool wheel_retime(struct wheel *w, handle_t handle, msec_t deadline)
{
    struct item *it = item_at(w->base, handle);
    unsigned id;

    wheel_must_be_entered(w);
    debug_must(item_can_have(it, deadline));
    if (!belongs_in(w, item_node(it), deadline, &id)) {
        return false;
    }
    debug_must(!wheel_is_due(w, id));
    w->deadlines += wheel_summand(deadline) - wheel_summand(item_deadline(it));
    item_set_deadline(it, deadline);
    return true;
}

void wheel_moved(struct wheel *w, handle_t from, handle_t to)
{
    const struct item *it = item_at(w->base, to);
    uint32_t was = item_bytes(item_at(w->base, from));
    uint32_t is = item_bytes(it);

    wheel_must_be_entered(w);
    if (!item_has_ttl(it)) {
        return;
    }
    uint32_t number = item_node(it);
    if (number == 0) {
        return;
    }
    *wheel_handle_at(&w->pool, find_handle(w, number, from)) = to;
    if (MF_UNLIKELY(was != is)) {
        unsigned id = wheel_node_at(&w->pool, number)->bucket;
        uint64_t *sum = wheel_is_due(w, id) ? &w->due_bytes : &w->bucket[id].bytes;

        *sum = *sum - was + is;
    }
}

uint64_t wheel_count(const struct wheel *w)
{
    return wheel_size(w);
}

/* ---- beginning and end ------------------------------------------------------------------- */

void wheel_start(struct wheel *w, msec_t now)
{
    debug_must(wheel_count(w) == 0);
    w->tick = now + 1;
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        msec_t step = wheel_step(l);

        w->horizon[l] = (w->tick & ~(step - 1)) + 2 * step;
    }
}

struct wheel *wheel_create(char *base, struct budget *budget, const struct lock *lock,
                           msec_t now)
{
    struct wheel *w = mem_alloc_pages(sizeof(*w)); /* see wheel_rest() */

    if (!w) {
        return NULL;
    }
    w->base = base;
    w->lock = lock;
    w->far = WHEEL_FAR;
    w->due_oldest = MSEC_NEVER;
    wheel_start(w, now);
    wheel_pool_init(&w->pool, WHEEL_BUCKETS, budget);
    if (budget) {
        budget_add(budget, sizeof(*w));
    }
    return w;
}

void wheel_rest(struct wheel *w)
{
    bool *const wants_spare = w->pool.wants_spare;
    struct budget *const budget = w->pool.budget;

    wheel_must_be_entered(w);
    must(wheel_count(w) == 0);
    wheel_pool_fini(&w->pool);
    wheel_pool_init(&w->pool, WHEEL_BUCKETS, budget);
    w->pool.wants_spare = wants_spare;
    mem_discard_zeros(w->bucket, sizeof(w->bucket));
}

void wheel_destroy(struct wheel **w)
{
    if (!*w) {
        return;
    }
    struct budget *budget = (*w)->pool.budget;
    wheel_pool_fini(&(*w)->pool);
    if (budget) {
        budget_add(budget, -(int64_t)sizeof(**w));
    }
    mem_free_pages(*w, sizeof(**w));
    *w = NULL;
}
