/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cursor: where the head and the pieces of a large value go, what becomes of items that are not
 * promoted, and how much a large value counts in a slice.
 */
#include "lib/memory/cursor.h"

#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/chunks.h"
#include "tests/lib/fixture.h"

static struct fixture f;

static const char *name(const char *kind, unsigned i)
{
    static char key[32];

    (void)snprintf(key, sizeof(key), "%s%05u", kind, i);
    return key;
}

/* Set keys until little room is left. */
static void fill(const char *kind, size_t len)
{
    for (unsigned n = 0; fixture_avail(&f) > 8; n++) {
        fixture_set(&f, name(kind, n), len);
        if (n % 64 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

/* Items in blocks of a kilobyte, from `first` on. */
static void set_kilobytes(const char *kind, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        fixture_set(&f, name(kind, i), KIB - sizeof(struct item) - strlen(name(kind, i)));
    }
}

/*
 * Pieces are in one segment and their head in another, which is cleaned: the cleaner has the
 * head in its open segment, the pieces come to the other one when theirs is evicted.
 */
TEST_LOOP(a_head_apart_from_its_pieces_is_reached, 2)
{
    int64_t work = 1000;
    const unsigned pieces = _i == 0 ? 5 : 8; /* a part of a segment, and one full */

    fixture_start(&f, NULL);
    struct memory *m = &f.shard->memory;
    unsigned per_segment = segment_bytes(&m->arena) / KIB;
    size_t piece = m->piece_max;
    size_t rest = segment_bytes(&m->arena) - pieces * (sizeof(struct item) + piece);
    set_kilobytes("old", 0, (unsigned)(rest / KIB));
    fixture_set(&f, "last", rest % KIB - sizeof(struct item) - strlen("last"));
    fixture_set(&f, "wide", pieces * piece);
    set_kilobytes("dead", 0, per_segment);
    for (unsigned i = 0; i + 1 < per_segment; i++) {
        ck_assert_int_eq(fixture_delete(&f, name("dead", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    shard_enter(f.shard);
    (void)cursor_clean(m, cursor_emptiest(m), &work, fixture_now(&f));
    ck_assert_uint_ne(m->blocks.chain[CHAIN_SMALL].compact, 0);
    for (int i = 0; i < 100 && fixture_counter(&f, CTR_curr_items) > 0; i++) {
        (void)cursor_slice_beyond(m, 100, fixture_now(&f), 1000);
    }
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

static segment_t segment_at(const struct item *it)
{
    const struct arena *a = &f.shard->memory.arena;

    return segment_of(a, (handle_t)(((uintptr_t)it - (uintptr_t)a->base) / ITEM_UNIT));
}

static segment_t segment_of_piece(const struct item *it, unsigned number)
{
    return segment_of(&f.shard->memory.arena, atomic_load(&item_large(it)->piece[number]));
}

/* Small's first segment, which is to be cleaned: a value of three pieces among dead items. */
static struct memory *begin_wide(void)
{
    fixture_start(&f, NULL);
    struct memory *m = &f.shard->memory;
    set_kilobytes("dead", 0, 10);
    fixture_set(&f, "wide", 3 * m->piece_max);
    return m;
}

/* The places of its pieces when the segment has been cleaned. */
static const struct item *clean_wide(struct memory *m, segment_t place[3])
{
    int64_t work = 1000;

    for (unsigned i = 0; i < 10; i++) {
        ck_assert_int_eq(fixture_delete(&f, name("dead", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    shard_enter(f.shard);
    blocks_ripen(m, 100);
    ck_assert_uint_eq(cursor_emptiest(m), m->blocks.chain[CHAIN_SMALL].head);
    ck_assert(cursor_clean(m, m->blocks.chain[CHAIN_SMALL].head, &work, fixture_now(&f)));
    shard_leave(f.shard);
    fixture_check(&f, "wide", 3 * m->piece_max);
    const struct item *wide = fixture_get(&f, "wide").item;
    for (unsigned i = 0; i < 3; i++) {
        place[i] = segment_of_piece(wide, i);
    }
    return wide;
}

/* What is cleaned keeps its place among the others, pieces as well as what has a key. */
TEST(pieces_that_are_cleaned_keep_their_place)
{
    struct memory *m = begin_wide();
    segment_t compact, place[3];

    set_kilobytes("k", 0, 100);
    const struct item *wide = clean_wide(m, place);
    compact = m->blocks.chain[CHAIN_SMALL].compact;
    ck_assert_uint_ne(compact, 0);
    ck_assert_uint_eq(segment_at(wide), compact);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(place[i], compact);
    }
}

/* Only the age of a head counts, so pieces may go to holes that there are. */
TEST(pieces_that_are_cleaned_fill_holes)
{
    struct memory *m = begin_wide();
    segment_t hole[3], place[3];

    set_kilobytes("k", 0, 50);
    fixture_set(&f, "gone", 3 * m->piece_max);
    for (unsigned i = 0; i < 3; i++) {
        hole[i] = segment_of_piece(fixture_get(&f, "gone").item, i);
    }
    set_kilobytes("k", 50, 50);
    ck_assert_int_eq(fixture_delete(&f, "gone"), OUT_DELETED);
    (void)clean_wide(m, place);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(place[i], hole[2 - i]);
    }
}

static enum verdict keep_all(const struct evict_pass *pass, const struct item *it,
                             uint8_t *heat)
{
    *heat = it->heat;
    return VERDICT_KEEP;
}

static segment_t pick_small(struct memory *m)
{
    return chains_oldest(m, CHAIN_SMALL);
}

/* The rest of the last segment is for small blocks: a head does not go there. */
TEST(a_head_that_is_kept_stands_by_its_pieces)
{
    struct evict_policy policy = evict_density;
    const struct evict_policy *const policies[] = {&policy};

    fixture_start(&f, NULL);
    struct memory *m = &f.shard->memory;
    set_kilobytes("k", 0, segment_bytes(&m->arena) / KIB - 1);
    fixture_set(&f, "wide1", 3 * m->piece_max);
    fixture_set(&f, "wide2", 3 * m->piece_max);
    fill("other", 1900);
    policy.pick = pick_small;
    policy.judge = keep_all;
    shard_enter(f.shard);
    m->evict.policies = policies;
    while (fixture_counter(&f, CTR_moves_within) < segment_bytes(&m->arena) / KIB + 2) {
        ck_assert(cursor_slice(m, 1, fixture_now(&f)));
    }
    m->evict.policies = evict_policies;
    shard_leave(f.shard);
    ck_assert_uint_ne(m->blocks.rest[CHAIN_MAIN], 0);
    const struct item *wide = fixture_get(&f, "wide2").item;
    ck_assert_uint_eq(segment_at(wide), m->blocks.chain[CHAIN_MAIN].open);
    ck_assert_uint_eq(segment_of_piece(wide, 0), m->blocks.chain[CHAIN_MAIN].open);
}

static enum verdict promote_all(const struct evict_pass *pass, const struct item *it,
                                uint8_t *heat)
{
    *heat = it->heat;
    return VERDICT_PROMOTE;
}

/*
 * When too much was promoted an item that would be goes, but for one that came late to its
 * segment, and so had no time for a hit.
 */
TEST(what_is_not_promoted_goes_unless_it_had_no_time)
{
    struct evict_policy policy = evict_density;
    const struct evict_policy *const policies[] = {&policy};

    fixture_start(&f, NULL);
    struct memory *m = &f.shard->memory;
    fill("k", 200);
    clock_advance(&f.engine.clock, 5000);
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(fixture_delete(&f, name("k", i)), OUT_DELETED);
    }
    fixture_grace(&f);
    for (unsigned i = 0; i < 20; i++) {
        fixture_set(&f, name("n", i), 200);
        (void)fixture_use(&f, name("n", i), i % 2);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 20);
    policy.pick = pick_small;
    policy.judge = promote_all;
    shard_enter(f.shard);
    m->evict.policies = policies;
    m->cursor.promoted = 1 << 22;
    while (fixture_counter(&f, CTR_cursor_evicted) == 0) {
        ck_assert(cursor_slice_beyond(m, 10, fixture_now(&f), 1000));
    }
    m->evict.policies = evict_policies;
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_moves_to_main), 0);
    ck_assert(!fixture_has(&f, name("k", 20)));
    for (unsigned i = 0; i < 20; i++) {
        ck_assert(fixture_has(&f, name("n", i)) == (i % 2 == 0));
    }
}

/* A large value frees as much as many small ones, so a slice drops few of them. */
TEST_LOOP(a_slice_drops_few_large_values, 2)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_policy(_i == 0 ? CHOICE_DENSITY : CHOICE_ALLKEYS_RANDOM);
    fixture_start(&f, &cfg);
    for (unsigned i = 0; fixture_avail(&f) > 16; i++) {
        fixture_set(&f, name("k", i), 8 * 32 * KIB);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    shard_enter(f.shard);
    (void)cursor_slice_beyond(&f.shard->memory, 1500, fixture_now(&f), 1000);
    shard_leave(f.shard);
    ck_assert_uint_ge(fixture_counter(&f, CTR_evictions), 1);
    ck_assert_uint_le(fixture_counter(&f, CTR_evictions), 2); /* of 1024 each */
}
