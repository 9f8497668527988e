/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placed bodies: values that are received directly into the segments and blocks of their item.
 * Every length, every place to stop at, and what can happen between placing and storing: a
 * flush, another store, a slot that moves, a body that is unplaced.
 */
#include "lib/store/body.h"

#include "lib/base/budgets.h"
#include "tests/lib/fixture.h"

#define KEY "key"

static struct fixture f;
static char bytes[BODY_PLACE_MAX];

/* In pieces, in segments of 32 KiB, and in both. */
static const size_t lens[] = {20000, 64 * KIB, 98000, 100000, 125000, BODY_PLACE_MAX};

#define LENS (sizeof(lens) / sizeof(lens[0]))

static void start(void)
{
    fixture_start(&f, NULL);
    fixture_fill(bytes, sizeof(bytes), 7);
}

TEST_FIXTURE(start, NULL)

static void store_init(struct store *s, enum store_mode mode, struct body **b)
{
    *s = (struct store){.mode = mode,
                        .hash = fixture_hash(&f, KEY),
                        .key = span_of(KEY, 3),
                        .flags = 9,
                        .deadline = MSEC_NEVER,
                        .body = b,
                        .may_wait = true};
}

/* Begin and place, within a section that the caller ends. */
static struct body *placed(const struct store *s, size_t len)
{
    struct body *b = body_begin(&f.engine, s->hash, len);

    ck_assert_ptr_nonnull(b);
    ck_assert(engine_may_place(&f.engine, len));
    ck_assert(body_place(b, s, fixture_now(&f)));
    return b;
}

/* Write up to `end`, as one read into all places would. */
static void fill_places(struct body *b, size_t len, size_t end)
{
    struct iovec places[BODY_PLACES_MAX];
    unsigned n = body_places(b, places);
    size_t begin = len - body_missing(b);
    size_t at = begin;

    for (unsigned i = 0; i < n; i++) {
        size_t take = places[i].iov_len < end - at ? places[i].iov_len : end - at;

        memcpy(places[i].iov_base, bytes + at, take);
        at += take;
    }
    ck_assert_uint_eq(at, end);
    body_filled(b, at - begin);
}

/* Write no more than a portion, wherever the body wants it. */
static void fill_some(struct body *b, size_t len, size_t portion)
{
    char *to;
    size_t n;
    size_t at = len - body_missing(b);

    ck_assert_int_eq(body_room(b, true, &to, &n), OUT_OK);
    n = n < portion ? n : portion;
    memcpy(to, bytes + at, n);
    body_filled(b, n);
}

static void fill_rest(struct body *b, size_t len, size_t portion)
{
    while (body_missing(b) > 0) {
        fill_some(b, len, portion);
    }
}

/* Where the key is stored now. */
static const struct shard *key_shard(void)
{
    rcu_begin();
    const struct route *rt = router_read(&f.engine.router);
    const struct shard *s = rt->shards[route_slot(rt, fixture_hash(&f, KEY))->put];
    rcu_end();
    return s;
}

static void check_value(size_t len)
{
    struct got g = fixture_get(&f, KEY);

    ck_assert(g.is_hit);
    ck_assert_uint_eq(g.len, len);
    ck_assert_uint_eq(g.flags, 9);
    ck_assert_int_eq(memcmp(g.value, bytes, len), 0);
}

TEST(a_value_of_any_length_is_what_was_written)
{
    unsigned tried = 0;

    for (size_t len = ENGINE_SMALL_MAX + 1; len <= BODY_PLACE_MAX;
         len += len < 70 * KIB ? 101 : 1009, tried++) {
        struct store s;
        struct body *b;

        store_init(&s, STORE_SET, &b);
        rcu_begin();
        b = placed(&s, len);
        if (tried % 2 == 0) {
            fill_places(b, len, len);
        } else {
            fill_rest(b, len, 1 + len / 7);
        }
        ck_assert_uint_eq(body_missing(b), 0);
        ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
        ck_assert_ptr_null(b);
        rcu_end();
        check_value(len);
        if (tried % 8 == 0) {
            fixture_settle(&f);
            fixture_verify(&f);
        }
    }
}

/* Beyond what it is, a body holds less than a segment. */
static void check_held(const struct body *b, size_t came)
{
    ck_assert_uint_ge(body_held_bytes(b), came);
    ck_assert_uint_lt(body_held_bytes(b), came + 32 * KIB);
}

TEST_LOOP(what_came_is_kept_when_it_is_unplaced, LENS)
{
    const size_t len = lens[_i];

    for (size_t stop = 0; stop <= len; stop += len / 41) {
        struct store s;
        struct body *b;

        store_init(&s, STORE_SET, &b);
        rcu_begin();
        b = placed(&s, len);
        fill_places(b, len, stop);
        ck_assert(body_unplace(b));
        ck_assert(body_unplace(b)); /* nothing more to do */
        rcu_end();
        ck_assert_uint_eq(body_missing(b), len - stop);
        check_held(b, stop);
        fixture_settle(&f); /* the blocks are reused */
        fixture_set(&f, "other", len);
        fill_rest(b, len, 1000);
        check_held(b, len);
        rcu_begin();
        ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
        rcu_end();
        check_value(len);
        fixture_check(&f, "other", len);
        fixture_verify(&f);
    }
}

/* As for a longer value, of which only the end is there at once. */
TEST_LOOP(the_end_of_a_value_is_placed, LENS)
{
    const size_t len = lens[_i];

    for (unsigned way = 0; way < 4; way++) {
        struct store s;
        struct body *b;

        store_init(&s, STORE_SET, &b);
        rcu_begin();
        b = body_begin(&f.engine, s.hash, len);
        ck_assert_ptr_nonnull(b);
        rcu_end();
        while (body_missing(b) > 0 && !body_is_at_pieces(b)) {
            fill_some(b, len, 10000);
        }
        bool has_pieces = body_missing(b) > 0;
        rcu_begin();
        ck_assert(body_place(b, &s, fixture_now(&f)));
        fill_places(b, len, way == 0 ? len : len - body_missing(b) + body_missing(b) / 2);
        if (way == 1) {
            fixture_flush(&f, fixture_now(&f));
        } else if (way == 2) {
            body_abort(&b);
        } else if (way == 3) {
            ck_assert(body_unplace(b));
            ck_assert_uint_eq(body_place(b, &s, fixture_now(&f)), !has_pieces);
        }
        if (way != 2) {
            fill_rest(b, len, 1000);
            ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
        }
        rcu_end();
        check_value(len);
        fixture_settle(&f);
        fixture_verify(&f);
    }
}

TEST_LOOP(an_abort_gives_the_blocks_back, LENS)
{
    const size_t len = lens[_i];

    fixture_set(&f, KEY, 20000);
    fixture_settle(&f);
    for (unsigned i = 0; i < 2000; i++) {
        struct store s;
        struct body *b;

        store_init(&s, STORE_SET, &b);
        rcu_begin();
        b = placed(&s, len);
        fill_places(b, len, i * 10);
        body_abort(&b);
        rcu_end();
        if (i % 10 == 0) {
            fixture_settle(&f);
        }
    }
    fixture_check(&f, KEY, 20000); /* 40 MB were written to 8 MiB, and nothing was evicted */
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

TEST_LOOP(a_flush_in_between_takes_nothing_from_it, LENS)
{
    const size_t len = lens[_i];

    for (unsigned way = 0; way < 3; way++) {
        struct store s;
        struct body *b;

        fixture_set(&f, "other", 100);
        store_init(&s, STORE_SET, &b);
        rcu_begin();
        b = placed(&s, len);
        fill_places(b, len, len / 2);
        fixture_flush(&f, fixture_now(&f));
        if (way == 0) {
            body_abort(&b);
        } else if (way == 1) {
            ck_assert(body_unplace(b));
        }
        if (b != NULL) {
            fill_rest(b, len, len);
            ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
        }
        rcu_end();
        ck_assert(!fixture_has(&f, "other"));
        if (way != 0) {
            check_value(len);
        }
        fixture_settle(&f);
        fixture_verify(&f);
    }
}

/* A slot moves to another shard, whose segments these are not. */
TEST_LOOP(it_follows_its_slot, 3 * LENS)
{
    const size_t len = lens[_i % LENS];
    struct store s;
    struct body *b;

    fixture_start_sized(&f, 2, 16 * MIB);
    fixture_fill(bytes, sizeof(bytes), 7);
    store_init(&s, STORE_SET, &b);
    const struct shard *from = key_shard();
    rcu_begin();
    b = body_begin(&f.engine, s.hash, len);
    ck_assert_ptr_nonnull(b);
    if (_i / LENS == 0) {
        ck_assert(body_place(b, &s, fixture_now(&f)));
        fill_places(b, len, len);
    } else if (_i / LENS == 1) {
        fill_some(b, len, 1000);
    }
    /* There is one thread and no grace period, so a gap in the section does no harm here. */
    rcu_end();
    fixture_begin_move(&f);
    ck_assert_ptr_ne(key_shard(), from);
    rcu_begin();
    if (_i / LENS != 0) {
        ck_assert(!body_place(b, &s, fixture_now(&f)) || len == 20000);
        fill_rest(b, len, len);
    }
    ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
    rcu_end();
    check_value(len);
}

/*
 * A long one follows in parts, so that others have their turn. Meanwhile its slot may return,
 * or the upload may end.
 */
enum journey { GOES_ON, IS_GIVEN_UP, RETURNS, JOURNEYS };

TEST_LOOP(a_long_one_follows_its_slot_in_parts, JOURNEYS)
{
    const size_t len = 2 * BUDGET_copy_bytes + 100 * KIB;
    char *value = calloc(1, len);
    struct store s;
    struct body *b;
    unsigned waits = 0;
    enum outcome out;

    ck_assert_ptr_nonnull(value);
    fixture_start_sized(&f, 2, 128 * MIB);
    fixture_fill(value, len, 7);
    store_init(&s, STORE_SET, &b);
    rcu_begin();
    b = body_begin(&f.engine, s.hash, len);
    ck_assert_ptr_nonnull(b);
    ck_assert_int_eq(body_append(b, span_of(value, len), true), OUT_OK);
    rcu_end();
    fixture_begin_move(&f);
    rcu_begin();
    ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_WAIT);
    ck_assert_uint_ge(body_held_bytes(b), len + BUDGET_copy_bytes);
    if (_i == IS_GIVEN_UP) {
        body_abort(&b);
    } else {
        if (_i == RETURNS) {
            rcu_end();
            ck_assert_int_eq(
                router_publish(&f.engine.router, 0, ROUTE_SLOTS / 2, route_settled(0)), MF_OK);
            rcu_begin();
        }
        while ((out = engine_store(&f.engine, &s, fixture_now(&f))) == OUT_WAIT) {
            waits++;
        }
        ck_assert_int_eq(out, OUT_STORED);
        ck_assert_uint_eq(waits, _i == RETURNS ? 0 : 1);
        ck_assert_ptr_null(b);
    }
    rcu_end();
    if (_i == IS_GIVEN_UP) {
        ck_assert(!fixture_has(&f, KEY));
    } else {
        struct got got = fixture_get(&f, KEY);

        ck_assert_uint_eq(got.len, len);
        ck_assert_mem_eq(f.value, value, len);
    }
    free(value);
}

/* What has been copied stays while the rest waits for room. */
TEST(a_copy_keeps_what_it_has_while_it_waits)
{
    const size_t len = 12 * MIB;
    char *value = calloc(1, len);
    struct store s;
    struct body *b;
    enum outcome out;
    unsigned waits = 0;
    size_t held = 0;

    ck_assert_ptr_nonnull(value);
    fixture_start_sized(&f, 2, 64 * MIB);
    fixture_fill(value, len, 7);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("other-", i), 30000);
    }
    store_init(&s, STORE_SET, &b);
    rcu_begin();
    b = body_begin(&f.engine, s.hash, len);
    rcu_end();
    ck_assert_ptr_nonnull(b);
    while (body_missing(b) > 0) {
        size_t at = len - body_missing(b);

        rcu_begin();
        (void)body_append(b, span_of(value + at, len - at), true);
        rcu_end();
        fixture_grace(&f);
    }
    fixture_begin_move(&f);
    for (;;) {
        rcu_begin();
        out = engine_store(&f.engine, &s, fixture_now(&f));
        rcu_end();
        if (out != OUT_WAIT) {
            break;
        }
        ck_assert_uint_ge(body_held_bytes(b), held);
        held = body_held_bytes(b);
        waits++;
        fixture_grace(&f);
    }
    ck_assert_int_eq(out, OUT_STORED);
    ck_assert_uint_gt(waits, 1);
    ck_assert_uint_eq(fixture_get(&f, KEY).len, len);
    ck_assert_mem_eq(f.value, value, len);
    free(value);
}

/*
 * One read into what was taken ahead. What it did not get to is given back, but for the segment
 * of the next byte.
 */
TEST_LOOP(segments_are_taken_for_one_read, LENS)
{
    const size_t len = lens[_i];
    const size_t seg = 32 * KIB;
    const size_t whole = len / seg * seg; /* at least */
    struct iovec places[BODY_PLACES_MAX];
    struct store s;
    struct body *b;

    store_init(&s, STORE_SET, &b);
    rcu_begin();
    b = body_begin(&f.engine, s.hash, len);
    unsigned had = fixture_avail(&f);
    body_take_ahead(b);
    ck_assert_uint_ge(body_held_bytes(b), whole);
    ck_assert_uint_le(body_places(b, places), BODY_SEGMENTS_MAX);
    if (whole > 2 * seg) {
        fill_places(b, len, seg + 1);
        body_give_ahead(b);
        ck_assert_uint_eq(body_held_bytes(b), 2 * seg);
        ck_assert_uint_eq(body_places(b, places), 1);
        fill_places(b, len, 2 * seg);
        body_give_ahead(b);
        ck_assert_uint_eq(body_held_bytes(b), 2 * seg);
        body_take_ahead(b);
        fill_places(b, len, whole);
    }
    fill_rest(b, len, len);
    body_give_ahead(b); /* of a whole one it takes nothing */
    ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
    rcu_end();
    ck_assert_uint_le(fixture_avail(&f), had);
    check_value(len);
}

/* It does not wait for segments, and keeps what it has. */
TEST(without_room_it_is_not_placed)
{
    const size_t len = BODY_PLACE_MAX;
    struct store s;
    struct body *b;

    fixture_policy(CHOICE_NOEVICTION);
    for (unsigned i = 0; fixture_avail(&f) > 7; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    store_init(&s, STORE_SET, &b);
    rcu_begin();
    b = body_begin(&f.engine, s.hash, len);
    ck_assert(!body_place(b, &s, fixture_now(&f)));
    ck_assert_uint_gt(body_held_bytes(b), 0);
    ck_assert_uint_lt(body_held_bytes(b), len);
    body_abort(&b);
    rcu_end();
}

/* Nothing maintains the index, which has no room in the end; what came is kept meanwhile. */
TEST_LOOP(it_waits_for_room_in_the_index, LENS)
{
    const size_t len = lens[_i];
    struct store other = {.deadline = MSEC_NEVER, .value = span_str("x")};
    struct store s;
    struct body *b;
    enum outcome out = OUT_STORED;

    fixture_start_sized(&f, 1, 16 * MIB);
    rcu_begin();
    for (unsigned n = 0; n < 100000 && out == OUT_STORED; n++) {
        other.key = span_str(fixture_key("x", n));
        other.hash = engine_hash(&f.engine, other.key.ptr, other.key.len);
        out = engine_store(&f.engine, &other, fixture_now(&f));
    }
    ck_assert_int_eq(out, OUT_NO_MEMORY);
    store_init(&s, STORE_SET, &b);
    b = placed(&s, len);
    fill_places(b, len, len);
    ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_WAIT);
    rcu_end();
    fixture_settle(&f);
    rcu_begin();
    ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_STORED);
    rcu_end();
    check_value(len);
}

TEST_LOOP(conditions_count_when_it_is_stored, LENS)
{
    const size_t len = lens[_i];
    struct store s;
    struct body *b;

    store_init(&s, STORE_ADD, &b);
    rcu_begin();
    b = placed(&s, len);
    fill_places(b, len, len);
    rcu_end();
    /* There is one thread and no grace period, so a gap in the section does no harm here. */
    fixture_set(&f, KEY, 30);
    rcu_begin();
    ck_assert_int_eq(engine_store(&f.engine, &s, fixture_now(&f)), OUT_NOT_STORED);
    ck_assert_ptr_null(b);
    rcu_end();
    fixture_check(&f, KEY, 30);
}

TEST(what_will_not_be_stored_is_not_placed)
{
    struct store s;

    ck_assert(!engine_may_place(&f.engine, ENGINE_SMALL_MAX));
    ck_assert(!engine_may_place(&f.engine, BODY_PLACE_MAX + 1));
    rcu_begin();
    struct body *b = body_begin(&f.engine, fixture_hash(&f, KEY), 20000);
    store_init(&s, STORE_REPLACE, &b);
    ck_assert(!body_place(b, &s, fixture_now(&f)));
    store_init(&s, STORE_SET, &b);
    s.deadline = fixture_now(&f);
    ck_assert(!body_place(b, &s, fixture_now(&f)));
    s.deadline++;
    ck_assert(body_place(b, &s, fixture_now(&f)));
    body_abort(&b);
    b = body_begin(&f.engine, fixture_hash(&f, KEY), MIB - 100); /* of too many segments */
    s.deadline = MSEC_NEVER;
    ck_assert(!body_place(b, &s, fixture_now(&f)));
    body_abort(&b);
    rcu_end();
}

/* When the item is not known before it is stored, its blocks cannot be made in advance. */
TEST(what_depends_on_the_old_item_is_not_placed)
{
    static const enum store_mode modes[] = {STORE_APPEND, STORE_PREPEND, STORE_CAS};
    struct body *b;
    struct store s;

    fixture_set(&f, KEY, 10);
    for (int i = 0; i < 3; i++) {
        store_init(&s, modes[i], &b);
        s.takes_older = modes[i] == STORE_CAS;
        rcu_begin();
        b = body_begin(&f.engine, s.hash, lens[i]);
        ck_assert_ptr_nonnull(b);
        ck_assert(!body_place(b, &s, fixture_now(&f)));
        body_abort(&b);
        rcu_end();
    }
}
