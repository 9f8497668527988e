/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table: compared with a plain array under random operations and resizes of tiny tables, in
 * which runs of full buckets, also around the end, are common; all counts and tags are
 * recomputed; walks during resizes; lookups and walks by other threads while a writer does all
 * of that.
 */
#include "lib/index/table.h"

#include <pthread.h>

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/rcu.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define KEYS        1200u
#define BLOCK_BYTES 128u
#define PART        64u  /* buckets in a part of a rolling resize */
#define STABLE      600u /* in tests of walks and threads, keys below this are never removed */

#ifdef MAYFLY_TSAN
#define THREAD_ROUNDS 40u
#else
#define THREAD_ROUNDS 200u
#endif

/* Two blocks for each key, so that a key can move from one to the other. */
struct world {
    struct table t;
    struct budget budget;
    char *base;
    struct rng rng;
    uint64_t seed;
    handle_t is_in[KEYS]; /* the model: the key's handle, or 0 if it is absent */
    unsigned present;
};

static handle_t block_of(unsigned key, unsigned version)
{
    return (1 + key * 2 + version) * (BLOCK_BYTES / ITEM_UNIT);
}

/* Lengths from 1 to 50, so that the comparison takes each of its paths. */
static size_t key_text(unsigned key, char out[64])
{
    static const char pad[] = "0123456789012345678901234567890123456789012345";

    return (size_t)snprintf(out, 64, "%x%.*s", key, (int)(key % 46), pad);
}

static void write_block(struct world *w, unsigned key, unsigned version)
{
    struct item *it = item_at(w->base, block_of(key, version));
    char text[64];
    size_t len = key_text(key, text);
    bool has_ttl = key % 3 == 0;

    memset(it, 0, sizeof(*it));
    it->cas_len = key;
    it->key_len = (uint8_t)len;
    atomic_init(&it->shape, (uint16_t)(BLOCK_BYTES / ITEM_UNIT | (has_ttl ? SHAPE_TTL : 0)));
    memcpy((char *)(it + 1) + (has_ttl ? ITEM_TTL_BYTES : 0), text, len);
}

static uint64_t key_hash(const struct world *w, unsigned key)
{
    char text[64];
    size_t len = key_text(key, text);

    return hash_key(w->t.seed, text, len);
}

static struct world *world_create(uint64_t seed, uint64_t items)
{
    struct world *w = mem_zalloc(sizeof(*w));

    ck_assert_ptr_nonnull(w);
    w->seed = seed;
    rng_init(&w->rng, seed);
    w->base = mem_alloc_aligned((KEYS * 2 + 1) * BLOCK_BYTES, 64);
    ck_assert_ptr_nonnull(w->base);
    for (unsigned key = 0; key < KEYS; key++) {
        write_block(w, key, 0);
        write_block(w, key, 1);
    }
    ck_assert(table_init(&w->t, items, seed * 31, &w->budget, NULL));
    w->t.min_buckets = TABLE_MIN_BUCKETS;
    w->t.part_buckets = PART;
    return w;
}

static void world_destroy(struct world *w)
{
    table_fini(&w->t);
    ck_assert_int_eq(atomic_load(&w->budget.used_bytes), 0);
    mem_free(w->base);
    mem_free(w);
}

/* ---- single operations on table and model ------------------------------------------------ */

static const struct item *find(const struct world *w, unsigned key)
{
    char text[64];
    size_t len = key_text(key, text);

    return table_find(&w->t, w->base, key_hash(w, key), text, len);
}

static _Atomic handle_t *slot_of_key(struct world *w, unsigned key)
{
    char text[64];
    size_t len = key_text(key, text);

    return table_slot(&w->t, w->base, key_hash(w, key), text, len);
}

static void insert(struct world *w, unsigned key)
{
    handle_t h = block_of(key, (unsigned)rng_below(&w->rng, 2));

    ck_assert(w->is_in[key] == 0);
    table_insert(&w->t, key_hash(w, key), h);
    w->is_in[key] = h;
    w->present++;
}

static void remove_key(struct world *w, unsigned key)
{
    uint64_t hash = key_hash(w, key);
    _Atomic handle_t *slot = rng_below(&w->rng, 2) == 0
                                 ? slot_of_key(w, key)
                                 : table_slot_of(&w->t, hash, w->is_in[key]);

    ck_assert_ptr_nonnull(slot);
    table_remove(&w->t, hash, slot);
    w->is_in[key] = 0;
    w->present--;
}

static void replace(struct world *w, unsigned key)
{
    handle_t h = w->is_in[key] == block_of(key, 0) ? block_of(key, 1) : block_of(key, 0);
    _Atomic handle_t *slot = slot_of_key(w, key);

    ck_assert_ptr_nonnull(slot);
    table_replace(slot, h);
    w->is_in[key] = h;
}

static uint64_t buckets_now(const struct world *w)
{
    return atomic_load(&w->t.view)->mask + 1;
}

static void wait_nobody(void)
{
}

/* What the thread that a resize rolls by does before a step. */
static void roll(struct world *w)
{
    static const struct table_bucket none;
    struct table_part part;

    if (table_next_part(&w->t, &part)) {
        table_touch_part(&part);
        table_part_done(&w->t, &part);
    }
    if (table_drained(&w->t, &part)) {
        for (uint64_t i = 0; i < part.count; i++) {
            ck_assert_int_eq(memcmp(&part.buckets[i], &none, sizeof(none)), 0);
        }
        if (part.count % PART == 0) {
            table_drop_part(&part); /* whole pages */
        }
    }
    if (rng_below(&w->rng, 100) == 0) {
        table_unroll(&w->t);
    }
}

/* Advance a resize by one step; if none is running, start one towards `want` (0: do not). */
static void resize_stage(struct world *w, uint64_t want, uint64_t steps, void (*wait)(void))
{
    struct table_waste waste = {0};
    struct table_grow grow;

    switch (w->t.phase) {
    case TABLE_STEADY:
        if (want != 0) {
            ck_assert(table_prepare(&w->t, want, &grow));
            grow.rolls = rng_below(&w->rng, 2) == 0;
            table_publish(&w->t, &grow);
            ck_assert_ptr_null(grow.view);
        }
        break;
    case TABLE_PUBLISHED:
        wait();
        table_begin_move(&w->t);
        break;
    case TABLE_MOVING:
        roll(w);
        (void)table_step(&w->t, w->base, steps);
        break;
    case TABLE_DRAINED:
        table_retire(&w->t, &waste);
        wait();
        table_waste_release(&waste, &w->budget);
        break;
    }
}

/* A size for the items present, from very full to very empty. */
static uint64_t random_size(struct world *w)
{
    uint64_t buckets = TABLE_MIN_BUCKETS;

    while (w->present >= buckets * TABLE_SLOTS * 15 / 16) {
        buckets *= 2;
    }
    return buckets << rng_below(&w->rng, 4);
}

/* ---- recount ----------------------------------------------------------------------------- */

/* Every tag and every overflow count of an array agree with its items. */
static uint64_t recount(const struct world *w, struct table_bucket *buckets, uint64_t mask)
{
    uint32_t *passes = mem_zalloc((mask + 1) * sizeof(*passes));
    uint64_t count = 0;

    ck_assert_ptr_nonnull(passes);
    for (uint64_t at = 0; at <= mask; at++) {
        for (unsigned i = 0; i < TABLE_SLOTS; i++) {
            handle_t h = atomic_load(&buckets[at].slot[i]);
            uint8_t tag = (uint8_t)(atomic_load(&buckets[at].word[i / 8]) >> (i % 8 * 8));

            ck_assert((h == 0) == (tag == 0));
            if (h == 0) {
                continue;
            }
            unsigned key = (unsigned)item_at(w->base, h)->cas_len;
            uint64_t hash = key_hash(w, key);
            ck_assert_uint_eq(tag, table_tag(hash));
            ck_assert_uint_eq(h, w->is_in[key]);
            for (uint64_t p = table_home(hash, mask); p != at; p = (p + 1) & mask) {
                passes[p]++;
            }
            count++;
        }
    }
    for (uint64_t at = 0; at <= mask; at++) {
        ck_assert_uint_eq(atomic_load(&buckets[at].word[1]) >> 32, passes[at]);
    }
    mem_free(passes);
    return count;
}

static void verify(struct world *w)
{
    const struct table_view *v = atomic_load(&w->t.view);
    uint64_t count = recount(w, v->buckets, v->mask);

    count += v->old != NULL ? recount(w, v->old, v->old_mask) : 0;
    ck_assert_uint_eq(count, w->present);
    ck_assert_uint_eq(w->t.count, w->present);
    for (unsigned key = 0; key < KEYS; key++) {
        const struct item *it = find(w, key);

        if (w->is_in[key] == 0) {
            ck_assert(it == NULL && slot_of_key(w, key) == NULL);
            ck_assert_ptr_null(table_slot_of(&w->t, key_hash(w, key), block_of(key, 0)));
        } else {
            ck_assert_ptr_eq(it, item_at(w->base, w->is_in[key]));
        }
    }
}

/* ---- behaviour --------------------------------------------------------------------------- */

TEST_ALONE(match_finds_exactly_the_slots_of_a_tag)
{
    struct rng rng;

    rng_init(&rng, rng_seed());
    for (unsigned round = 0; round < 20000; round++) {
        /* Few different bytes, and neighbours that differ by one bit: hits and near misses. */
        uint64_t few = 0x0101010101010101ULL * (1 + rng_below(&rng, 2));
        uint64_t word0 = rng_next(&rng) & few;
        uint64_t word1 = rng_next(&rng) & (round % 2 == 0 ? few : 0x80ffULL * 0x100010001ULL);
        uint8_t tag = (uint8_t)rng_below(&rng, round % 3 == 0 ? 256 : 3);
        unsigned expected = 0;

        for (unsigned i = 0; i < TABLE_SLOTS; i++) {
            uint8_t byte = (uint8_t)((i < 8 ? word0 : word1) >> (i % 8 * 8));
            expected |= (unsigned)(byte == tag) << i;
        }
        ck_assert_uint_eq(table_match(word0, word1, tag), expected);
        ck_assert_uint_eq(table_match_portable(word0, word1, tag), expected);
    }
}

TEST_ALONE(a_comparison_reads_the_whole_key_and_no_more)
{
    for (size_t n = 1; n <= 64; n++) {
        /* Blocks of exactly n bytes: the address sanitizer notices a load past their end. */
        char *a = mem_alloc(n);
        char *b = mem_alloc(n);

        ck_assert(a != NULL && b != NULL);
        memset(a, 'k', n);
        memset(b, 'k', n);
        ck_assert(table_bytes_are(a, b, n));
        for (size_t i = 0; i < n; i++) {
            b[i] ^= 1;
            ck_assert(!table_bytes_are(a, b, n));
            b[i] ^= 1;
        }
        mem_free(a);
        mem_free(b);
    }
}

TEST_LOOP_ALONE(agrees_with_a_plain_array, 4)
{
    const uint64_t seed = rng_seed() + (uint64_t)_i;
    struct world *w = world_create(seed, 0);
    unsigned limit = KEYS;

    w->t.part_buckets = PART >> (2 * _i);
    printf("seed %llu\n", (unsigned long long)seed);
    for (unsigned op = 0; op < 20000; op++) {
        unsigned key = (unsigned)rng_below(&w->rng, limit);

        if (op % 2500 == 0) {
            /* Few keys or many: the table is very full or nearly empty. */
            limit = 100 + (unsigned)rng_below(&w->rng, KEYS - 100);
        }
        switch (rng_below(&w->rng, 8)) {
        case 0:
        case 1:
        case 2:
            if (w->is_in[key] == 0 && table_has_room(&w->t)) {
                insert(w, key);
            }
            break;
        case 3:
        case 4:
            key = (unsigned)rng_below(&w->rng, KEYS);
            if (w->is_in[key] != 0) {
                remove_key(w, key);
            }
            break;
        case 5:
            if (w->is_in[key] != 0) {
                replace(w, key);
            }
            break;
        case 6:
            ck_assert_ptr_eq(find(w, key),
                             w->is_in[key] == 0 ? NULL : item_at(w->base, w->is_in[key]));
            break;
        default:
            resize_stage(w, rng_below(&w->rng, 20) == 0 ? random_size(w) : 0,
                         1 + rng_below(&w->rng, 3), wait_nobody);
            break;
        }
        if (op % 500 == 0) {
            verify(w);
            ck_assert_int_eq(atomic_load(&w->budget.used_bytes), (int64_t)table_bytes(&w->t));
        }
    }
    verify(w);
    for (unsigned key = 0; key < KEYS; key++) {
        if (w->is_in[key] != 0) {
            remove_key(w, key);
        }
    }
    verify(w); /* all counts are back to zero */
    world_destroy(w);
}

TEST_ALONE(full_buckets_pass_their_items_on_around_the_end)
{
    struct world *w = world_create(rng_seed(), 0);
    unsigned in[40], n = 0;

    /* Forty keys whose home is the last bucket: the first three buckets take the rest. */
    ck_assert_uint_eq(buckets_now(w), TABLE_MIN_BUCKETS);
    for (unsigned key = 0; key < KEYS && n < 40; key++) {
        if (table_home(key_hash(w, key), TABLE_MIN_BUCKETS - 1) == TABLE_MIN_BUCKETS - 1) {
            insert(w, key);
            in[n++] = key;
        }
    }
    ck_assert_uint_eq(n, 40);
    struct table_bucket *b = atomic_load(&w->t.view)->buckets;
    ck_assert_uint_eq(atomic_load(&b[15].word[1]) >> 32, 28);
    ck_assert_uint_eq(atomic_load(&b[0].word[1]) >> 32, 16);
    ck_assert_uint_eq(atomic_load(&b[1].word[1]) >> 32, 4);
    ck_assert_uint_eq(atomic_load(&b[2].word[1]) >> 32, 0);
    verify(w);

    for (unsigned i = 0; i < n; i++) {
        remove_key(w, in[i]);
        verify(w); /* a gap in a full bucket hides nothing in the next ones */
    }
    world_destroy(w);
}

TEST_ALONE(wants_to_grow_and_to_shrink_at_the_limits)
{
    struct world *w = world_create(rng_seed(), 0);
    unsigned key = 0;

    for (; key < 153; key++) { /* 80 % of 16 * 12 is 153.6 */
        insert(w, key);
    }
    ck_assert_uint_eq(table_wants(&w->t), 0);
    insert(w, key++);
    ck_assert_uint_eq(table_wants(&w->t), 32);
    resize_stage(w, 1024, 0, wait_nobody);
    ck_assert_uint_eq(table_wants(&w->t), 0); /* one at a time */
    while (w->t.phase != TABLE_STEADY) {
        resize_stage(w, 0, 1, wait_nobody);
    }
    ck_assert_uint_eq(buckets_now(w), 1024);
    ck_assert_uint_eq(table_wants(&w->t), 64); /* 154 of 64 * 12 is 20 %, of 32 * 12 40.1 % */
    while (w->t.min_buckets < 2048) {
        w->t.min_buckets *= 2;
    }
    ck_assert_uint_eq(table_wants(&w->t), 0);
    verify(w);
    world_destroy(w);
}

TEST_ALONE(a_size_that_is_asked_for_is_wanted_once)
{
    struct world *w = world_create(rng_seed(), 0);

    for (unsigned key = 0; key < 100; key++) {
        insert(w, key);
    }
    table_ask(&w->t, 2000, false);
    ck_assert_uint_eq(table_bytes_for(2000), 256 * 64); /* 80 % of 256 * 12 is 2457 */
    ck_assert_uint_eq(table_wants(&w->t), 256);
    resize_stage(w, 256, 0, wait_nobody);
    while (w->t.phase != TABLE_STEADY) {
        resize_stage(w, 0, 1, wait_nobody);
    }
    ck_assert_uint_eq(buckets_now(w), 256);
    ck_assert_uint_ne(table_wants(&w->t), 256);
    table_ask(&w->t, 100, false);
    ck_assert_uint_eq(table_wants(&w->t), 16);
    for (unsigned key = 100; key < 160; key++) {
        insert(w, key);
    }
    ck_assert_uint_ne(table_wants(&w->t), 16); /* it would be too full by now */
    verify(w);
    world_destroy(w);
}

TEST_ALONE(init_makes_room_for_its_items)
{
    struct table t;
    struct budget budget = {0};

    ck_assert(table_init(&t, 100000, 1, &budget, NULL));
    for (uint64_t i = 0; i < 100000; i++) {
        ck_assert(table_has_room(&t));
        table_insert(&t, hash_key(1, &i, sizeof(i)), (handle_t)(i + 1));
    }
    ck_assert_uint_eq(table_wants(&t), 0);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 16384 * 64);
    table_fini(&t);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 0);

    ck_assert(table_init(&t, 0, 1, NULL, NULL));
    ck_assert_uint_eq(table_bytes(&t), TABLE_MIN_BUCKETS * 64);
    table_fini(&t);
}

TEST_ALONE(a_shrink_that_became_too_small_changes_nothing)
{
    struct world *w = world_create(rng_seed(), 1000);
    uint64_t buckets = buckets_now(w);
    struct table_grow grow;

    ck_assert(table_prepare(&w->t, TABLE_MIN_BUCKETS, &grow));
    for (unsigned key = 0; key < 900; key++) {
        insert(w, key);
    }
    table_publish(&w->t, &grow);
    verify(w);
    for (unsigned key = 900; w->t.phase != TABLE_STEADY; key++) {
        insert(w, key);
        resize_stage(w, 0, 1, wait_nobody);
        verify(w);
    }
    ck_assert_uint_eq(buckets_now(w), buckets);

    ck_assert(table_prepare(&w->t, 64, &grow));
    table_prepare_undo(&w->t, &grow);
    ck_assert_int_eq(atomic_load(&w->budget.used_bytes), (int64_t)table_bytes(&w->t));
    world_destroy(w);
}

/* Does a reader that loaded this view find the key? */
static bool is_found_in(const struct world *w, const struct table_view *v, unsigned key)
{
    char text[64];
    size_t len = key_text(key, text);
    uint64_t hash = key_hash(w, key);
    handle_t h = 0;

    if (v->old != NULL &&
        table_lookup(v->old, v->old_mask, w->base, hash, text, len, &h) != NULL) {
        return h == w->is_in[key];
    }
    return table_lookup(v->buckets, v->mask, w->base, hash, text, len, &h) != NULL &&
           h == w->is_in[key];
}

static void find_all_in(const struct world *w, const struct table_view *v, unsigned keys)
{
    for (unsigned key = 0; key < keys; key++) {
        ck_assert(is_found_in(w, v, key));
    }
}

TEST_ALONE(views_stay_valid_until_their_grace_period_ends)
{
    struct world *w = world_create(rng_seed(), 0);
    struct table_waste waste;
    struct table_grow grow;

    for (unsigned key = 0; key < 150; key++) {
        insert(w, key);
    }
    const struct table_view *steady = atomic_load(&w->t.view);
    ck_assert(table_prepare(&w->t, 64, &grow));
    table_publish(&w->t, &grow);
    replace(w, 7);
    insert(w, 150);
    find_all_in(w, steady, 150); /* key 150 is not in it */

    const struct table_view *moving = atomic_load(&w->t.view);
    table_begin_move(&w->t);
    for (bool is_moved = false; !is_moved;) {
        find_all_in(w, moving, 151);
        is_moved = table_step(&w->t, w->base, 1);
    }
    table_retire(&w->t, &waste);
    insert(w, 151);
    replace(w, 8);
    find_all_in(w, moving, 152);
    verify(w);
    table_waste_release(&waste, &w->budget);
    verify(w);
    world_destroy(w);
}

/* ---- walks ------------------------------------------------------------------------------- */

struct met {
    const struct world *w;
    unsigned times[KEYS];
};

static void on_met(void *arg, handle_t h, uint64_t hash)
{
    struct met *m = arg;
    const struct item *it = item_at(m->w->base, h);

    ck_assert(hash == hash_key(m->w->t.seed, item_key(it), it->key_len));
    m->times[it->cas_len]++;
}

TEST_LOOP_ALONE(a_walk_visits_each_item_once_without_a_resize, 4)
{
    struct world *w = world_create(rng_seed() + (uint64_t)_i, 0);
    uint64_t steps = 0, cursor = 0;
    struct met *m = mem_zalloc(sizeof(*m));
    m->w = w;

    for (unsigned key = 0; table_has_room(&w->t); key++) {
        insert(w, key); /* 94 % full: many items are far from home */
    }
    do {
        cursor = table_walk(&w->t, w->base, cursor, on_met, m);
        steps++;
    } while (cursor != 0);
    ck_assert_uint_eq(steps, buckets_now(w));
    for (unsigned key = 0; key < KEYS; key++) {
        ck_assert_uint_eq(m->times[key], w->is_in[key] != 0);
    }
    mem_free(m);
    world_destroy(w);
}

/* Without a resize, those that the walk has passed are those that it has met. */
TEST_LOOP_ALONE(a_walk_knows_what_it_has_passed, 4)
{
    struct world *w = world_create(rng_seed() + (uint64_t)_i, 0);
    struct met *m = mem_zalloc(sizeof(*m));
    uint64_t positions;
    uint64_t cursor = 0;

    m->w = w;
    for (unsigned key = 0; table_has_room(&w->t); key++) {
        insert(w, key);
    }
    do {
        cursor = table_walk_ahead(&w->t, w->base, cursor, on_met, m, &positions);
        for (unsigned key = 0; key < KEYS && w->is_in[key] != 0; key++) {
            bool has_passed = cursor == 0 || table_walk_passed(cursor, key_hash(w, key));

            ck_assert(m->times[key] == has_passed);
        }
        ck_assert_uint_eq(positions, atomic_load(&w->t.view)->mask + 1);
    } while (cursor != 0);
    mem_free(m);
    world_destroy(w);
}

TEST_LOOP_ALONE(a_walk_misses_nothing_during_resizes, 4)
{
    uint64_t seed = rng_seed() + (uint64_t)_i * 1000;
    struct world *w = world_create(seed, 0);
    struct met *m = mem_zalloc(sizeof(*m));
    uint64_t positions;

    printf("seed %llu\n", (unsigned long long)seed);
    m->w = w;
    resize_stage(w, 128, 0, wait_nobody);
    for (unsigned key = 0; key < STABLE; key++) {
        insert(w, key);
    }
    for (unsigned round = 0; round < 40; round++) {
        uint64_t cursor = 0;

        memset(m->times, 0, sizeof(m->times));
        do {
            cursor = table_walk_ahead(&w->t, w->base, cursor, on_met, m, &positions);
            for (unsigned key = 0; key < STABLE; key++) {
                ck_assert(m->times[key] > 0 || cursor == 0 ||
                          !table_walk_passed(cursor, key_hash(w, key)));
            }
            for (uint64_t n = rng_below(&w->rng, 12); n > 0; n--) {
                unsigned key = STABLE + (unsigned)rng_below(&w->rng, KEYS - STABLE);

                if (w->is_in[key] != 0) {
                    remove_key(w, key);
                } else if (table_has_room(&w->t)) {
                    insert(w, key);
                }
                replace(w, (unsigned)rng_below(&w->rng, STABLE));
                resize_stage(w, random_size(w), 1 + rng_below(&w->rng, 8), wait_nobody);
            }
        } while (cursor != 0);
        for (unsigned key = 0; key < STABLE; key++) {
            ck_assert_msg(m->times[key] > 0, "seed %llu round %u: key %u was not visited",
                          (unsigned long long)seed, round, key);
        }
    }
    mem_free(m);
    world_destroy(w);
}

/* ---- threads ----------------------------------------------------------------------------- */

struct readers {
    struct world *w;
    _Atomic bool is_done;
    _Atomic unsigned started;
    _Atomic uint64_t hits;
};

/*
 * Keys that are never removed are always found; keys that come and go are never mistaken for
 * others. Checked by must(), because only the main thread may use the framework's assertions.
 */
static void *look_up(void *arg)
{
    struct readers *r = arg;
    struct rng rng;
    uint64_t hits = 0;

    rcu_register();
    rng_init(&rng, r->w->seed + atomic_fetch_add(&r->started, 1));
    while (!atomic_load(&r->is_done)) {
        rcu_begin();
        for (unsigned i = 0; i < 64; i++) {
            unsigned key = (unsigned)rng_below(&rng, KEYS);

            table_prefetch_bucket(&r->w->t, key_hash(r->w, key));
            table_prefetch_item(&r->w->t, r->w->base, key_hash(r->w, key));
            const struct item *it = find(r->w, key);
            must(it != NULL || key >= STABLE);
            if (it != NULL) {
                must(it->cas_len == key);
                hits++;
            }
        }
        rcu_end();
    }
    atomic_fetch_add(&r->hits, hits);
    rcu_unregister();
    return NULL;
}

static void *walk_all(void *arg)
{
    struct readers *r = arg;
    struct met *m = mem_zalloc(sizeof(*m));

    must(m != NULL);
    m->w = r->w;
    rcu_register();
    atomic_fetch_add(&r->started, 1);
    while (!atomic_load(&r->is_done)) {
        uint64_t cursor = 0;

        memset(m->times, 0, sizeof(m->times));
        do {
            rcu_begin();
            cursor = table_walk(&r->w->t, r->w->base, cursor, on_met, m);
            rcu_end();
        } while (cursor != 0);
        for (unsigned key = 0; key < STABLE; key++) {
            must(m->times[key] > 0);
        }
    }
    rcu_unregister();
    mem_free(m);
    return NULL;
}

/* The other block of a key may be written: no reader has seen it for a grace period. */
static void rewrite_and_replace(struct world *w, unsigned key)
{
    write_block(w, key, w->is_in[key] == block_of(key, 0) ? 1 : 0);
    replace(w, key);
}

TEST(readers_find_the_right_items_while_a_writer_resizes)
{
    struct world *w = world_create(rng_seed(), 0);
    struct readers r = {.w = w};
    pthread_t threads[3];

    resize_stage(w, 128, 0, wait_nobody);
    for (unsigned key = 0; key < STABLE; key++) {
        insert(w, key);
    }
    ck_assert_int_eq(pthread_create(&threads[0], NULL, look_up, &r), 0);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, look_up, &r), 0);
    ck_assert_int_eq(pthread_create(&threads[2], NULL, walk_all, &r), 0);
    WAIT_UNTIL(atomic_load(&r.started) >= 3);

    for (unsigned round = 0; round < THREAD_ROUNDS; round++) {
        unsigned first = (unsigned)rng_below(&w->rng, KEYS - 50);

        rcu_wait();
        for (unsigned key = first; key < first + 50; key++) {
            if (key < STABLE) {
                rewrite_and_replace(w, key);
            } else if (w->is_in[key] != 0) {
                remove_key(w, key);
            } else if (table_has_room(&w->t)) {
                insert(w, key);
            }
            if (key % 4 == 0) {
                resize_stage(w, random_size(w), 1 + rng_below(&w->rng, 8), rcu_wait);
            }
        }
    }
    atomic_store(&r.is_done, true);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    verify(w);
    world_destroy(w);
}
