/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shards that hold few items: which of them are one block, what an eviction copies, whether it
 * keeps what the same policy keeps in an ideal store of as many items, and what an overdraft
 * costs.
 */
#include "lib/memory/memory.h"

#include "lib/memory/evict.h"
#include "lib/store/store_common.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

/* ---- blocks ------------------------------------------------------------------------------ */

TEST_LOOP(blocks_of_one_size_leave_no_more_than_an_eighth_of_a_segment, 3)
{
    static const uint64_t limits[] = {8 * MIB, 32 * MIB, 256 * MIB};

    fixture_start_sized(&f, 1, limits[_i]);
    const struct memory *m = &f.shard->memory;
    uint32_t segment = segment_bytes(&m->arena);
    for (uint32_t units = 4; units <= ITEM_SIZE_MAX + 9; units++) {
        uint32_t tail = segment % (units * ITEM_UNIT);

        ck_assert_int_eq(memory_fits(m, units), units <= ITEM_SIZE_MAX && tail <= segment / 8);
    }
}

TEST(values_of_kilobytes_are_one_block_in_a_small_shard)
{
    ck_assert_uint_eq(segment_bytes(&f.shard->memory.arena), 32 * KIB);
    fixture_set(&f, "4k", 4000);
    fixture_set(&f, "12k", 12000);
    fixture_set(&f, "16k", 16000);
    ck_assert(!fixture_get(&f, "4k").is_large);
    ck_assert(fixture_get(&f, "12k").is_large); /* two would leave a fourth of a segment */
    ck_assert(!fixture_get(&f, "16k").is_large);
    fixture_check(&f, "4k", 4000);
    fixture_check(&f, "12k", 12000);
    fixture_check(&f, "16k", 16000);
}

/* ---- what is copied ---------------------------------------------------------------------- */

static const struct {
    size_t len;
    unsigned pct; /* what may be copied, of what is stored */
} copies[] = {{1000, 5},  {4000, 5},   {12000, 10}, {16000, 5},
              {20000, 5}, {24000, 15}, {40000, 10}, {60000, 20}};

/*
 * Nobody asks for anything, so an eviction has nothing to keep. Of a value in pieces it copies
 * those that went to holes among older items.
 */
TEST_LOOP(what_nobody_asks_for_is_not_copied, 8)
{
    const size_t len = copies[_i].len;
    const unsigned fill = (unsigned)(16 * MIB / len);
    uint64_t moved = 0;

    for (unsigned i = 0; i < 3 * fill; i++) {
        if (i == fill) {
            moved = fixture_counter(&f, CTR_cursor_moved_bytes);
        }
        fixture_set(&f, fixture_key("k", i), len);
        if (i % 8 == 0) {
            fixture_grace(&f);
        }
    }
    moved = fixture_counter(&f, CTR_cursor_moved_bytes) - moved;
    ck_assert_uint_le(moved * 100, 2 * fill * len * copies[_i].pct);
    ck_assert_uint_gt(fixture_counter(&f, CTR_item_bytes), 8 * MIB * 3 / 4);
}

/* A value in pieces that is in use is judged once in a pass, and whole. */
TEST(what_is_asked_for_outlives_the_rest_in_pieces_too)
{
    for (unsigned i = 0; i < 20; i++) {
        fixture_set(&f, fixture_key("hot", i), 24000);
        ck_assert(fixture_get(&f, fixture_key("hot", i)).is_large);
    }
    for (unsigned i = 0; i < 4000; i++) {
        fixture_set(&f, fixture_key("k", i), 24000);
        if (i % 40 == 0) {
            for (unsigned k = 0; k < 20; k++) {
                fixture_use(&f, fixture_key("hot", k), 1);
            }
        }
        if (i % 8 == 0) {
            fixture_grace(&f);
        }
    }
    for (unsigned i = 0; i < 20; i++) {
        fixture_check(&f, fixture_key("hot", i), 24000);
        ck_assert_int_eq(fixture_get(&f, fixture_key("hot", i)).chain, CHAIN_MAIN);
    }
}

/* ---- beside the ideal -------------------------------------------------------------------- */

#define KEYS_MAX 40000u

/* The policy, density, over items of one size; queues are rings of keys. */
struct ideal {
    struct fifo {
        uint32_t at[4 * KEYS_MAX];
        uint32_t head, count;
    } small, main, ghost;
    uint8_t place[KEYS_MAX]; /* 0: nowhere, 1: small, 2: main, 3: ghost */
    uint8_t heat[KEYS_MAX];
    uint8_t credit[KEYS_MAX]; /* quarters of a hit */
    uint32_t items;
};
static struct ideal ideal;

static void push(struct fifo *q, uint32_t key)
{
    q->at[(q->head + q->count++) % (4 * KEYS_MAX)] = key;
}

static uint32_t pop(struct fifo *q)
{
    uint32_t key = q->at[q->head];

    q->head = (q->head + 1) % (4 * KEYS_MAX);
    q->count--;
    return key;
}

/* The ghost may name keys that have come back since: these do not count. */
static void remember(uint32_t key)
{
    ideal.place[key] = 3;
    push(&ideal.ghost, key);
    while (ideal.ghost.count > ideal.items) {
        uint32_t last = pop(&ideal.ghost);

        if (ideal.place[last] == 3) {
            ideal.place[last] = 0;
        }
    }
}

static void evict_ideally(void)
{
    while (ideal.small.count > ideal.items / 10 || ideal.main.count == 0) {
        uint32_t key = pop(&ideal.small);

        if (ideal.heat[key] == 0) {
            remember(key);
            return;
        }
        ideal.heat[key] = 0;
        ideal.credit[key] = 0;
        ideal.place[key] = 2;
        push(&ideal.main, key);
    }
    for (;;) {
        uint32_t key = pop(&ideal.main);

        unsigned has = ideal.credit[key] + 4u * ideal.heat[key];

        if (has < 2) {
            ideal.place[key] = 0;
            return;
        }
        ideal.credit[key] = (uint8_t)(has - 2 < 7 ? has - 2 : 7);
        ideal.heat[key] = 0;
        push(&ideal.main, key);
    }
}

static bool ask_ideal(uint32_t key)
{
    bool was_ghost = ideal.place[key] == 3;

    if (ideal.place[key] == 1 || ideal.place[key] == 2) {
        ideal.heat[key] += ideal.heat[key] < 3;
        return true;
    }
    ideal.place[key] = 0;
    while (ideal.small.count + ideal.main.count >= ideal.items) {
        evict_ideally();
    }
    ideal.heat[key] = 0;
    ideal.credit[key] = was_ghost ? 2 : 0;
    ideal.place[key] = was_ghost ? 2 : 1;
    push(was_ghost ? &ideal.main : &ideal.small, key);
    return false;
}

/* The first keys are asked for most. */
static uint32_t draw(struct rng *rng, uint32_t keys)
{
    double u = (double)rng_below(rng, 1u << 30) / (1u << 30);

    return (uint32_t)(u * u * u * keys);
}

/*
 * Of items of which a segment has eight or two, what stays in main stays where it is; what goes
 * there from small is copied.
 */
TEST_LOOP(it_hits_as_often_as_the_ideal_of_as_many_items, 6)
{
    static const struct {
        size_t len;
        unsigned copied_pct; /* at most, of what is stored */
    } rows[] = {{1000, 200}, {4000, 40}, {12000, 150}, {16000, 40}, {20000, 150}, {40000, 50}};
    const size_t len = rows[_i].len;
    const uint32_t keys = (uint32_t)(8 * MIB / len * 4);
    const unsigned asks = 12 * keys;
    unsigned hits = 0, ideal_hits = 0;
    struct rng rng;

    ck_assert_uint_le(keys, KEYS_MAX);
    rng_init(&rng, 7);
    for (unsigned i = 0; i < asks; i++) {
        const char *key = fixture_key("k", draw(&rng, keys));

        if (fixture_use(&f, key, 1).is_hit) {
            hits++;
        } else {
            fixture_set(&f, key, len);
        }
        if (i % 8 == 0) {
            fixture_grace(&f);
        }
    }
    uint64_t moved = fixture_counter(&f, CTR_cursor_moved_bytes);
    ck_assert_uint_le(moved * 100, (uint64_t)(asks - hits) * len * rows[_i].copied_pct);
    ck_assert(rows[_i].copied_pct > 40 || fixture_counter(&f, CTR_cursor_sifted) > 100);
    memset(&ideal, 0, sizeof(ideal));
    ideal.items = (uint32_t)fixture_counter(&f, CTR_curr_items);
    rng_init(&rng, 7);
    for (unsigned i = 0; i < asks; i++) {
        ideal_hits += ask_ideal(draw(&rng, keys));
    }
    ck_assert_uint_ge(hits + asks / 100,
                      ideal_hits); /* of few items, a draw more or less matters */
}

/* ---- the overdraft ----------------------------------------------------------------------- */

/*
 * Stores that come faster than grace periods end overdraw the budget each time. What they took
 * is kept while they go on, and given back when they stop.
 */
TEST(an_overdraft_in_use_is_not_given_back_each_time)
{
    fixture_start_sized(&f, 1, 32 * MIB);
    for (unsigned i = 0; i < 12000; i++) {
        fixture_set(&f, fixture_key("k", i), 16000);
        if (i % 128 == 0) {
            clock_advance(&f.engine.clock, 2);
            fixture_grace(&f);
        }
    }
    /* Two megabytes in 2 ms: it was 64 MiB of pages given back and faulted in again. */
    ck_assert_uint_le(fixture_counter(&f, CTR_segments_discarded) * 64 * KIB, 8 * MIB);
    for (unsigned i = 0; i < 20; i++) {
        clock_advance(&f.engine.clock, 50);
        fixture_settle(&f);
    }
    ck_assert_int_le(fixture_used(&f), 32 * (int64_t)MIB);
}
