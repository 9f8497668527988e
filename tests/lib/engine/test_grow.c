/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * grow: a further shard is as the others, whatever goes on when it is added: flushes that are
 * over, to come or half done, streams, loads. Items that move there keep everything. Where
 * memory is refused nothing has changed. That requests may run meanwhile is tested by
 * tests/stress.
 */
#include "lib/engine/grow.h"

#include "lib/engine/flush.h"
#include "lib/engine/guarding.h"
#include "lib/engine/prefix.h"
#include "lib/shard/flush.h"
#include "lib/shard/info.h"
#include "lib/ship/stream.h"
#include "tests/lib/fixture.h"

#define KEYS 600

static struct fixture f;

/* ---- memory that is refused -------------------------------------------------------------- */

static int refuse_after = -1; /* requests granted before one is refused; -1: none is */
static bool refuses_maps;     /* all of them */

static bool is_refused(void)
{
    if (refuse_after < 0) {
        return false;
    }
    return refuse_after-- == 0;
}

/* NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_mem_alloc_aligned(size_t n, size_t align);
void *__wrap_mem_alloc_aligned(size_t n, size_t align);
void *__real_mem_alloc_pages(size_t n);
void *__wrap_mem_alloc_pages(size_t n);
void *__real_mem_zalloc(size_t n);
void *__wrap_mem_zalloc(size_t n);
void *__real_mem_map(size_t n, enum mem_pages pages);
void *__wrap_mem_map(size_t n, enum mem_pages pages);
void *__real_mem_reserve(size_t n, enum mem_pages pages);
void *__wrap_mem_reserve(size_t n, enum mem_pages pages);
bool __real_mem_commit(void *p, size_t n);
bool __wrap_mem_commit(void *p, size_t n);

void *__wrap_mem_alloc_aligned(size_t n, size_t align)
{
    return is_refused() ? NULL : __real_mem_alloc_aligned(n, align);
}

void *__wrap_mem_alloc_pages(size_t n)
{
    return is_refused() ? NULL : __real_mem_alloc_pages(n);
}

void *__wrap_mem_zalloc(size_t n)
{
    return is_refused() ? NULL : __real_mem_zalloc(n);
}

void *__wrap_mem_map(size_t n, enum mem_pages pages)
{
    return refuses_maps || is_refused() ? NULL : __real_mem_map(n, pages);
}

void *__wrap_mem_reserve(size_t n, enum mem_pages pages)
{
    return is_refused() ? NULL : __real_mem_reserve(n, pages);
}

bool __wrap_mem_commit(void *p, size_t n)
{
    return !is_refused() && __real_mem_commit(p, n);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- the engine -------------------------------------------------------------------------- */

static size_t len_of(unsigned i)
{
    return i % 40 == 0 ? 20000 + i * 50 : i % 7 == 0 ? 2000 + i % 50 : i % 300;
}

static void start(uint32_t shards, uint64_t limit)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit;
    cfg.ring_bytes = 65536;
    fixture_start_threaded(&f, &cfg);
}

static void add(void)
{
    const uint32_t count = f.engine.shard_count;

    ck_assert_int_eq(engine_add_shards(&f.engine, f.engine.shard_count + 1), MF_OK);
    ck_assert_uint_eq(f.engine.shard_count, count + 1);
    ck_assert_uint_eq(f.engine.shards[count]->id, count);
    ck_assert_uint_eq(memory_sharers(&f.engine.shards[0]->memory), count + 1);
    ck_assert_uint_eq(memory_sharers(&f.engine.shards[count]->memory), count + 1);
}

/* All slots go to the newest shard. */
static void move_there(void)
{
    ck_assert_int_eq(
        engine_move_slots(&f.engine, 0, ROUTE_SLOTS, (uint16_t)(f.engine.shard_count - 1)),
        MF_OK);
}

static void add_and_move(void)
{
    add();
    move_there();
}

static void set_all(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, fixture_key("key-", i), len_of(i));
    }
}

static void check_all(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_check(&f, fixture_key("key-", i), len_of(i));
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), KEYS);
    fixture_verify(&f);
}

static void check_none(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(!fixture_has(&f, fixture_key("key-", i)));
    }
}

static uint64_t items_in(uint32_t shard)
{
    return ctr_get(shard_counters(f.engine.shards[shard]), CTR_curr_items);
}

/* ---- items ------------------------------------------------------------------------------- */

TEST(items_spread_over_further_shards)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};

    start(1, 64 * MIB);
    set_all();
    for (uint32_t count = 2; count <= 5; count++) {
        add();
        move_plan_even(&plan, &f.engine, count);
        ck_assert_int_eq(engine_move(&f.engine, &cfg, NULL), MF_OK);
        check_all();
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_uint_gt(items_in(i), KEYS / count / 2);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
}

/* By its own share a further shard would have smaller segments, and no huge pages. */
TEST(its_segments_are_those_of_the_others)
{
    start(2, 256 * MIB);
    set_all();
    for (unsigned i = 0; i < 4; i++) {
        const struct arena *first = &f.engine.shards[0]->memory.arena;

        add_and_move();
        const struct arena *a = &f.engine.shards[f.engine.shard_count - 1]->memory.arena;
        ck_assert_uint_eq(a->shift, 18);
        ck_assert_uint_eq(a->shift, first->shift);
        ck_assert_uint_ne(a->unit_segments, 0);
        ck_assert_uint_eq(a->unit_segments, first->unit_segments);
        check_all();
    }
}

TEST(a_cas_grows_in_a_further_shard)
{
    uint64_t cas;

    start(1, 16 * MIB);
    fixture_set(&f, "k", 10);
    cas = fixture_get(&f, "k").cas;
    add_and_move();
    ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
    fixture_set(&f, "k", 10);
    ck_assert_uint_gt(fixture_get(&f, "k").cas, cas);
}

/* ---- bounds ------------------------------------------------------------------------------ */

TEST(there_are_as_many_as_the_limit_bears)
{
    start(1, 4 * MIB);
    ck_assert(engine_set_limit(&f.engine, 3 * MIB));
    add();
    add();
    /* a share of less than 1 MiB */
    ck_assert_int_eq(engine_add_shards(&f.engine, f.engine.shard_count + 1), MF_EINVAL);
    ck_assert_uint_eq(f.engine.shard_count, 3);
    ck_assert_uint_eq(memory_sharers(&f.engine.shards[0]->memory), 3);
    ck_assert(!engine_set_limit(&f.engine, 3 * MIB - 1));
    ck_assert(engine_set_limit(&f.engine, 4 * MIB));
    add();
}

TEST(the_range_grows_with_them)
{
    start(1, 16 * MIB);
    uint64_t each = engine_range(&f.engine);
    ck_assert(!engine_set_limit(&f.engine, each + MIB));
    add();
    ck_assert_uint_eq(engine_range(&f.engine), 2 * each);
    ck_assert(engine_set_limit(&f.engine, each + MIB));
}

TEST(there_are_no_more_than_the_capacity)
{
    start(2, 64 * MIB);
    add();
    f.engine.shard_capacity = 3;
    ck_assert_int_eq(engine_add_shards(&f.engine, f.engine.shard_count + 1), MF_EINVAL);
    ck_assert_uint_eq(f.engine.shard_count, 3);
    f.engine.shard_capacity = ENGINE_SHARDS_MAX;
}

/* ---- flushes ----------------------------------------------------------------------------- */

/* Their numbers are those of the others, or what is newer than they are would go by them. */
TEST(flushes_that_are_over_take_nothing_more)
{
    start(2, 64 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        set_all();
        fixture_flush(&f, fixture_now(&f));
    }
    check_none();
    set_all();
    add_and_move();
    check_all();
    ck_assert_uint_eq(f.engine.shards[2]->flush_done, f.engine.shards[0]->flush_done);
}

TEST(a_flush_that_is_to_come_takes_what_was_carried_there)
{
    start(2, 64 * MIB);
    set_all();
    fixture_flush(&f, fixture_now(&f) + 100);
    add_and_move();
    check_all();
    clock_advance(&f.engine.clock, 100);
    check_none();
    set_all();
    check_all();
}

/* It waits for nothing but to be carried out, in some shards or in all. */
TEST_LOOP(a_flush_that_is_due_takes_nothing_that_is_newer, 3)
{
    start(2, 64 * MIB);
    set_all();
    fixture_flush(&f, fixture_now(&f) + 100);
    clock_advance(&f.engine.clock, 100);
    for (uint32_t i = 0; i < (uint32_t)_i; i++) {
        shard_flush(f.engine.shards[i], fixture_now(&f));
    }
    add();
    check_none();
    set_all();
    move_there();
    check_all();
}

TEST(a_flush_after_it_is_carried_out_there_too)
{
    start(1, 64 * MIB);
    add_and_move();
    set_all();
    fixture_flush(&f, fixture_now(&f));
    check_none();
    set_all();
    fixture_flush(&f, fixture_now(&f) + 10);
    add();
    fixture_flush(&f, fixture_now(&f) + 20); /* instead of the other */
    clock_advance(&f.engine.clock, 10);
    check_all();
    clock_advance(&f.engine.clock, 10);
    check_none();
}

/* ---- a stream ---------------------------------------------------------------------------- */

static struct stream stream;
static struct ship ship;

static struct told {
    char text[400];
    size_t len;
} told;

static void tell(struct span key, const char *what)
{
    size_t n = strlen(what);

    ck_assert_uint_lt(told.len + key.len + n, sizeof(told.text));
    memcpy(told.text + told.len, key.ptr, key.len);
    memcpy(told.text + told.len + key.len, what, n + 1);
    told.len += key.len + n;
}

static void on_item(void *arg, const struct ship_item *it)
{
    tell(it->key, "+ ");
}

static void on_drop(void *arg, struct span key)
{
    tell(key, "- ");
}

static void on_flush(void *arg)
{
    tell(span_str(""), "flush ");
}

static void on_flush_later(void *arg, msec_t at)
{
    tell(span_str(""), "later ");
}

static void on_flush_prefix(void *arg, struct span prefix)
{
    tell(prefix, "* ");
}

static bool on_rest(void *arg)
{
    return true;
}

static const struct ship_ops ops = {.item = on_item,
                                    .rest = on_rest,
                                    .drop = on_drop,
                                    .flush = on_flush,
                                    .flush_later = on_flush_later,
                                    .flush_prefix = on_flush_prefix,
                                    .takes_due = true};

static void start_stream(void)
{
    start(2, 16 * MIB);
    memset(&told, 0, sizeof(told));
    ship_init(&ship, &ops, NULL);
    ck_assert_int_eq(stream_begin(&stream, &f.engine), MF_OK);
}

static void stop_stream(void)
{
    stream_end(&stream);
    for (uint32_t i = 0; i < f.engine.shard_count; i++) {
        ck_assert_ptr_null(f.engine.shards[i]->changes);
    }
    fixture_stop(&f);
}

static bool goes_on(int way)
{
    enum stream_state state =
        way == 0 ? stream_slice(&stream, &ship, NULL) : stream_pass(&stream, &ship);

    ck_assert_int_le(state, STREAM_GOES_ON);
    return state == STREAM_GOES_ON || stream_lag(&stream) != 0;
}

/* Read all records that are due by now, in one of the two ways. */
static void check_told(int way, const char *text)
{
    for (unsigned turns = 0; goes_on(way); turns++) {
        ck_assert_uint_lt(turns, 1000);
    }
    ck_assert_str_eq(told.text, text);
    told.len = 0;
    told.text[0] = 0;
}

/* ---- what else the others have ----------------------------------------------------------- */

TEST(a_load_brings_nothing_back_there)
{
    struct put old = {.mode = STORE_ADD, .key = "gone", .ptr = "v", .len = 1};
    struct guard guard;

    start(2, 16 * MIB);
    fixture_set(&f, "gone", 10);
    fixture_set(&f, "here", 10);
    ck_assert_int_eq(guarding_begin(&f.engine, &guard, 1000, false), GUARDING_ON);
    add_and_move();
    ck_assert_ptr_eq(f.engine.shards[2]->guard, &guard);
    ck_assert_int_eq(fixture_delete(&f, "gone"), OUT_DELETED);
    guard_set_loader(true);
    ck_assert_int_eq(fixture_store(&f, &old, NULL), OUT_NOT_STORED);
    old.key = "another";
    ck_assert_int_eq(fixture_store(&f, &old, NULL), OUT_STORED);
    guard_set_loader(false);
    guarding_end(&f.engine, &guard);
    ck_assert_ptr_null(f.engine.shards[2]->guard);
    add();
    ck_assert_ptr_null(f.engine.shards[3]->guard);
}

TEST(a_sampler_that_is_held_is_held_there)
{
    start(2, 16 * MIB);
    engine_hold_sampler(&f.engine, true);
    add();
    ck_assert(atomic_load(&f.engine.shards[2]->is_held));
    engine_hold_sampler(&f.engine, false);
    ck_assert(!atomic_load(&f.engine.shards[2]->is_held));
    add();
    ck_assert(!atomic_load(&f.engine.shards[3]->is_held));
}

/* ---- without memory ---------------------------------------------------------------------- */

/* Marks of both shards, and the set. */
TEST(where_memory_is_refused_no_prefix_is_flushed)
{
    enum outcome out = OUT_NO_MEMORY;

    start(2, 64 * MIB);
    fixture_set(&f, "p", 10);
    fixture_settle(&f);
    int64_t used = fixture_used(&f);
    for (int n = 0; n < 4; n++) {
        ck_assert(fixture_has(&f, "p"));
        refuse_after = n;
        out = engine_flush_prefix(&f.engine, span_str("p"));
        refuse_after = -1;
        ck_assert_int_eq(out, n < 3 ? OUT_NO_MEMORY : OUT_OK);
        ck_assert_uint_eq(engine_prefixes(&f.engine), n == 3);
        ck_assert(n == 3 || f.engine.shards[0]->prefix_marks == NULL);
        ck_assert(n == 3 || f.engine.shards[0]->gate_at == MSEC_NEVER);
        fixture_settle(&f);
        ck_assert(n == 3 || fixture_used(&f) == used);
    }
    ck_assert(!fixture_has(&f, "p"));
}

/* With a stream and a flush that is to come, so that a further shard needs all that it may. */
TEST(where_memory_is_refused_nothing_has_changed)
{
    enum mf_err err = MF_ENOMEM;
    int refused = 0;

    start(2, 64 * MIB);
    set_all();
    ck_assert_int_eq(stream_begin(&stream, &f.engine), MF_OK);
    fixture_flush(&f, fixture_now(&f) + 100);
    fixture_settle(&f);
    for (int n = 0; err != MF_OK; n++) {
        const int64_t used = fixture_used(&f);

        refuse_after = n;
        err = engine_add_shards(&f.engine, f.engine.shard_count + 1);
        refuse_after = -1;
        if (err == MF_OK) {
            break;
        }
        refused++;
        ck_assert_int_eq(err, MF_ENOMEM);
        ck_assert_uint_eq(f.engine.shard_count, 2);
        ck_assert_ptr_null(f.engine.shards[2]);
        ck_assert_int_eq(fixture_used(&f), used);
        ck_assert_uint_eq(memory_sharers(&f.engine.shards[0]->memory), 2);
        ck_assert_uint_eq(atomic_load(&f.engine.group.sharers), 2);
        ck_assert_int_lt(n, 100);
    }
    /* Shard, range, its table, ring of deaths, holes, index, wheel; spare; ring of changes. */
    ck_assert_int_ge(refused, 12);
    check_all();
    move_there();
    check_all();
    clock_advance(&f.engine.clock, 100);
    check_none();
    stream_end(&stream);
}

/* ---- what a stream reports --------------------------------------------------------------- */

TEST_FIXTURE(start_stream, stop_stream)

TEST_LOOP(a_stream_goes_on_with_a_further_ring, 2)
{
    fixture_set(&f, "a", 10);
    check_told(_i, "a+ ");
    add_and_move();
    check_told(_i, "");
    fixture_set(&f, "b", 10);
    ck_assert_uint_ne(stream_lag(&stream), 0);
    check_told(_i, "b+ ");
    add_and_move();
    fixture_set(&f, "c", 10);
    add_and_move();
    fixture_set(&f, "d", 10);
    check_told(_i, "c+ d+ ");
}

TEST(a_further_ring_has_what_expires)
{
    fixture_set(&f, "before", 10);
    add_and_move();
    fixture_set_until(&f, "a", 10, fixture_now(&f) + 50);
    check_told(0, "before+ a+ ");
    clock_advance(&f.engine.clock, 50);
    fixture_expire(&f);
    check_told(0, "a- ");
    stream_record_expiries(&stream, false);
    add_and_move();
    fixture_set_until(&f, "b", 10, fixture_now(&f) + 50);
    check_told(0, "b+ ");
    clock_advance(&f.engine.clock, 50);
    fixture_expire(&f);
    check_told(0, "");
    ck_assert_uint_eq(stream_expired(&stream), 1);
}

TEST(what_is_noted_is_read_in_a_further_ring)
{
    add_and_move();
    fixture_set(&f, "a", 10);
    stream_note_written(&stream);
    ck_assert(!stream_has_noted(&stream));
    check_told(0, "a+ ");
    ck_assert(stream_has_noted(&stream));
}

/* The flush is in two rings, and what was stored after it in the third. */
TEST_LOOP(a_flush_that_was_not_read_yet_comes_first, 2)
{
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f));
    add_and_move();
    fixture_set(&f, "b", 10);
    check_told(_i, "a- flush b+ ");
    ck_assert(fixture_has(&f, "b"));
}

/* Enough other records come before its own in the two rings that the third has its turn. */
TEST_LOOP(a_flush_of_a_prefix_that_was_not_read_yet_comes_first, 2)
{
    for (unsigned i = 0; i < 6 * STREAM_BATCH; i++) {
        fixture_set(&f, fixture_key("", i % 10), 10);
    }
    fixture_flush_prefix(&f, "p");
    add_and_move();
    fixture_set(&f, "p", 10);
    while (goes_on(_i)) {
    }
    const char *flushed = strstr(told.text, "p* ");
    ck_assert_ptr_nonnull(flushed);
    ck_assert_ptr_nonnull(strstr(flushed, "p+ "));
    told.len = 0;
    told.text[0] = 0;
    fixture_flush_prefix(&f, "p"); /* of which there is a record in each */
    check_told(_i, "p* ");
}

TEST_LOOP(a_flush_that_was_read_does_not_come_again, 2)
{
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f));
    check_told(_i, "a- flush ");
    add_and_move();
    fixture_set(&f, "b", 10);
    check_told(_i, "b+ ");
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "c", 10);
    check_told(_i, "flush c+ ");
}

TEST_LOOP(a_flush_that_is_to_come_comes_once, 2)
{
    fixture_flush(&f, fixture_now(&f) + 100);
    add();
    check_told(_i, "later ");
    move_there();
    fixture_set(&f, "a", 10);
    check_told(_i, "a+ ");
    clock_advance(&f.engine.clock, 100);
    fixture_set(&f, "b", 10);
    check_told(_i, "flush b+ ");
    add_and_move();
    fixture_set(&f, "c", 10);
    check_told(_i, "c+ ");
}

/* By the number of shards where it was carried out, and by whether that was read. */
TEST_LOOP(a_flush_that_is_due_comes_once, 12)
{
    const int way = _i % 2;

    fixture_flush(&f, fixture_now(&f) + 100);
    check_told(way, "later ");
    clock_advance(&f.engine.clock, 100);
    for (uint32_t i = 0; i < (uint32_t)_i / 4; i++) {
        shard_flush(f.engine.shards[i], fixture_now(&f));
    }
    if (_i / 2 % 2 == 0) {
        add_and_move();
        fixture_set(&f, "b", 10);
        check_told(way, "flush b+ ");
    } else {
        check_told(way, _i / 4 == 0 ? "" : "flush ");
        add_and_move();
        fixture_set(&f, "b", 10);
        check_told(way, _i / 4 == 0 ? "flush b+ " : "b+ ");
    }
}

/* Store new keys until one is not stored. Returns the last outcome of that one. */
static enum outcome store_until_refused(unsigned *keys, struct span value)
{
    struct store st = {.deadline = MSEC_NEVER, .value = value, .may_wait = true};
    enum outcome out = OUT_STORED;

    while (out == OUT_STORED && *keys < 100000) {
        const char *key = fixture_key("new-", (*keys)++);

        st.key = span_str(key);
        st.hash = fixture_hash(&f, key);
        for (int tries = 0; tries < 3; tries++) {
            rcu_begin();
            out = engine_store(&f.engine, &st, fixture_now(&f));
            rcu_end();
            if (out != OUT_WAIT) {
                break;
            }
            fixture_grace(&f);
        }
    }
    return out;
}

TEST(a_store_does_not_wait_for_an_index_that_is_refused)
{
    static const char large[20000];
    unsigned keys = 0;

    refuses_maps = true;
    ck_assert_int_eq(store_until_refused(&keys, span_str("x")), OUT_NO_MEMORY);
    ck_assert_uint_gt(keys--, 1);
    ck_assert_int_eq(store_until_refused(&keys, span_of(large, sizeof(large))), OUT_NO_MEMORY);
    refuses_maps = false;
    fixture_settle(&f);
    fixture_set(&f, "later", 1);
}

#define OLD_KEYS 20

static void replace(const char *key, int way)
{
    struct put append = {.mode = STORE_APPEND, .key = key, .ptr = "y", .len = 1};
    const struct erase erase = {.drops_value = true};

    switch (way) {
    case 0:
        fixture_set(&f, key, 20000);
        break;
    case 1:
        ck_assert_int_eq(fixture_store(&f, &append, NULL), OUT_STORED);
        break;
    case 2:
        ck_assert_int_eq(fixture_touch(&f, key, fixture_now(&f) + 1000), OUT_TOUCHED);
        break;
    default:
        ck_assert_int_eq(fixture_erase(&f, key, &erase), OUT_DELETED);
    }
}

TEST_LOOP(an_index_that_is_refused_takes_what_replaces_an_item, 4)
{
    unsigned keys = 0;

    for (unsigned i = 0; i < OLD_KEYS; i++) {
        fixture_set(&f, fixture_key("old-", i), 10);
    }
    refuses_maps = true;
    ck_assert_int_eq(store_until_refused(&keys, span_str("x")), OUT_NO_MEMORY);
    for (unsigned i = 0; i < OLD_KEYS; i++) { /* in a full shard, and in the other */
        replace(fixture_key("old-", i), _i);
    }
    refuses_maps = false;
    fixture_settle(&f);
}

/* One that begins later has its rings from the start. */
TEST(a_stream_that_begins_after_it_reads_it)
{
    struct stream late;

    fixture_flush(&f, fixture_now(&f));
    add_and_move();
    check_told(0, "flush ");
    ck_assert_int_eq(stream_begin(&late, &f.engine), MF_OK);
    fixture_set(&f, "a", 10);
    ck_assert_uint_ne(stream_lag(&late), 0);
    ck_assert_int_eq(stream_slice(&late, &ship, NULL), STREAM_GOES_ON);
    check_told(0, "a+ a+ ");
    ck_assert_uint_eq(stream_lag(&late), 0);
    stream_end(&late);
}
