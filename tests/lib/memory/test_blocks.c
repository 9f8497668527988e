/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks: which dead block a put takes and when, as the addresses of items show; the death
 * ring, splitting, and the bins of sealed segments.
 */

#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/cursor.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static const char *name(const char *kind, unsigned i)
{
    static char key[32];

    (void)snprintf(key, sizeof(key), "%s%05u", kind, i);
    return key;
}

/* The length of a value that makes a block of `units` units with this key and no deadline. */
static size_t len_for(const char *key, uint32_t units)
{
    return units * ITEM_UNIT - sizeof(struct item) - strlen(key);
}

static const struct item *set_units(const char *key, uint32_t units)
{
    fixture_set(&f, key, len_for(key, units));
    return fixture_get(&f, key).item;
}

static void delete (const char *key)
{
    ck_assert_int_eq(fixture_delete(&f, key), OUT_DELETED);
}

static uint32_t ring_used(void)
{
    return f.shard->memory.blocks.ring_tail - f.shard->memory.blocks.ring_head;
}

TEST(a_block_is_not_reused_before_its_grace_period)
{
    const struct item *a = set_units("a", 20);

    delete ("a");
    ck_assert_uint_eq(ring_used(), 1);
    ck_assert_ptr_ne(set_units("b", 20), a);
    fixture_grace(&f);
    ck_assert_ptr_eq(set_units("c", 20), a);
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 1);
}

TEST(a_buried_block_is_no_hole_later)
{
    struct memory *m = &f.shard->memory;
    uint32_t units = 20;
    uint64_t dead = m->blocks.dead_bytes;

    shard_enter(f.shard);
    handle_t h = blocks_put(m, CHAIN_SMALL, &units, DRAW_PUT);
    ck_assert_uint_ne(h, 0);
    atomic_store(&memory_item(m, h)->shape, (uint16_t)units);
    blocks_bury(m, h);
    ck_assert(shape_is_dead(item_shape(memory_item(m, h))));
    shard_leave(f.shard);
    ck_assert_uint_eq(ring_used(), 0);
    ck_assert_uint_eq(m->blocks.dead_bytes, dead + 20 * ITEM_UNIT);
}

TEST(an_overwrite_takes_what_the_one_before_left)
{
    const struct item *first = set_units("a", 33);
    const struct item *second = set_units("a", 33);
    ck_assert_ptr_ne(first, second);
    for (int i = 0; i < 50; i++) {
        fixture_grace(&f);
        ck_assert_ptr_eq(set_units("a", 33), i % 2 == 0 ? first : second);
        fixture_verify(&f);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 50);
}

/* A hole may be too large by a thirty-second of the block, and no more. */
TEST(a_hole_may_be_a_little_larger)
{
    const struct item *a = set_units("a", 40);
    delete ("a");
    fixture_grace(&f);
    ck_assert_ptr_ne(set_units("b", 41), a);
    ck_assert_ptr_ne(set_units("c", 38), a);
    ck_assert_ptr_eq(set_units("d", 39), a);
    struct got got = fixture_get(&f, "d");
    ck_assert_uint_eq(got.units, 40);
    fixture_check(&f, "d", len_for("d", 39));
    delete ("d");
    fixture_grace(&f);
    ck_assert_ptr_eq(set_units("e", 40), a);
}

/* Enough holes of one size that large ones may be split. */
static void make_holes(const char *kind, unsigned count, uint32_t units)
{
    for (unsigned i = 0; i < count; i++) {
        (void)set_units(name(kind, i), units);
    }
    for (unsigned i = 0; i < count; i++) {
        delete (name(kind, i));
    }
    fixture_grace(&f);
    shard_enter(f.shard);
    blocks_ripen(&f.shard->memory, 4096);
    shard_leave(f.shard);
}

TEST(large_holes_are_split_when_there_are_many)
{
    make_holes("few", 50, 200); /* 80000 bytes: less than a fiftieth of 8 MiB */
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, 80000);
    (void)set_units("x", 20);
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 0);
    make_holes("many", 150, 201);
    uint64_t holes = f.shard->memory.blocks.hole_bytes;
    ck_assert_uint_gt(holes, 8 * MIB / 50);
    uint64_t reused = fixture_counter(&f, CTR_hole_reused);
    for (unsigned i = 0; i < 50; i++) {
        ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, holes - i * 20 * ITEM_UNIT);
        (void)set_units(name("part", i), 20);
        fixture_check(&f, name("part", i), len_for(name("part", i), 20));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), reused + 50);
}

TEST(nothing_is_split_that_leaves_less_than_a_block)
{
    make_holes("hole", 700, 40);
    ck_assert_uint_gt(f.shard->memory.blocks.hole_bytes, 8 * MIB / 50);
    (void)set_units("a", 36); /* 40 would leave 4 units */
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 0);
    const struct item *b = set_units("b", 60);
    delete ("b");
    fixture_grace(&f);
    ck_assert_ptr_eq(set_units("c", 36), b);
    (void)set_units("d", 24); /* exactly the rest of it */
    ck_assert_ptr_eq((const char *)fixture_get(&f, "d").item, (const char *)b + 36 * ITEM_UNIT);
}

TEST(a_full_ring_forgets_deaths_but_not_their_bytes)
{
    uint32_t size = f.shard->memory.blocks.ring_mask + 1;
    unsigned n = size + 500;
    for (unsigned i = 0; i < n; i++) {
        (void)set_units(name("k", i), 10);
        if (i % 64 == 0) {
            fixture_grace(&f); /* the index grows */
        }
    }
    for (unsigned i = 0; i < n; i++) {
        delete (name("k", i));
    }
    ck_assert_uint_eq(ring_used(), size);
    ck_assert_uint_ge(f.shard->memory.blocks.dead_bytes, n * 10 * ITEM_UNIT);
    fixture_grace(&f);
    shard_enter(f.shard);
    blocks_ripen(&f.shard->memory, 5);
    ck_assert_uint_le(ring_used(), size - 5);
    blocks_ripen(&f.shard->memory, 2 * size);
    shard_leave(f.shard);
    ck_assert_uint_eq(ring_used(), 0);
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, size * 10 * ITEM_UNIT);
    fixture_verify(&f);
    /* All of them can be taken, and no more. */
    for (unsigned i = 0; i < n; i++) {
        (void)set_units(name("k", i), 10);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), size);
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, 0);
}

TEST(deaths_ripen_in_order_of_their_grace_periods)
{
    (void)set_units("a", 10);
    (void)set_units("b", 11);
    delete ("a");
    fixture_grace(&f);
    (void)set_units("x", 50); /* puts ripen blocks now, so the reclaimer's hook does not */
    delete ("b");
    shard_enter(f.shard);
    blocks_ripen(&f.shard->memory, 100);
    shard_leave(f.shard);
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, 10 * ITEM_UNIT);
    ck_assert_uint_eq(ring_used(), 1);
    fixture_grace(&f);
    shard_enter(f.shard);
    blocks_ripen(&f.shard->memory, 100);
    shard_leave(f.shard);
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, 21 * ITEM_UNIT);
}

/* The reclaimer makes holes when there are no puts. */
TEST(deaths_ripen_without_puts)
{
    for (unsigned i = 0; i < 200; i++) {
        (void)set_units(name("k", i), 10);
    }
    fixture_grace(&f);
    for (unsigned i = 0; i < 200; i++) {
        delete (name("k", i));
    }
    fixture_grace(&f);
    ck_assert_uint_eq(ring_used(), 0);
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, 200 * 10 * ITEM_UNIT);
}

TEST(a_flush_voids_deaths_and_holes)
{
    make_holes("hole", 100, 10);
    for (unsigned i = 0; i < 100; i++) {
        (void)set_units(name("k", i), 12);
    }
    for (unsigned i = 0; i < 50; i++) {
        delete (name("k", i));
    }
    ck_assert_uint_gt(ring_used(), 0);
    ck_assert_uint_gt(f.shard->memory.blocks.hole_bytes, 0);
    fixture_flush(&f, fixture_now(&f));
    ck_assert_uint_eq(ring_used(), 0);
    ck_assert_uint_eq(f.shard->memory.blocks.hole_bytes, 0);
    ck_assert_uint_eq(f.shard->memory.blocks.dead_bytes, 0);
    fixture_grace(&f);
    (void)set_units("x", 12);
    ck_assert_uint_eq(fixture_counter(&f, CTR_hole_reused), 0);
}

/* A segment that was emptied and taken again: the deaths of its former blocks are void. */
TEST(deaths_of_a_former_life_of_a_segment_are_void)
{
    for (unsigned i = 0; i < 1500; i++) {
        (void)set_units(name("k", i), 50);
    }
    for (unsigned i = 0; i < 1500; i++) {
        if (i % 4 != 0) {
            delete (name("k", i));
        }
    }
    /* Cleaned before any of them has ripened. */
    shard_enter(f.shard);
    while (cursor_slice(&f.shard->memory, 1000, fixture_now(&f)) &&
           fixture_counter(&f, CTR_cursor_evicted) == 0 &&
           fixture_counter(&f, CTR_cursor_cleaned) < 10) {
    }
    shard_leave(f.shard);
    ck_assert_uint_ge(fixture_counter(&f, CTR_cursor_cleaned), 10);
    fixture_verify(&f);
    for (unsigned i = 0; i < 2000; i++) {
        (void)set_units(name("n", i), 50);
        if (i % 100 == 0) {
            fixture_grace(&f);
            fixture_verify(&f);
        }
    }
    for (unsigned i = 0; i < 1500; i += 4) {
        fixture_check(&f, name("k", i), len_for(name("k", i), 50));
    }
}

/* Every sealed segment except the cursor's is in the bin of its dead share. */
static void check_bins(void)
{
    const struct shard *s = f.shard;
    const struct blocks *b = &s->memory.blocks;
    uint32_t binned = 0;
    uint32_t sealed = 0;

    for (unsigned bin = 0; bin < DEAD_BINS; bin++) {
        segment_t prev = 0;

        ck_assert((b->bin[bin] != 0) == ((b->bin_bits >> bin & 1) != 0));
        for (segment_t n = b->bin[bin]; n != 0; n = s->memory.arena.segments[n].bin_next) {
            const struct segment *g = &s->memory.arena.segments[n];
            uint64_t want = (uint64_t)g->dead * DEAD_BINS >> s->memory.arena.shift;

            ck_assert_uint_eq(g->bin, bin);
            ck_assert_uint_eq(want < DEAD_BINS ? want : DEAD_BINS - 1, bin);
            ck_assert_uint_eq(g->bin_prev, prev);
            ck_assert_int_eq(g->state, SEG_SEALED);
            ck_assert_uint_ne(n, s->memory.cursor.segment);
            prev = n;
            binned++;
        }
    }
    for (int id = 0; id < CHAINS; id++) {
        for (segment_t n = b->chain[id].head; n != 0; n = s->memory.arena.segments[n].next) {
            sealed += s->memory.arena.segments[n].state == SEG_SEALED &&
                      n != s->memory.cursor.segment;
        }
    }
    ck_assert_uint_eq(binned, sealed);
}

TEST(sealed_segments_stand_in_the_bin_of_their_dead_share)
{
    struct rng rng;

    rng_init(&rng, rng_seed());
    for (unsigned i = 0; i < 20000; i++) {
        const char *key = name("k", (unsigned)rng_below(&rng, 9000));

        if (rng_below(&rng, 3) == 0) {
            (void)fixture_delete(&f, key);
        } else {
            (void)set_units(key, 8 + (uint32_t)rng_below(&rng, 100));
        }
        if (i % 50 == 0) {
            fixture_grace(&f);
        }
        if (i % 500 == 0) {
            check_bins();
        }
    }
    check_bins();
}

/* ---- the rest of a segment --------------------------------------------------------------- */

static uint64_t unused_bytes(void)
{
    const struct memory *m = &f.shard->memory;
    uint64_t unused = 0;

    for (segment_t n = m->blocks.chain[CHAIN_SMALL].head; n != 0;
         n = m->arena.segments[n].next) {
        unused += segment_bytes(&m->arena) - m->arena.segments[n].fill;
    }
    return unused;
}

/* Five blocks of 6000 bytes leave 2768 of a segment, for which there are many small ones. */
TEST(small_blocks_fill_what_large_ones_leave)
{
    for (unsigned i = 0; i < 700; i++) {
        (void)set_units(name("large", i), 6000 / ITEM_UNIT);
        for (unsigned k = 0; k < 10; k++) {
            (void)set_units(name("small", 10 * i + k), 128 / ITEM_UNIT);
        }
    }
    ck_assert_uint_gt(f.shard->memory.blocks.chain[CHAIN_SMALL].count, 100);
    /* The two segments that are not sealed may have more. */
    ck_assert_uint_lt(unused_bytes(), f.shard->memory.blocks.chain[CHAIN_SMALL].count * 400 +
                                          2 * segment_bytes(&f.shard->memory.arena));
}

/* What had a rest is sealed when much of it is dead: then it may be cleaned. */
TEST(what_is_dead_is_sealed_though_it_has_a_rest)
{
    segment_t rest;

    for (unsigned i = 0; i < 6; i++) {
        (void)set_units(name("large", i), 6000 / ITEM_UNIT);
    }
    rest = f.shard->memory.blocks.rest[CHAIN_SMALL];
    ck_assert_uint_ne(rest, 0);
    ck_assert_int_eq(f.shard->memory.arena.segments[rest].state, SEG_OPEN);
    delete (name("large", 2));
    ck_assert_uint_eq(f.shard->memory.blocks.rest[CHAIN_SMALL], 0);
    ck_assert_int_eq(f.shard->memory.arena.segments[rest].state, SEG_SEALED);
    check_bins();
}

/* In the rest of the only other segment there is what was just stored: that is not evicted. */
TEST(what_came_to_the_rest_is_young)
{
    segment_t rest;

    struct memory *m = &f.shard->memory;
    for (unsigned i = 0; i < 11; i++) {
        (void)set_units(name("k", i), 3000 / ITEM_UNIT);
    }
    rest = m->blocks.rest[CHAIN_SMALL];
    const struct item *last = set_units("last", 2700 / ITEM_UNIT);
    ck_assert((const char *)last >= segment_ptr(&m->arena, rest) &&
              (const char *)last < segment_ptr(&m->arena, rest + 1));
    shard_enter(f.shard);
    ck_assert_uint_eq(chains_oldest(m, CHAIN_SMALL), rest);
    (void)cursor_slice(m, 1000, fixture_now(&f));
    shard_leave(f.shard);
    ck_assert(!fixture_has(&f, name("k", 0)));
    ck_assert(fixture_has(&f, "last"));
}
