/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verification can fail: a shard is damaged in one place after another, and each time
 * verification names that kind of damage. Then the damage is undone, and verification succeeds
 * again.
 */
#include "lib/shard/shard.h"

#include "lib/memory/blocks.h"
#include "lib/memory/chunks.h"
#include "tests/common/verify.h"
#include "tests/lib/fixture.h"

#define SMALL     300
#define LARGE_LEN 100000 /* three segments, and pieces */

static struct fixture f;
static struct shard *s;

/* ---- changing memory, and changing it back ----------------------------------------------- */

static struct {
    void *at;
    size_t len;
    char old[64];
} changed[4];
static unsigned changes;

static void keep(const volatile void *at, size_t len)
{
    ck_assert_uint_lt(changes, sizeof(changed) / sizeof(changed[0]));
    ck_assert_uint_le(len, sizeof(changed[0].old));
    changed[changes].at = (void *)(uintptr_t)at;
    changed[changes].len = len;
    memcpy(changed[changes].old, changed[changes].at, len);
    changes++;
}

/* The place, and the value to write there until the damage is undone. */
#define PUT(place, value) (keep(&(place), sizeof(place)), (place) = (value))

static void put_back(void)
{
    while (changes > 0) {
        changes--;
        memcpy(changed[changes].at, changed[changes].old, changed[changes].len);
    }
}

/* ---- a shard that has everything --------------------------------------------------------- */

static _Atomic handle_t *slot_of(const char *key)
{
    _Atomic handle_t *slot;

    shard_enter(s);
    slot = table_slot(&s->table, s->memory.arena.base, fixture_hash(&f, key), key, strlen(key));
    shard_leave(s);
    ck_assert_ptr_nonnull(slot);
    return slot;
}

static struct item *item_of(const char *key)
{
    return shard_item(s, *slot_of(key));
}

static struct item *piece_of(const char *key, unsigned i)
{
    return shard_item(s, item_large(item_of(key))->piece[i]);
}

static struct segment *segment(segment_t n)
{
    return &s->memory.arena.segments[n];
}

/* The first block of a chain that is a hole, or one that is dead but not a hole. */
static handle_t dead_block(bool is_hole)
{
    for (segment_t n = s->memory.blocks.chain[CHAIN_SMALL].head; n != 0; n = segment(n)->next) {
        for (uint32_t at = 0; at < segment(n)->fill;) {
            handle_t h = segment_handle(&s->memory.arena, n) + at / ITEM_UNIT;
            uint16_t shape = item_shape(shard_item(s, h));

            if (shape_is_dead(shape) && shape_is_hole(shape) == is_hole) {
                return h;
            }
            at += item_bytes(shard_item(s, h));
        }
    }
    ck_abort_msg("there is no dead block");
    return 0;
}

static void setup(void)
{
    fixture_start(&f, NULL);
    s = f.shard;
    for (unsigned i = 0; i < SMALL; i++) {
        fixture_set(&f, fixture_key("", i), 1000);
    }
    fixture_set_until(&f, "soon", 500, fixture_now(&f) + 1000);
    fixture_set_until(&f, "later", 500, fixture_now(&f) + 10000000);
    fixture_set(&f, "large", LARGE_LEN);
    fixture_set(&f, "free", 3 * LARGE_LEN);
    ck_assert_int_eq(fixture_delete(&f, "free"), OUT_DELETED);
    /* A few holes: the cleaner leaves a segment with so few of them alone. */
    ck_assert_int_eq(fixture_delete(&f, fixture_key("", 100)), OUT_DELETED);
    fixture_settle(&f);
    fixture_set(&f, "waits", LARGE_LEN);
    ck_assert_int_eq(fixture_delete(&f, "waits"), OUT_DELETED);
    ck_assert_int_eq(fixture_delete(&f, fixture_key("", 200)), OUT_DELETED);
    ck_assert_uint_gt(s->memory.blocks.chain[CHAIN_SMALL].count, 3);
    ck_assert_uint_gt(s->memory.arena.free_count, 0);
    ck_assert_uint_gt(item_large(item_of("large"))->segments, 1);
    ck_assert_uint_gt(item_large(item_of("large"))->pieces, 0);
    fixture_verify(&f);
    changes = 0;
}

TEST_FIXTURE(setup, NULL)

/* ---- damage ------------------------------------------------------------------------------ */

static void value_has_a_foreign_segment(void)
{
    PUT(segment(item_large(item_of("large"))->first)->state, SEG_SEALED);
}

static void value_has_too_few_segments(void)
{
    PUT(segment(item_large(item_of("large"))->first)->next, 0);
}

static void piece_has_another_owner(void)
{
    PUT(item_wide(piece_of("large", 0))->client_flags, *slot_of(fixture_key("", 0)));
}

static void piece_has_another_number(void)
{
    PUT(piece_of("large", 0)->cas_len, piece_of("large", 0)->cas_len | UINT64_C(1) << LEN_BITS);
}

static void piece_is_an_item(void)
{
    PUT(item_large(item_of("large"))->piece[0], *slot_of(fixture_key("", 0)));
}

static void piece_is_shorter(void)
{
    PUT(piece_of("large", 0)->cas_len, piece_of("large", 0)->cas_len - 1);
}

static void value_is_longer(void)
{
    PUT(item_of("large")->cas_len, item_of("large")->cas_len + 1);
}

static void volatile_item_stands_nowhere(void)
{
    PUT(item_ttl(item_of("soon"))->word, item_ttl_word(item_of("soon")) & ~(uint64_t)TTL_NODE);
}

static void key_is_another(void)
{
    char *key = (char *)(uintptr_t)item_key(item_of(fixture_key("", 3)));

    PUT(*key, 'x');
}

static void slot_is_empty(void)
{
    _Atomic handle_t *slot = slot_of(fixture_key("", 3));

    PUT(*slot, 0);
}

static void slot_names_another_item(void)
{
    _Atomic handle_t *slot = slot_of(fixture_key("", 3));

    PUT(*slot, *slot_of(fixture_key("", 4)));
}

static void hole_is_being_filled(void)
{
    struct item *it = shard_item(s, dead_block(true));

    PUT(it->shape, item_shape(it) | SHAPE_TOP);
}

static void hole_is_behind_the_cursor(void)
{
    segment_t n = segment_of(&s->memory.arena, dead_block(true));

    PUT(s->memory.cursor.segment, n);
    PUT(s->memory.cursor.offset, segment(n)->fill);
}

static void dead_block_is_called_a_hole(void)
{
    struct item *it = shard_item(s, dead_block(false));

    PUT(it->shape, item_shape(it) | SHAPE_HOLE);
}

static void dead_block_lives_again(void)
{
    struct item *it = shard_item(s, dead_block(false));

    PUT(it->shape, item_shape(it) & SHAPE_SIZE);
}

static void live_block_is_dead(void)
{
    struct item *it = item_of(fixture_key("", 5));

    PUT(it->shape, item_shape(it) | SHAPE_OFF);
}

static void segment_is_of_no_chain(void)
{
    PUT(segment(s->memory.blocks.chain[CHAIN_SMALL].head)->state, SEG_FREE);
}

static void block_has_no_size(void)
{
    struct item *it = item_of(fixture_key("", 5));

    PUT(it->shape, item_shape(it) & ~SHAPE_SIZE);
}

static void block_is_larger(void)
{
    struct item *it = item_of(fixture_key("", 5));

    PUT(it->shape, item_shape(it) + 1);
}

static void segment_is_fuller(void)
{
    struct segment *g = segment(s->memory.blocks.chain[CHAIN_SMALL].head);

    PUT(g->fill, g->fill - ITEM_UNIT);
}

static void segment_counts_another_live_block(void)
{
    struct segment *g = segment(s->memory.blocks.chain[CHAIN_SMALL].head);

    PUT(g->live, g->live + 1);
}

static void segment_counts_more_dead_bytes(void)
{
    struct segment *g = segment(s->memory.blocks.chain[CHAIN_SMALL].head);

    PUT(g->dead, g->dead + ITEM_UNIT);
}

static void segment_has_another_neighbour(void)
{
    PUT(segment(segment(s->memory.blocks.chain[CHAIN_SMALL].head)->next)->prev, 0);
}

static void segment_is_of_the_other_chain(void)
{
    PUT(segment(s->memory.blocks.chain[CHAIN_SMALL].head)->chain, CHAIN_MAIN);
}

static void chain_counts_another_segment(void)
{
    PUT(s->memory.blocks.chain[CHAIN_MAIN].count, s->memory.blocks.chain[CHAIN_MAIN].count + 1);
}

static void chain_ends_elsewhere(void)
{
    PUT(s->memory.blocks.chain[CHAIN_SMALL].tail, s->memory.blocks.chain[CHAIN_SMALL].head);
}

static void chain_counts_more_bytes(void)
{
    PUT(s->memory.blocks.chain[CHAIN_SMALL].bytes,
        s->memory.blocks.chain[CHAIN_SMALL].bytes + 1);
}

static void free_list_lost_a_segment(void)
{
    PUT(s->memory.arena.free, segment(s->memory.arena.free)->next);
}

static void free_list_is_a_ring(void)
{
    PUT(segment(s->memory.arena.free)->next, s->memory.arena.free);
}

static void queue_counts_another_segment(void)
{
    PUT(s->memory.arena.quarantine.segments, s->memory.arena.quarantine.segments + 1);
}

static void a_segment_is_held_by_nobody(void)
{
    PUT(s->memory.arena.held, s->memory.arena.held + 1);
}

static void values_count_another_segment(void)
{
    PUT(s->memory.arena.values.segments, s->memory.arena.values.segments + 1);
}

static void value_is_not_in_the_queue(void)
{
    PUT(s->memory.arena.values.head, 0);
}

static void more_is_dead(void)
{
    PUT(s->memory.blocks.dead_bytes, s->memory.blocks.dead_bytes + ITEM_UNIT);
}

static void more_is_in_holes(void)
{
    PUT(s->memory.blocks.hole_bytes, s->memory.blocks.hole_bytes + ITEM_UNIT);
}

static handle_t *hole_head(void)
{
    handle_t h = dead_block(true);

    return &s->memory.blocks.holes[CHAIN_SMALL].head[item_units(shard_item(s, h))];
}

static void hole_is_not_listed(void)
{
    handle_t *head = hole_head();

    PUT(*head, hole_next(shard_item(s, *head)));
    if (*head == 0) {
        uint32_t units = (uint32_t)(head - s->memory.blocks.holes[CHAIN_SMALL].head);
        uint64_t *word = &s->memory.blocks.holes[CHAIN_SMALL].words[units / 64];

        PUT(*word, *word & ~(1ull << (units % 64)));
    } else {
        PUT(shard_item(s, *head)->cas_len, hole_next(shard_item(s, *head)));
    }
}

static void holes_are_a_ring(void)
{
    handle_t h = *hole_head();

    PUT(shard_item(s, h)->cas_len, (uint64_t)h << 32 | h);
}

static void hole_is_listed_by_another_size(void)
{
    handle_t *head = hole_head();
    handle_t h = *head;

    PUT(*head, 0);
    PUT(head[1], h);
}

static void hole_has_no_bit(void)
{
    struct holes *l = &s->memory.blocks.holes[CHAIN_SMALL];
    uint32_t units = (uint32_t)(hole_head() - l->head);

    PUT(l->words[units / 64], 0);
}

static void holes_have_no_summary(void)
{
    PUT(s->memory.blocks.holes[CHAIN_SMALL].summary, 0);
}

/* A sealed segment in a bin. */
static struct segment *binned(void)
{
    segment_t n = s->memory.blocks.chain[CHAIN_SMALL].head;

    while (segment(n)->bin == NO_BIN) {
        n = segment(n)->next;
        ck_assert_uint_ne(n, 0);
    }
    return segment(n);
}

static void segment_is_of_another_bin(void)
{
    struct segment *g = binned();

    PUT(g->bin, g->bin + 1);
}

static void segment_is_in_no_bin(void)
{
    struct segment *g = binned();

    PUT(g->bin, NO_BIN);
}

static void bin_is_empty(void)
{
    struct segment *g = binned();

    PUT(s->memory.blocks.bin_bits, s->memory.blocks.bin_bits & ~(1u << g->bin));
    PUT(s->memory.blocks.bin[g->bin], 0);
}

static void bin_has_no_bit(void)
{
    PUT(s->memory.blocks.bin_bits, 0);
}

static void index_counts_another_item(void)
{
    PUT(s->table.count, s->table.count + 1);
}

static void another_item_is_counted(void)
{
    PUT(s->counters.v[CTR_curr_items], s->counters.v[CTR_curr_items] + 1);
}

static void more_bytes_are_counted(void)
{
    PUT(s->counters.v[CTR_item_bytes], s->counters.v[CTR_item_bytes] + 1);
}

static void deadline_is_of_another_bucket(void)
{
    uint64_t deadline = item_ttl_word(item_of("later")) & ~(uint64_t)TTL_NODE;

    PUT(item_ttl(item_of("soon"))->word, deadline | item_node(item_of("soon")));
}

static void position_is_of_another_item(void)
{
    uint64_t deadline = item_ttl_word(item_of("soon")) & ~(uint64_t)TTL_NODE;

    PUT(item_ttl(item_of("soon"))->word, deadline | item_node(item_of("later")));
}

static void another_large_item_is_counted(void)
{
    PUT(s->memory.large_items, s->memory.large_items + 1);
}

static const struct {
    const char *why; /* part of the message */
    void (*damage)(void);
} rows[] = {
    {"of its value is not one", value_has_a_foreign_segment},
    {"of its value is not one", value_has_too_few_segments},
    {"is not its own", piece_has_another_owner},
    {"is not its own", piece_has_another_number},
    {"is not its own", piece_is_an_item},
    {"value of 100000 bytes has 99999", piece_is_shorter},
    {"value of 100001 bytes has 100000", value_is_longer},
    {"has a deadline and is not in the wheel", volatile_item_stands_nowhere},
    {"is live and not in the index", key_is_another},
    {"is live and not in the index", slot_is_empty},
    {"is live and not in the index", slot_names_another_item},
    {"is live and not in the index", dead_block_lives_again},
    {"is a hole and being filled", hole_is_being_filled},
    {"is where the cursor has been", hole_is_behind_the_cursor},
    {" listed", dead_block_is_called_a_hole},
    {"live ", live_block_is_dead},
    {"of a chain has state 0", segment_is_of_no_chain},
    {"block of no size", block_has_no_size},
    {"", block_is_larger}, /* the next block could be anything */
    {"fill ", segment_is_fuller},
    {"live ", segment_counts_another_live_block},
    {"dead ", segment_counts_more_dead_bytes},
    {"is not linked well", segment_has_another_neighbour},
    {"is not linked well", segment_is_of_the_other_chain},
    {"chain 1: 0 segments, 1 counted", chain_counts_another_segment},
    {"chain 0: ", chain_ends_elsewhere},
    {"live bytes, ", chain_counts_more_bytes},
    {"free list: ", free_list_lost_a_segment},
    {"free list: ", free_list_is_a_ring},
    {"queues: ", queue_counts_another_segment},
    {"held ", a_segment_is_held_by_nobody},
    {"values: ", values_count_another_segment},
    {"values: ", value_is_not_in_the_queue},
    {"dead ", more_is_dead},
    {"holes ", more_is_in_holes},
    {"bytes, ", hole_is_not_listed},
    {"is no hole of ", holes_are_a_ring},
    {"are not where its bit says", hole_is_listed_by_another_size},
    {"are not where its bit says", hole_has_no_bit},
    {"are not where its bit says", holes_have_no_summary},
    {"does not belong there", segment_is_of_another_bin},
    {"does not belong there", segment_is_in_no_bin},
    {"bins: ", bin_is_empty},
    {"is not what its bit says", bin_has_no_bit},
    {"items: ", index_counts_another_item},
    {"items: ", another_item_is_counted},
    {"item bytes: ", more_bytes_are_counted},
    {"wheel: ", deadline_is_of_another_bucket},
    {"wheel: ", position_is_of_another_item},
    {"large items: 1, 2 counted", another_large_item_is_counted},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

TEST_LOOP(damage_is_reported_and_gone_when_undone, ROWS)
{
    char why[256] = "";

    rows[_i].damage();
    ck_assert_uint_gt(changes, 0);
    ck_assert_msg(!shard_verify(s, why, sizeof(why)), "row %d is not noticed", _i);
    ck_assert_msg(strstr(why, rows[_i].why) != NULL && why[0] != '\0',
                  "row %d: \"%s\" is not in \"%s\"", _i, rows[_i].why, why);
    put_back();
}

/* ---- what more than memory is needed for ------------------------------------------------- */

TEST(an_item_that_died_and_was_not_unlinked_is_told)
{
    char why[256] = "";

    _Atomic handle_t *slot = slot_of(fixture_key("", 7));
    const struct item *it = shard_item(s, *slot);

    shard_enter(s);
    blocks_kill(&s->memory, *slot);
    shard_leave(s);
    ck_assert(!shard_verify(s, why, sizeof(why)));
    ck_assert_msg(strstr(why, "which is no live item") != NULL, "%s", why);
    /* Then the rest of an unlink. */
    shard_enter(s);
    table_remove(&s->table, shard_hash(s, it), slot);
    ctr_add(&s->counters, CTR_curr_items, -(uint64_t)1);
    ctr_add(&s->counters, CTR_item_bytes, -(uint64_t)item_bytes(it));
    shard_leave(s);
}

TEST(an_item_that_left_the_wheel_is_reported)
{
    char why[256] = "";

    handle_t h = *slot_of("soon");

    shard_enter(s);
    wheel_remove(s->wheel, h);
    item_set_node(shard_item(s, h), 12345);
    shard_leave(s);
    ck_assert(!shard_verify(s, why, sizeof(why)));
    ck_assert_msg(strstr(why, "wheel: 2 volatile items, 1 in the set") != NULL, "%s", why);
    shard_enter(s);
    wheel_add(s->wheel, h);
    shard_leave(s);
}

TEST(the_first_damage_is_what_is_told_however_short)
{
    char why[8] = "";

    more_is_dead();
    segment_counts_another_live_block();
    ck_assert(!shard_verify(s, why, sizeof(why)));
    ck_assert_str_eq(why, "segment");
    put_back();
}
