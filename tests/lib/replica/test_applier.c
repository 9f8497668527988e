/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * applier: whatever pieces the stream comes in, and wherever the link is cut, the replica has
 * what the primary has, and the same bytes in its backlog; what is damaged is refused; flushes,
 * what is due, values in parts and other names of the history.
 */
#include "lib/replica/applier.h"

#include "lib/base/load.h"
#include "tests/lib/replica/pair.h"

static struct pair_side primary, replica;
static struct pair_bytes stream; /* from `from` on */
static uint64_t from;
static struct rng rng;

static void start(void)
{
    rng_init(&rng, rng_seed());
    pair_start_primary(&primary, NULL);
    pair_start_replica(&replica, &primary);
    from = backlog_end(primary.backlog);
    pair_follow_from_end(&replica, primary.backlog);
}

static void stop(void)
{
    pair_drop_bytes(&stream);
    pair_stop(&replica);
    pair_stop(&primary);
}

/* Have in `stream` what was changed since the beginning. */
static void take_stream(void)
{
    (void)pair_mark(&primary);
    pair_copy_stream(&stream, primary.backlog, from);
}

/* The replica is what it was at the beginning. */
static void begin_again(void)
{
    struct backlog_name name;

    backlog_get_name(primary.backlog, &name);
    name.offset = from;
    ck_assert_int_eq(applier_begin_full(replica.applier), APPLIER_OK);
    applier_end_full(replica.applier, &name);
}

static enum applier_result take(size_t at, size_t n)
{
    return applier_take(replica.applier, stream.at + at, n);
}

/* Go on from what was applied, to the end. */
static void take_rest(void)
{
    size_t at = applier_offset(replica.applier) - from;

    ck_assert_int_eq(take(at, stream.len - at), APPLIER_OK);
    ck_assert_uint_eq(applier_offset(replica.applier), from + stream.len);
}

/* Take what was changed since. */
static void take_more(void)
{
    from = applier_offset(replica.applier);
    take_stream();
    take_rest();
}

/* Where the block begins that has a byte of the stream. */
static size_t block_of(size_t byte)
{
    size_t at = 0;

    for (;;) {
        size_t n = SNAP_BLOCK_BYTES + load_le32(stream.at + at + 12);

        if (at + n > byte) {
            return at;
        }
        at += n;
    }
}

/* Some changes, each in a block of its own. */
static void make_small_stream(void)
{
    fixture_set(&primary.f, "a", 10);
    fixture_set_until(&primary.f, "b", 20, fixture_now(&primary.f) + 5000);
    (void)pair_mark(&primary);
    (void)fixture_delete(&primary.f, "a");
    fixture_set(&primary.f, "c", 30);
    (void)pair_mark(&primary);
    fixture_flush(&primary.f, fixture_now(&primary.f));
    fixture_set(&primary.f, "d", 0);
    (void)pair_mark(&primary);
    (void)fixture_touch(&primary.f, "d", fixture_now(&primary.f) + 70000);
    fixture_set(&primary.f, "e", 100);
    take_stream();
}

TEST_FIXTURE(start, stop)

/* ---- pieces and cuts --------------------------------------------------------------------- */

TEST(pieces_of_any_size_do)
{
    make_small_stream();
    for (size_t piece = 1; piece < stream.len; piece++) {
        begin_again();
        for (size_t at = 0; at < stream.len; at += piece) {
            size_t n = piece < stream.len - at ? piece : stream.len - at;

            ck_assert_int_eq(take(at, n), APPLIER_OK);
        }
        ck_assert_uint_eq(applier_offset(replica.applier), from + stream.len);
        ck_assert_uint_eq(pair_check(&primary, &replica), 2);
    }
}

TEST(a_link_cut_at_each_byte_goes_on)
{
    struct pair_bytes copy = {0};

    make_small_stream();
    for (size_t cut = 0; cut < stream.len; cut++) {
        begin_again();
        ck_assert_int_eq(take(0, cut), APPLIER_OK);
        ck_assert_uint_eq(applier_offset(replica.applier), from + block_of(cut));
        applier_cut(replica.applier);
        take_rest();
        ck_assert_uint_eq(pair_check(&primary, &replica), 2);
        pair_copy_stream(&copy, replica.backlog, from);
        ck_assert_uint_eq(copy.len, stream.len);
        ck_assert_int_eq(memcmp(copy.at, stream.at, copy.len), 0);
    }
    pair_drop_bytes(&copy);
}

TEST(a_bit_that_is_wrong_is_refused)
{
    make_small_stream();
    for (size_t at = 0; at < stream.len; at++) {
        char right = stream.at[at];

        begin_again();
        stream.at[at] = (char)(right ^ 1 << at % 8);
        enum applier_result result = take(0, stream.len);
        uint64_t offset = applier_offset(replica.applier);
        stream.at[at] = right;
        /* One that is longer than it was may not be whole yet: its length is in its header. */
        ck_assert(result == APPLIER_BAD ||
                  (result == APPLIER_OK && at - block_of(at) >= 12 && at - block_of(at) < 16));
        ck_assert_uint_eq(offset, from + block_of(at));
        ck_assert_uint_eq(backlog_end(replica.backlog), offset);
        applier_cut(replica.applier);
        take_rest();
        ck_assert_uint_eq(pair_check(&primary, &replica), 2);
    }
}

TEST(a_block_of_another_place_is_refused)
{
    make_small_stream();
    ck_assert_int_eq(take(block_of(stream.len / 2), 200), APPLIER_BAD);
    ck_assert_uint_eq(applier_offset(replica.applier), from);
    take_rest();
    ck_assert_int_eq(take(0, 200), APPLIER_BAD);
}

/* ---- values in parts --------------------------------------------------------------------- */

TEST(a_value_in_parts_outlives_a_cut)
{
    fixture_set(&primary.f, "large", MIB);
    fixture_set(&replica.f, "large", 10);
    take_stream();
    for (unsigned i = 0; i < 40; i++) {
        size_t cut = rng_below(&rng, stream.len);

        begin_again();
        ck_assert_int_eq(take(0, cut), APPLIER_OK);
        applier_cut(replica.applier);
        cut = applier_offset(replica.applier) - from;
        cut += rng_below(&rng, stream.len - cut);
        ck_assert_int_eq(take(applier_offset(replica.applier) - from,
                              cut - (applier_offset(replica.applier) - from)),
                         APPLIER_OK);
        applier_cut(replica.applier);
        take_rest();
        ck_assert_uint_eq(pair_check(&primary, &replica), 1);
    }
}

TEST(a_value_that_is_larger_than_the_backlog_comes_through_it)
{
    struct shipper_reader *r;
    struct backlog_name name;
    struct shipper_info info;
    uint64_t offset;

    backlog_get_name(primary.backlog, &name);
    ck_assert_int_eq(shipper_attach(primary.shipper, &name.id, name.offset, &r),
                     BACKLOG_CONTINUES);
    fixture_set(&primary.f, "large", 9 * MIB);
    fixture_set(&primary.f, "small", 10);
    uint64_t ticket = shipper_ask(primary.shipper);
    while (!shipper_is_done(primary.shipper, ticket, &offset)) {
        ck_assert(pair_pull_to(&replica, r, backlog_end(primary.backlog), &rng));
    }
    ck_assert(pair_pull_to(&replica, r, offset, &rng));
    ck_assert_uint_eq(pair_check(&primary, &replica), 2);
    shipper_info(primary.shipper, &info);
    ck_assert_uint_eq(info.dropped, 0);
    shipper_detach(&r);
}

/* Until its last block has come the key has what it had before. */
TEST(who_leaves_amid_a_value_forgets_its_key)
{
    struct backlog_name name;

    fixture_set(&primary.f, "large", 10);
    (void)pair_mark(&primary);
    fixture_set(&primary.f, "large", MIB);
    take_stream();
    ck_assert_int_eq(take(0, stream.len / 2), APPLIER_OK);
    ck_assert(fixture_has(&replica.f, "large"));
    backlog_get_name(replica.backlog, &name);
    ck_assert_uint_eq(name.offset, applier_offset(replica.applier));
    applier_get_name(replica.applier, &name);
    ck_assert_uint_eq(name.offset, from + block_of(SNAP_BLOCK_BYTES + SNAP_ITEM_BYTES + 15));
    ck_assert_int_eq(stream.at[name.offset - from + 4], SNAP_VALUE);
    ck_assert_uint_eq(load_le32(stream.at + (name.offset - from) + 16), 1);
    applier_leave(replica.applier);
    ck_assert(!fixture_has(&replica.f, "large"));
    applier_get_name(replica.applier, &name);
    ck_assert_uint_eq(name.offset, applier_offset(replica.applier));
}

/* A process that ends there leaves its items as of applier_get_name(). Main does not read. */
TEST(an_end_amid_a_value_keeps_what_the_key_had)
{
    fixture_set(&primary.f, "large", 10);
    (void)pair_mark(&primary);
    fixture_set(&primary.f, "large", MIB);
    take_stream();
    ck_assert_int_eq(take(0, stream.len / 2), APPLIER_OK);
    rcu_unregister();
    applier_destroy(&replica.applier);
    rcu_register();
    ck_assert(fixture_has(&replica.f, "large"));
}

TEST(a_promotion_amid_a_value_cuts_it_and_renames)
{
    const struct replid next = replid_draw();
    struct backlog_name name;
    struct pair_side middle;

    /* The middle has a part of the value, and so has its replica. */
    pair_start_replica(&middle, &primary);
    pair_follow_from_end(&middle, primary.backlog);
    fixture_set(&primary.f, "large", 10);
    fixture_set(&primary.f, "other", 10);
    (void)pair_mark(&primary);
    fixture_set(&primary.f, "large", MIB);
    take_stream();
    ck_assert_int_eq(applier_take(middle.applier, stream.at, stream.len / 2), APPLIER_OK);
    uint64_t offset = applier_offset(middle.applier);
    ck_assert_int_eq(take(0, offset - from), APPLIER_OK);
    applier_leave(middle.applier);
    backlog_promote(middle.backlog, &next, 1);
    pair_copy_stream(&stream, middle.backlog, offset);
    ck_assert_int_eq(take(0, stream.len), APPLIER_OK);
    ck_assert(!fixture_has(&replica.f, "large"));
    ck_assert(fixture_has(&replica.f, "other"));
    ck_assert(replid_equal(&replica.renamed.id, &next));
    ck_assert_uint_eq(replica.renamed.epoch, 2);
    backlog_get_name(replica.backlog, &name);
    ck_assert(replid_equal(&name.id, &next));
    ck_assert_uint_eq(name.previous_end, offset);
    /* It goes on under that name. */
    ck_assert_uint_eq(applier_offset(replica.applier), backlog_end(middle.backlog));
    pair_stop(&middle);
}

/* ---- chains ------------------------------------------------------------------------------ */

TEST(a_chain_has_the_same)
{
    struct pair_side last;
    struct pair_bytes copy = {0};
    msec_t soon = fixture_now(&primary.f) + 1000;

    pair_start_replica(&last, &primary);
    pair_follow_from_end(&last, primary.backlog);
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set_until(&primary.f, fixture_key("key", i % 300), i, soon + i);
    }
    fixture_set(&primary.f, "large", 400000);
    take_stream();
    take_rest();
    pair_copy_stream(&copy, replica.backlog, from);
    ck_assert_int_eq(applier_take(last.applier, copy.at, copy.len), APPLIER_OK);
    ck_assert_uint_eq(pair_check(&primary, &replica), 301);
    ck_assert_uint_eq(pair_check(&primary, &last), 301);
    pair_drop_bytes(&copy);
    pair_stop(&last);
}

/* ---- flushes and deadlines --------------------------------------------------------------- */

TEST(a_flush_to_come_comes_by_either_clock)
{
    msec_t at = fixture_now(&primary.f) + 1000;

    fixture_set(&primary.f, "a", 10);
    fixture_flush(&primary.f, at);
    take_more();
    ck_assert_int_eq(engine_flush_to_come(&replica.f.engine), at + PAIR_AHEAD);
    ck_assert(fixture_has(&replica.f, "a"));
    /* The replica's clock is slow: the primary's word comes first. */
    clock_advance(&primary.f.engine.clock, 1000);
    for (uint32_t i = 0; i < primary.f.engine.shard_count; i++) {
        shard_maintain(primary.f.engine.shards[i], fixture_now(&primary.f), 1000);
    }
    fixture_set(&primary.f, "b", 10);
    take_more();
    ck_assert_int_eq(engine_flush_to_come(&replica.f.engine), MSEC_NEVER);
    ck_assert(!fixture_has(&replica.f, "a"));
    clock_advance(&replica.f.engine.clock, 1000);
    ck_assert(fixture_has(&replica.f, "b"));
    /* It is fast. */
    fixture_flush(&primary.f, fixture_now(&primary.f) + 1000);
    take_more();
    clock_advance(&replica.f.engine.clock, 1000);
    ck_assert(!fixture_has(&replica.f, "b"));
    fixture_set(&primary.f, "c", 10);
    take_more();
    ck_assert(fixture_has(&replica.f, "c"));
}

TEST(a_flush_of_a_prefix_takes_what_came_before_it)
{
    fixture_set(&primary.f, "pa", 10);
    fixture_set(&primary.f, "pb", 10);
    fixture_set(&primary.f, "qa", 10);
    take_more();
    fixture_flush_prefix(&primary.f, "p");
    fixture_set(&primary.f, "pb", 20);
    take_more();
    ck_assert(!fixture_has(&replica.f, "pa"));
    fixture_check(&replica.f, "pb", 20);
    fixture_check(&replica.f, "qa", 10);
    fixture_settle(&primary.f);
    fixture_settle(&replica.f);
    ck_assert_uint_eq(pair_check(&primary, &replica), 2);
    take_more();
    ck_assert_uint_eq(pair_check(&primary, &replica), 2);
}

TEST(what_is_due_by_this_clock_is_stored)
{
    msec_t soon = fixture_now(&primary.f) + 10;

    fixture_set_until(&primary.f, "key", 10, soon);
    fixture_set_until(&primary.f, "large", MIB, soon);
    fixture_set_until(&primary.f, "other", 10, soon);
    clock_advance(&replica.f.engine.clock, 20);
    take_more();
    ck_assert_uint_eq(fixture_counter(&replica.f, CTR_curr_items), 3);
    ck_assert(!fixture_has(&replica.f, "other"));
    ck_assert_int_eq(fixture_touch(&primary.f, "large", soon + 90000), OUT_TOUCHED);
    ck_assert_int_eq(fixture_touch(&primary.f, "key", soon + 90000), OUT_TOUCHED);
    take_more();
    ck_assert(fixture_has(&replica.f, "key"));
    ck_assert(fixture_has(&replica.f, "large"));
    ck_assert_uint_eq(
        pair_compare_all(&replica, PAIR_TO_UNIX - PAIR_AHEAD, &primary, PAIR_TO_UNIX), 2);
}

/* The scale is learned better as pings come. */
TEST(deadlines_go_by_the_scale)
{
    fixture_set_until(&primary.f, "key", 10, fixture_now(&primary.f) + 5000);
    take_stream();
    applier_set_scale(replica.applier, PAIR_TO_UNIX - PAIR_AHEAD - 3);
    take_rest();
    struct got got = fixture_get(&replica.f, "key");
    ck_assert(got.is_hit);
    ck_assert_int_eq(got.deadline, fixture_now(&primary.f) + 5000 + PAIR_AHEAD + 3);
}

/* ---- stops and room ---------------------------------------------------------------------- */

TEST(a_stop_leaves_no_block_half_done)
{
    make_small_stream();
    atomic_store(&replica.is_stopped, true);
    ck_assert_int_eq(take(0, stream.len), APPLIER_STOPPED);
    ck_assert_uint_eq(applier_offset(replica.applier), from);
    atomic_store(&replica.is_stopped, false);
    take_rest();
    ck_assert_uint_eq(pair_check(&primary, &replica), 2);
}

TEST(what_does_not_fit_takes_the_older_state_away)
{
    struct apply_counts counts;

    fixture_set(&primary.f, "key", 100);
    (void)pair_mark(&primary);
    fixture_set(&primary.f, "key", 700000);
    fixture_set(&primary.f, "other", 100);
    take_stream();
    replica.f.engine.item_bytes_max = 500000;
    take_rest();
    ck_assert(!fixture_has(&replica.f, "key"));
    ck_assert(fixture_has(&replica.f, "other"));
    applier_counts(replica.applier, &counts);
    ck_assert_uint_ge(counts.refused, 1);
}

TEST(while_a_full_sync_comes_nothing_continues)
{
    struct backlog_name before;
    struct backlog_name name;

    make_small_stream();
    take_rest();
    backlog_get_name(replica.backlog, &before);
    ck_assert_int_eq(backlog_may_continue(replica.backlog, &before.id, before.offset),
                     BACKLOG_CONTINUES);
    ck_assert_int_eq(applier_begin_full(replica.applier), APPLIER_OK);
    ck_assert_int_eq(backlog_may_continue(replica.backlog, &before.id, before.offset),
                     BACKLOG_OTHER_ID);
    backlog_get_name(replica.backlog, &name);
    ck_assert(replid_is_none(&name.id));
    ck_assert_int_eq(backlog_may_continue(replica.backlog, &name.id, name.offset),
                     BACKLOG_OTHER_ID);
    ck_assert_uint_eq(name.epoch, before.epoch);
    ck_assert_uint_eq(fixture_counter(&replica.f, CTR_curr_items), 0);
    applier_end_full(replica.applier, &before);
}

/* ---- a full sync that is written by hand ------------------------------------------------- */

static bool put_bytes(void *arg, const void *bytes, size_t n)
{
    pair_put(arg, bytes, n);
    return true;
}

/* An older state, then a value that is cut: nothing of it may stay, nor the older state. */
TEST_LOOP(a_value_that_is_cut_leaves_nothing, 2)
{
    struct snap_header h = {.flags = SNAP_IS_LOG};
    struct snap_item it = {.deadline = SNAP_DEADLINE_NEVER,
                           .cas = 1,
                           .key = span_of("key", 3),
                           .value = span_of("older", 5),
                           .value_len = 5};
    static const char part[SNAP_RAW_MAX];
    struct snap_encoder e;
    struct snap_fault fault;

    ck_assert(snap_encoder_begin(&e, put_bytes, &stream, &h, false));
    ck_assert(snap_put_item(&e, &it));
    ck_assert(snap_encoder_send(&e, 1));
    it.value = span_of(NULL, 0);
    it.value_len = MIB;
    ck_assert(snap_value_begin(&e, &it, 1));
    /* Before any of it is out, or after some. */
    ck_assert(snap_value_part(&e, span_of(part, _i == 0 ? 100 : SNAP_RAW_MAX), 1));
    ck_assert(snap_value_cut(&e, 1));
    it.key = span_of("last", 4);
    it.value = span_of("", 0);
    it.value_len = 0;
    ck_assert(snap_put_item(&e, &it));
    ck_assert(snap_encoder_send(&e, 1));
    snap_encoder_fini(&e);
    ck_assert_int_eq(applier_begin_full(replica.applier), APPLIER_OK);
    ck_assert_int_eq(applier_run_full(replica.applier, pair_read, &stream, &fault), APPLIER_OK);
    ck_assert(!fixture_has(&replica.f, "key"));
    ck_assert(fixture_has(&replica.f, "last"));
}
