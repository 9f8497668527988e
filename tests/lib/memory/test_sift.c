/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sifting of segments of main that have few large items: which segments are sifted, and what
 * becomes of the items. Policies that keep items without a deadline in main put them there.
 */
#include "lib/memory/cursor.h"

#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/chunks.h"
#include "lib/memory/evict.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/upkeep.h"
#include "tests/lib/fixture.h"

#define LEN 6000u /* five in a segment of 32 KiB */
/* A segment of 32 KiB and four pieces; there are two of these in a segment. */
#define LARGE_LEN ((size_t)32768 + 14000)

#define COLD   HEAT_JUDGED
#define HOT    (HEAT_JUDGED | HEAT_MAX)
#define OTHERS 400u

static struct fixture f;
static struct memory *m;
static segment_t first; /* the oldest of main */

static void begin(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    fixture_policy(CHOICE_VOLATILE_LRU);
    fixture_start(&f, &cfg);
    m = &f.shard->memory;
}

TEST_FIXTURE(begin, NULL)

static void heat(const char *key, uint8_t to)
{
    struct got got = fixture_get(&f, key);

    ck_assert(got.is_hit);
    ck_assert_int_eq(got.chain, CHAIN_MAIN);
    atomic_store(&((struct item *)(uintptr_t)got.item)->heat, to);
}

static void put(const char *key, size_t len, uint8_t hot)
{
    fixture_set(&f, key, len);
    heat(key, hot);
}

/* Segments of other items follow, so that the first one is sealed. */
static void fill(void)
{
    for (unsigned i = 0; i < OTHERS / 2; i++) {
        put(fixture_key("other-", i), LEN, HOT);
    }
    fixture_policy(CHOICE_DENSITY);
    shard_enter(f.shard);
    first = chains_oldest(m, CHAIN_MAIN);
    shard_leave(f.shard);
    ck_assert_uint_eq(first, m->blocks.chain[CHAIN_MAIN].head);
}

/* The cursor chooses a segment, and begins with it. Was it sifted? */
static bool is_sifted(void)
{
    uint64_t before = fixture_counter(&f, CTR_cursor_sifted);

    shard_enter(f.shard);
    (void)cursor_slice(m, 1, fixture_now(&f));
    shard_leave(f.shard);
    return fixture_counter(&f, CTR_cursor_sifted) != before;
}

TEST(what_is_worth_it_stays_where_it_is)
{
    const struct item *place[5];

    for (unsigned i = 0; i < 5; i++) {
        put(fixture_key("k", i), LEN, i % 2 == 0 ? HOT : COLD);
        place[i] = fixture_get(&f, fixture_key("k", i)).item;
    }
    fill();
    ck_assert(is_sifted());
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(fixture_has(&f, fixture_key("k", i)), i % 2 == 0);
        if (i % 2 == 0) {
            ck_assert_ptr_eq(fixture_get(&f, fixture_key("k", i)).item, place[i]);
            fixture_check(&f, fixture_key("k", i), LEN);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 2);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
    /* It is the youngest now, and another one is the next. */
    ck_assert_uint_ne(m->blocks.chain[CHAIN_MAIN].head, first);
    ck_assert_int_eq(m->arena.segments[first].state, SEG_SEALED);
    ck_assert_uint_eq(m->cursor.segment, 0);
    ck_assert_uint_eq(m->cursor.sifted_for_nothing, 0);
}

TEST(a_segment_of_which_nothing_stays_is_freed)
{
    for (unsigned i = 0; i < 5; i++) {
        put(fixture_key("k", i), LEN, COLD);
    }
    fill();
    ck_assert(is_sifted());
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 5);
    for (unsigned i = 0; i < 10 && m->arena.segments[first].state == SEG_SEALED; i++) {
        shard_enter(f.shard);
        (void)cursor_slice(m, 64, fixture_now(&f));
        shard_leave(f.shard);
    }
    ck_assert_int_ne(m->arena.segments[first].state, SEG_SEALED);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_evicted), 1);
}

static unsigned drop_none(void *owner, unsigned max, msec_t now, unsigned *looked)
{
    return 0;
}

/* What is due when a segment is sifted has expired, also if it is met there first. */
TEST(what_is_due_is_not_evicted)
{
    struct memory_owner_ops ops;
    const msec_t due = 100;

    for (unsigned i = 0; i < 5; i++) {
        put(fixture_key("k", i), LEN, HOT);
    }
    /* What takes the place of an item stays in its chain: the second segment is theirs. */
    fixture_policy(CHOICE_DENSITY);
    for (unsigned i = 0; i < 5; i++) {
        fixture_set_until(&f, fixture_key("k", i), LEN,
                          fixture_now(&f) + due + (i == 0 ? 0 : 1000));
        heat(fixture_key("k", i), HOT);
    }
    fixture_policy(CHOICE_VOLATILE_LRU);
    fixture_settle(&f); /* others come to the first one */
    fill();
    ck_assert(is_sifted());
    clock_advance(&f.engine.clock, due);
    ops = *m->ops;
    ops.drop_due = drop_none;
    const struct memory_owner_ops *real = m->ops;
    m->ops = &ops;
    ck_assert(is_sifted());
    m->ops = real;
    ck_assert(!fixture_has(&f, "k0") && fixture_has(&f, "k1"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed), 1);
}

/* Segments that are emptied instead, each for one reason. */
enum why {
    FEW_ITEMS,
    MANY_ITEMS,
    A_LARGE_VALUE,
    TOO_LITTLE_ALIVE,
    MANY_HOLES,
    MANY_BLOCKS,
    WHYS
};

TEST_LOOP(few_items_that_fill_a_segment_are_sifted, WHYS)
{
    unsigned i = 0;

    if (_i == MANY_ITEMS) {
        for (; i < 9; i++) {
            put(fixture_key("k", i), 3300, HOT);
        }
    } else if (_i == A_LARGE_VALUE) {
        put("large", 20000, HOT); /* five pieces, and no whole segment */
    } else if (_i == MANY_BLOCKS) {
        for (unsigned n = 0; n < 70; n++) {
            put(fixture_key("small-", n), 20, HOT);
        }
    }
    for (unsigned n = 0; n < (_i == MANY_ITEMS || _i == A_LARGE_VALUE ? 0
                              : _i == MANY_BLOCKS                     ? 4
                                                                      : 5);
         n++) {
        put(fixture_key("k", i++), LEN, HOT);
    }
    fill();
    if (_i == TOO_LITTLE_ALIVE) {
        ck_assert_int_eq(fixture_delete(&f, "k0"), OUT_DELETED);
        ck_assert_int_eq(fixture_delete(&f, "k1"), OUT_DELETED);
        ck_assert_int_eq(fixture_delete(&f, "k2"), OUT_DELETED);
    } else if (_i == MANY_HOLES) {
        for (unsigned n = 50; n < 50 + OTHERS / 2 / 40; n++) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("other-", n)), OUT_DELETED);
        }
        fixture_settle(&f);
        fixture_set(&f, "small", 20); /* what died is made holes */
    } else if (_i == MANY_BLOCKS) {
        for (unsigned n = 0; n < 70; n++) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("small-", n)), OUT_DELETED);
        }
    }
    ck_assert_int_eq(is_sifted(), _i == FEW_ITEMS);
    ck_assert(_i == FEW_ITEMS || m->cursor.segment == first);
    ck_assert_int_eq(m->cursor.mode, _i == FEW_ITEMS ? CURSOR_CLEAN : CURSOR_EVICT);
}

/* The ghost remembers what small and big evict; what main evicts had its time. */
TEST(what_main_evicts_is_not_remembered)
{
    put("gone", LEN, COLD);
    for (unsigned i = 0; i < 4; i++) {
        put(fixture_key("k", i), LEN, HOT);
    }
    fill();
    struct evict *ev = &m->evict;
    uint64_t hash = fixture_hash(&f, "gone");
    evict_make_past(m, 1000);
    fixture_settle(&f);
    shard_enter(f.shard);
    ck_assert(evict_has_past(ev));
    shard_leave(f.shard);
    ck_assert(is_sifted());
    ck_assert(!fixture_has(&f, "gone"));
    shard_enter(f.shard);
    ck_assert_int_eq(evict_chain(ev, hash, LEN), CHAIN_SMALL);
    shard_leave(f.shard);
}

/* The same with parts of values that have whole segments: these become free. */
TEST(parts_of_large_values_stay_where_they_are)
{
    const size_t len = LARGE_LEN;

    put("kept", len, HOT);
    put("gone", len, COLD);
    const struct item *place = fixture_get(&f, "kept").item;
    fill();
    uint32_t held = m->arena.values.segments;
    ck_assert_uint_eq(held, 2);
    ck_assert(is_sifted());
    ck_assert(!fixture_has(&f, "gone"));
    ck_assert_ptr_eq(fixture_get(&f, "kept").item, place);
    fixture_check(&f, "kept", len);
    ck_assert_uint_eq(m->arena.values.segments, held - 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
}

/* Pieces in holes, far from their heads: moving them does not judge the value. */
TEST(pieces_apart_from_their_heads_stay_where_they_are)
{
    uint32_t units;
    size_t len;
    const struct large *l;
    handle_t piece;

    units = (PIECE_HEADER_BYTES + m->piece_max + ITEM_UNIT - 1) / ITEM_UNIT;
    len = m->piece_max;
    while (keyspace_units(2, len, false, false) > units) {
        len--;
    }
    for (unsigned i = 0; i < 7; i++) {
        put(fixture_key("k", i), len, HOT);
    }
    fill();
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    fixture_policy(CHOICE_VOLATILE_LRU);
    put("large", 20000, HOT); /* four whole pieces and a shorter one */
    fixture_policy(CHOICE_DENSITY);
    l = item_large(fixture_get(&f, "large").item);
    piece = atomic_load(&l->piece[0]);
    ck_assert_uint_eq(segment_of(&m->arena, piece), first);
    ck_assert(is_sifted());
    ck_assert_uint_eq(atomic_load(&l->piece[0]), piece);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
    fixture_check(&f, "large", 20000);
}

/* A value is judged when its first piece is met, and then it counts as scanned as a whole. */
TEST(what_is_kept_was_scanned)
{
    put("large", 20000, HOT);
    fill();
    ck_assert(!is_sifted());
    while (m->cursor.kept == 0) {
        shard_enter(f.shard);
        (void)cursor_slice(m, 1, fixture_now(&f));
        shard_leave(f.shard);
    }
    ck_assert(fixture_has(&f, "large"));
    ck_assert_uint_ge(m->cursor.kept, 20000);
    ck_assert_uint_ge(m->cursor.scanned, m->cursor.kept);
}

/* Where nothing dies, sifting would go round and round. */
TEST(a_chain_is_sifted_for_nothing_once)
{
    for (unsigned i = 0; i < 5; i++) {
        put(fixture_key("k", i), LEN, HOT);
    }
    fill();
    ck_assert(is_sifted());
    ck_assert_uint_eq(m->cursor.sifted_for_nothing, 1);
    m->cursor.sifted_for_nothing = m->blocks.chain[CHAIN_MAIN].count - 1;
    ck_assert(is_sifted());
    ck_assert(!is_sifted());
    ck_assert_int_eq(m->cursor.mode, CURSOR_EVICT);
    ck_assert_uint_eq(m->cursor.sifted_for_nothing, 0);
}

/* Values that are read and replaced at random: each store takes a bounded number of steps. */
TEST(large_values_are_stored_in_bounded_steps)
{
    struct rng rng;

    fixture_policy(CHOICE_DENSITY);
    rng_init(&rng, 1);
    for (unsigned i = 0; i < 3000; i++) {
        const char *key = fixture_key("k", (unsigned)rng_below(&rng, rng_below(&rng, 600) + 1));
        uint64_t before = fixture_counter(&f, CTR_cursor_sifted);

        if (i % 2 == 0) {
            (void)fixture_get(&f, key);
            continue;
        }
        fixture_set(&f, key, LARGE_LEN);
        ck_assert_uint_le(fixture_counter(&f, CTR_cursor_sifted) - before, 300);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_sifted), 100);
}

/* A live item costs what it costs elsewhere, so a slice is bounded. */
TEST(sifting_takes_work)
{
    for (unsigned i = 0; i < 50; i++) {
        put(fixture_key("k", i), LEN, HOT);
    }
    fill();
    shard_enter(f.shard);
    (void)cursor_slice_beyond(m, 39, fixture_now(&f), 1000000); /* of 20 for five items */
    shard_leave(f.shard);
    ck_assert_uint_eq(fixture_counter(&f, CTR_cursor_sifted), 2);
}
