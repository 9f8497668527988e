/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush: at once and at a future instant, twice, while large values are being received; what it
 * leaves alone, and that its memory is released.
 */
#include "lib/shard/shard.h"

#include <sys/resource.h>

#include "lib/engine/flush.h"
#include "lib/memory/cursor.h"
#include "lib/shard/expire.h"
#include "lib/shard/upkeep.h"
#include "lib/store/body.h"
#include "tests/lib/fixture.h"

static struct fixture f;

static void start(uint32_t shards)
{
    fixture_start_sized(&f, shards, 32 * MIB);
    for (unsigned i = 0; i < 400; i++) {
        fixture_set_until(&f, fixture_key("k", i), i % 20 == 0 ? 50000 : i,
                          i % 3 == 0 ? fixture_now(&f) + 100000 + i : MSEC_NEVER);
    }
}

static void flush(msec_t at)
{
    fixture_flush(&f, at);
}

static unsigned present(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 400; i++) {
        n += fixture_has(&f, fixture_key("k", i));
    }
    return n;
}

TEST(everything_is_gone_at_once_and_its_memory_later)
{
    uint64_t cas;

    start(4);
    cas = fixture_get(&f, fixture_key("k", 7)).cas;
    flush(fixture_now(&f));
    ck_assert_uint_eq(present(), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes), 0);
    fixture_verify(&f);
    fixture_set(&f, fixture_key("k", 7), 10);
    ck_assert_uint_gt(fixture_get(&f, fixture_key("k", 7)).cas, cas);
    fixture_settle(&f);
    for (uint32_t i = 0; i < 4; i++) {
        struct shard *s = f.engine.shards[i];

        shard_enter(s);
        ck_assert_uint_eq(arena_waiting(&s->memory.arena), 0);
        ck_assert_uint_eq(s->memory.arena.whole, 0);
        shard_leave(s);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_lazyfree_pending_bytes), 0);
    fixture_check(&f, fixture_key("k", 7), 10);
}

TEST(twice_is_once)
{
    start(2);
    flush(fixture_now(&f));
    flush(fixture_now(&f) - 5);
    ck_assert_uint_eq(present(), 0);
    fixture_set(&f, "k", 10);
    flush(0);
    ck_assert(!fixture_has(&f, "k"));
    fixture_grace(&f);
    flush(0);
    fixture_set(&f, "k", 10);
    fixture_settle(&f);
    fixture_check(&f, "k", 10);
}

TEST(what_is_to_come_happens_at_its_instant)
{
    start(4);
    msec_t at = fixture_now(&f) + 1000;

    flush(at);
    ck_assert_int_eq(shard_next_due(f.shard), at);
    fixture_set(&f, "later", 100); /* stored before the instant: it dies too */
    clock_advance(&f.engine.clock, 999);
    ck_assert_uint_eq(present(), 400);
    fixture_check(&f, "later", 100);
    clock_advance(&f.engine.clock, 1);
    ck_assert_uint_eq(present(), 0); /* hidden, although the flush was not carried out yet */
    ck_assert(!fixture_has(&f, "later"));
    ck_assert_int_eq(fixture_get(&f, "later").miss, MISS_FLUSHED);
    fixture_set(&f, "later", 50);
    fixture_check(&f, "later", 50);
    ck_assert_int_eq(fixture_get(&f, fixture_key("k", 1)).is_hit, false);
    for (uint32_t i = 0; i < 4; i++) {
        (void)shard_maintain(f.engine.shards[i], fixture_now(&f), 0);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    fixture_check(&f, "later", 50);
    ck_assert_int_ne(shard_next_due(f.shard), at);
    clock_advance(&f.engine.clock, 100000);
    fixture_check(&f, "later", 50);
}

/* Every kind of write finds the cache empty, although the flush was not carried out before. */
TEST_LOOP(writers_find_nothing_at_the_instant, 6)
{
    struct put p = {.key = fixture_key("k", 3), .ptr = "x", .len = 1};

    start(1);
    fixture_set(&f, "n", 0);
    p.key = "n";
    p.ptr = "17";
    p.len = 2;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    flush(fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    switch (_i) {
    case 0:
        ck_assert_int_eq(fixture_delete(&f, "n"), OUT_NOT_FOUND);
        break;
    case 1:
        ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NOT_FOUND);
        break;
    case 2:
        ck_assert_int_eq(fixture_touch(&f, "n", MSEC_NEVER), OUT_NOT_FOUND);
        break;
    case 3:
        p.mode = STORE_APPEND;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_STORED);
        break;
    case 4:
        p.mode = STORE_CAS;
        p.cas = 1;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_FOUND);
        break;
    default:
        p.mode = STORE_ADD;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
        break;
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), _i == 5);
}

TEST(the_newer_one_counts)
{
    start(2);
    flush(fixture_now(&f) + 500);
    flush(fixture_now(&f) + 2000);
    clock_advance(&f.engine.clock, 1999);
    ck_assert_uint_eq(present(), 400);
    flush(fixture_now(&f) + 100000);
    clock_advance(&f.engine.clock, 1);
    ck_assert_uint_eq(present(), 400);
    flush(fixture_now(&f));
    ck_assert_uint_eq(present(), 0);
    fixture_set(&f, "k", 10);
    clock_advance(&f.engine.clock, 200000);
    fixture_check(&f, "k", 10); /* the immediate one replaced the future one */
}

TEST(one_that_is_due_is_not_undone_by_the_next)
{
    start(3);
    flush(fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    flush(fixture_now(&f) + 5000);
    ck_assert_uint_eq(present(), 0);
    fixture_set(&f, "k", 10);
    clock_advance(&f.engine.clock, 4999);
    fixture_check(&f, "k", 10);
    clock_advance(&f.engine.clock, 1);
    ck_assert(!fixture_has(&f, "k"));
}

/* A body that is being received has its own segments: a flush takes none of them. */
TEST(a_value_on_its_way_is_newer_than_the_flush)
{
    const size_t len = 150000;
    char *bytes = mem_alloc(len);
    size_t done = 0;
    struct store st = {.mode = STORE_SET, .key = span_str("body"), .deadline = MSEC_NEVER};

    ck_assert_ptr_nonnull(bytes);
    fixture_fill(bytes, len, 9);
    start(1);
    st.hash = engine_hash(&f.engine, "body", 4);
    rcu_begin();
    struct body *b = body_begin(&f.engine, st.hash, len);
    rcu_end();
    ck_assert_ptr_nonnull(b);
    while (body_missing(b) > 0) {
        char *to;
        size_t n;

        ck_assert_int_eq(body_room(b, true, &to, &n), OUT_OK);
        n = n < 7001 ? n : 7001;
        memcpy(to, bytes + done, n);
        body_filled(b, n);
        done += n;
        if (done / 40000 != (done - n) / 40000) {
            flush(fixture_now(&f));
            fixture_verify(&f);
            fixture_grace(&f);
        }
    }
    st.body = &b;
    rcu_begin();
    ck_assert_int_eq(engine_store(&f.engine, &st, fixture_now(&f)), OUT_STORED);
    rcu_end();
    ck_assert_ptr_null(b);
    ck_assert_uint_eq(fixture_get(&f, "body").len, len);
    ck_assert(memcmp(fixture_get(&f, "body").value, bytes, len) == 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    fixture_settle(&f);
    ck_assert(memcmp(fixture_get(&f, "body").value, bytes, len) == 0);
    mem_free(bytes);
}

/*
 * With an index that is being resized, deadlines, dead blocks, holes and a segment under the
 * cursor.
 */
TEST(a_flush_in_the_middle_of_everything)
{
    start(1);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 6000; i++) {
            fixture_set_until(&f, fixture_key("k", i), i % 500,
                              i % 2 == 0 ? fixture_now(&f) + 10 + i : MSEC_NEVER);
            if (i % 3 == 0) {
                (void)fixture_delete(&f, fixture_key("k", i / 2));
            }
            if (i % (100 + round) == 0) {
                fixture_grace(&f);
            }
        }
        shard_enter(f.shard);
        (void)cursor_slice(&f.shard->memory, 100, fixture_now(&f));
        shard_leave(f.shard);
        flush(fixture_now(&f));
        fixture_verify(&f);
        ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
        if (round % 2 == 0) {
            fixture_settle(&f);
        }
    }
    fixture_settle(&f);
}

/* Waits, as a client's flush does. */
static void flush_at_pace(void)
{
    while (engine_flush(&f.engine, fixture_now(&f), fixture_now(&f), true) == OUT_WAIT) {
        fixture_grace(&f);
    }
}

/* As for a client that has waited too long. */
static void flush_at_any_pace(void)
{
    flush(fixture_now(&f));
}

/*
 * Writers may end grace periods before the reclaimer gets to release what waited for them. Even
 * so, items stored between two flushes stay until the next one, and the memory of flushed
 * indexes stays bounded.
 */
TEST_LOOP(a_storm_of_flushes_evicts_nothing, 2)
{
    int64_t most = 0;

    fixture_start_sized(&f, 2, 32 * MIB);
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&f, "a", 10);
        fixture_set(&f, "n", 10);
        ck_assert_msg(fixture_has(&f, "a") && fixture_has(&f, "n"), "after %u flushes", i);
        (_i == 0 ? flush_at_pace : flush_at_any_pace)();
        most = most > fixture_used(&f) ? most : fixture_used(&f);
        (void)engine_try_grace(&f.engine);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    if (_i == 0) {
        ck_assert_int_lt(most, (int64_t)(8 * MIB));
    }
    fixture_settle(&f);
}

#ifndef MAYFLY_SYSTEM_ALLOC /* the sanitizers of malloc() need memory themselves */

/*
 * A flush takes its memory before it is promised; without memory it is refused, and everything
 * stays. A promised flush is carried out without more memory.
 */
TEST(without_memory_nothing_is_flushed_by_halves)
{
    struct rlimit had, none;

    start(4);
    flush(fixture_now(&f) + 10); /* now each shard has the memory for this one */
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &had), 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = had.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
    enum outcome refused = engine_flush(&f.engine, 0, fixture_now(&f), true);
    unsigned left = present();

    clock_advance(&f.engine.clock, 10);
    unsigned after = present();

    fixture_set(&f, "new", 10);
    bool is_there = fixture_has(&f, "new");

    ck_assert_int_eq(setrlimit(RLIMIT_AS, &had), 0);
    ck_assert_int_eq(refused, OUT_NO_MEMORY);
    ck_assert_uint_eq(left, 400);
    ck_assert_uint_eq(after, 0);
    ck_assert(is_there);
    fixture_settle(&f);
    fixture_check(&f, "new", 10);
}

#endif
