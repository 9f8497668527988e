/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach, shard/attach, keep, region: what an engine leaves in a file is what the next one has;
 * what has ended meanwhile is not; a file in which anything is doubtful is not used at all.
 */
#include "lib/engine/attach.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/engine/body.h"
#include "lib/engine/migrate.h"
#include "lib/memory/chunks.h"
#include "lib/memory/keep.h"
#include "lib/shard/upkeep.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/lib/fixture.h"

static struct fixture f;
static struct attach a;
static int file = -1; /* what the engines share */
static uint32_t shards;
static uint64_t limit;
static uint32_t max_age_s;
static bool marks_stale;
static uint64_t seed;

static void make_file(void)
{
    file = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_ge(file, 0);
    shards = 2;
    limit = 16 * MIB;
    max_age_s = 0;
    marks_stale = false;
    seed = 1;
}

static void remove_file(void)
{
    close(file);
    attach_close(&a);
}

static void start(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit;
    cfg.item_size_max = 2 * MIB;
    cfg.seed = seed++; /* which must not matter to what is there */
    cfg.attach = &a;
    memset(&a, 0, sizeof(a));
    a.max_age_s = max_age_s;
    a.marks_stale = marks_stale;
    ck_assert_msg(attach_open_fd(&a, dup(file)), "%s", a.why);
    fixture_start_threaded(&f, &cfg);
    fixture_verify(&f);
}

static void stop(void)
{
    fixture_stop(&f);
    ck_assert_str_eq(a.why, "");
    attach_close(&a);
}

static void start_warm(void)
{
    start();
    ck_assert_msg(a.state == ATTACH_WARM, "%s", a.why);
}

static void start_cold(const char *why)
{
    start();
    ck_assert_int_eq(a.state, ATTACH_COLD);
    ck_assert_msg(strstr(a.why, why) != NULL, "%s, not %s", a.why, why);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

static uint64_t allocated(void)
{
    struct stat st;

    ck_assert_int_eq(fstat(file, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* Make holes of what is zero, as copying a file may. */
static void dig_holes(void)
{
    static const char zero[4096];
    char page[sizeof(zero)];
    off_t end = lseek(file, 0, SEEK_END);
    off_t at = 0;

    while ((at = lseek(file, at, SEEK_DATA)) >= 0 && at < end) {
        at -= at % (off_t)sizeof(page);
        ck_assert(region_read(file, (uint64_t)at, page, sizeof(page)));
        if (memcmp(page, zero, sizeof(page)) == 0) {
            ck_assert_int_eq(
                fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, sizeof(page)),
                0);
        }
        at += (off_t)sizeof(page);
    }
}

/* ---- files that are changed -------------------------------------------------------------- */

/* Another file with the same bytes, and the same holes. */
static int copy_of(int from)
{
    int to = memfd_create("copy", MFD_CLOEXEC);
    off_t end = lseek(from, 0, SEEK_END);
    off_t at = 0;

    ck_assert_int_eq(ftruncate(to, end), 0);
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t until = lseek(from, at, SEEK_HOLE);
        char *bytes = mem_alloc((size_t)(until - at));

        ck_assert(region_read(from, (uint64_t)at, bytes, (size_t)(until - at)));
        ck_assert(region_write(to, (uint64_t)at, bytes, (size_t)(until - at)));
        mem_free(bytes);
        at = until;
    }
    return to;
}

static void change(uint64_t at, uint8_t mask)
{
    uint8_t byte;

    ck_assert(region_read(file, at, &byte, 1));
    byte ^= mask;
    ck_assert(region_write(file, at, &byte, 1));
}

/* ---- what comes back --------------------------------------------------------------------- */

TEST_FIXTURE(make_file, remove_file)

TEST(a_new_file_is_empty_and_ready)
{
    start_cold("new");
    fixture_set(&f, "a", 100);
    stop();
    start_warm();
    fixture_check(&f, "a", 100);
    stop();
}

TEST(items_come_back_as_they_were)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 40000, 70001, 300000, 1048576};
    struct got was[8];

    start();
    for (unsigned i = 0; i < 8; i++) {
        fixture_set(&f, fixture_key("k", i), sizes[i]);
        was[i] = fixture_get(&f, fixture_key("k", i));
    }
    for (unsigned round = 0; round < 5; round++) {
        uint64_t bytes = fixture_counter(&f, CTR_item_bytes);

        stop();
        start_warm();
        ck_assert_uint_eq(a.items, 8);
        ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes), bytes);
        for (unsigned i = 0; i < 8; i++) {
            struct got g;

            fixture_check(&f, fixture_key("k", i), sizes[i]);
            g = fixture_get(&f, fixture_key("k", i));
            ck_assert_uint_eq(g.cas, was[i].cas);
            ck_assert_uint_eq(g.flags, was[i].flags);
        }
    }
    stop();
}

TEST(what_is_stored_next_has_a_cas_of_its_own)
{
    uint64_t cas;

    start();
    fixture_set(&f, "a", 10);
    cas = fixture_get(&f, "a").cas;
    stop();
    start_warm();
    fixture_set(&f, "b", 10);
    ck_assert_uint_gt(fixture_get(&f, "b").cas, cas);
    stop();
}

TEST(deleted_and_replaced_values_do_not_come_back)
{
    start();
    fixture_set(&f, "gone", 100);
    fixture_set(&f, "large", 500000);
    fixture_set(&f, "other", 100);
    ck_assert_int_eq(fixture_delete(&f, "gone"), OUT_DELETED);
    ck_assert_int_eq(fixture_delete(&f, "large"), OUT_DELETED);
    fixture_set(&f, "other", 200);
    stop();
    start_warm();
    ck_assert_uint_eq(a.items, 1);
    ck_assert(!fixture_has(&f, "gone"));
    ck_assert(!fixture_has(&f, "large"));
    fixture_check(&f, "other", 200);
    stop();
}

TEST(deadlines_are_exact_over_any_number_of_restarts)
{
    msec_t now;

    start();
    now = fixture_now(&f);
    fixture_set_until(&f, "soon", 100, now + 20000);
    fixture_set_until(&f, "next", 100, now + 20001 + 60000);
    fixture_set_until(&f, "large", 300000, now + 20000);
    for (unsigned i = 0; i < 10; i++) {
        clock_advance(&f.engine.clock, 1000);
        stop();
        start_warm();
        /* The test itself takes time, too. */
        ck_assert_int_ge(fixture_now(&f), now + 1000);
        ck_assert_int_lt(fixture_now(&f), now + 1000 * (i + 1) + 9000);
        ck_assert_int_eq(fixture_get(&f, "soon").deadline, now - i * 0 + 20000);
    }
    clock_advance(&f.engine.clock, now + 20000 - fixture_now(&f));
    stop();
    start_warm();
    ck_assert_uint_eq(a.expired, 2);
    ck_assert(!fixture_has(&f, "soon"));
    ck_assert(!fixture_has(&f, "large"));
    fixture_check(&f, "next", 100);
    clock_advance(&f.engine.clock, now + 80001 - fixture_now(&f));
    fixture_expire(&f);
    ck_assert(!fixture_has(&f, "next"));
    stop();
}

TEST(a_step_of_the_wall_clock_changes_nothing)
{
    static const msec_t steps[] = {3600000, -7200000, 3600000};

    start();
    fixture_set_until(&f, "soon", 100, fixture_now(&f) + 60000);
    fixture_set_until(&f, "later", 100, fixture_now(&f) + 4000000);
    for (unsigned i = 0; i < 3; i++) {
        clock_step_wall(&f.engine.clock, steps[i]);
        stop();
        start_warm();
        ck_assert_uint_lt(a.away_ms, 60000);
        fixture_check(&f, "soon", 100);
        fixture_check(&f, "later", 100);
    }
    stop();
}

TEST(flushed_items_do_not_come_back)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_set(&f, "b", 500000);
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "c", 100);
    stop();
    start_warm();
    ck_assert(!fixture_has(&f, "a"));
    ck_assert(!fixture_has(&f, "b"));
    fixture_check(&f, "c", 100);
    stop();
}

TEST(a_flush_to_come_comes)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_flush(&f, fixture_now(&f) + 3600000);
    stop();
    start_warm();
    fixture_check(&f, "a", 100);
    clock_advance(&f.engine.clock, 3600001);
    ck_assert(!fixture_has(&f, "a"));
    fixture_set(&f, "b", 100);
    stop();
    start_warm();
    ck_assert(!fixture_has(&f, "a"));
    fixture_check(&f, "b", 100);
    stop();
}

TEST(a_flush_that_came_meanwhile_has_come)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_set(&f, "b", 500000);
    fixture_flush(&f, fixture_now(&f) + 1000);
    clock_advance(&f.engine.clock, 1000);
    stop();
    start_warm();
    ck_assert_uint_eq(a.flushed, 2);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    ck_assert(!fixture_has(&f, "a"));
    fixture_set(&f, "c", 100);
    stop();
    start_warm();
    fixture_check(&f, "c", 100);
    stop();
}

/* Its instant is tried before, while and after items are taken over. */
TEST(a_flush_that_comes_at_the_start_has_come)
{
    for (unsigned ms = 0; ms < 24; ms++) {
        start();
        for (unsigned i = 0; i < 20000; i++) {
            fixture_set(&f, fixture_key("k", i), 10);
        }
        fixture_flush(&f, fixture_now(&f) + 1 + ms);
        stop();
        start_warm();
        clock_advance(&f.engine.clock, 1 + ms); /* at least that long ago */
        for (unsigned i = 0; i < 20000; i++) {
            ck_assert(!fixture_has(&f, fixture_key("k", i)));
        }
        stop();
    }
}

TEST(items_may_be_taken_over_as_stale)
{
    start();
    fixture_set(&f, "a", 100);
    fixture_set(&f, "b", 300000);
    stop();
    marks_stale = true;
    start_warm();
    ck_assert(fixture_get(&f, "a").is_stale && !fixture_get(&f, "a").is_won);
    ck_assert(fixture_get(&f, "b").is_stale);
    stop();
}

TEST(what_is_not_used_takes_no_room_when_it_is_left)
{
    start();
    for (unsigned i = 0; i < 10000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    ck_assert_uint_gt(allocated(), 5 * MIB);
    fixture_flush(&f, fixture_now(&f));
    fixture_set(&f, "a", 100);
    stop();
    ck_assert_uint_lt(allocated(), MIB);
    start_warm();
    fixture_check(&f, "a", 100);
    stop();
}

/* Where the file system is full, a page that is first written or read ends the process. */
TEST(pages_that_are_missing_are_allocated)
{
    static const char zeros[300000];
    struct put p = {.mode = STORE_SET, .key = "zeros", .ptr = zeros, .len = sizeof(zeros)};
    uint64_t bytes;

    start();
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    fixture_set(&f, "a", 100);
    stop();
    bytes = allocated();
    dig_holes();
    ck_assert_uint_lt(allocated(), bytes - 200000);
    start_warm();
    ck_assert_uint_ge(allocated(), bytes);
    fixture_check(&f, "a", 100);
    ck_assert_mem_eq(fixture_get(&f, "zeros").value, zeros, sizeof(zeros));
    stop();
}

TEST(moved_slots_stay_where_they_are)
{
    start();
    for (unsigned i = 0; i < 200; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    ck_assert_int_eq(engine_move_slots(&f.engine, 100, 1500, 1), MF_OK);
    stop();
    start_warm();
    for (unsigned i = 0; i < 200; i++) {
        fixture_check(&f, fixture_key("k", i), 100);
    }
    stop();
}

static size_t mixed_len(unsigned i)
{
    static const size_t len[] = {100, 700, 3000, 20000, 150000, 400};

    return len[i % 6] + i % 40;
}

/* In runs, of a full cache, to and fro: segments went from file to file with it. */
TEST(what_was_moved_in_a_full_cache_is_there)
{
    enum { KEYS = 2500 };
    static bool had[KEYS];
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    unsigned found = 0;

    start();
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set_until(&f, fixture_key("k", i), mixed_len(i),
                          i % 3 == 0 ? fixture_now(&f) + 100000 : MSEC_NEVER);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_evictions), 0);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
            plan.to[i] = (uint16_t)(round == 1 ? 1 : (i / 64 + round / 2) % 2);
        }
        ck_assert_int_eq(engine_move(&f.engine, &cfg, NULL), MF_OK);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        if (i % 7 == 0) {
            (void)fixture_delete(&f, fixture_key("k", i));
        }
        had[i] = fixture_has(&f, fixture_key("k", i));
        found += had[i];
    }
    ck_assert_uint_gt(found, KEYS / 20);
    stop();
    start_warm();
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(fixture_has(&f, fixture_key("k", i)) == had[i]);
        if (had[i]) {
            fixture_check(&f, fixture_key("k", i), mixed_len(i));
        }
    }
    for (uint32_t i = 0; i < ROUTE_SLOTS; i++) {
        plan.to[i] = 0;
    }
    ck_assert_int_eq(engine_move(&f.engine, &cfg, NULL), MF_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)) || had[i]);
    }
    stop();
}

/* Keys of a slot may be in either shard then. */
TEST(slots_on_their_way_are_not_taken_over)
{
    static const struct route_slot state[] = {{0, 1, 0}, {0, 1, 1}};

    for (unsigned i = 0; i < 2; i++) {
        start();
        fixture_set(&f, "k", 100);
        ck_assert_int_eq(router_publish(&f.engine.router, 7, 1, state[i]), MF_OK);
        fixture_stop(&f);
        ck_assert_str_ne(a.why, "");
        attach_close(&a);
        start_cold("");
        stop();
    }
}

TEST(an_upload_that_never_ended_is_not_there)
{
    struct body *body;

    start();
    fixture_set(&f, "a", 100);
    rcu_begin();
    body = body_begin(&f.engine, fixture_hash(&f, "b"), 200000);
    rcu_end();
    ck_assert_ptr_nonnull(body);
    body_abort(&body);
    stop();
    start_warm();
    ck_assert_uint_eq(a.items, 1);
    stop();
}

/* ---- other settings ---------------------------------------------------------------------- */

TEST(a_lower_limit_evicts_and_a_higher_one_does_not)
{
    uint64_t items;

    limit = 32 * MIB;
    start();
    for (unsigned i = 0; i < 20000; i++) {
        (void)fixture_try(&f, fixture_key("k", i), 1000, MSEC_NEVER);
    }
    items = fixture_counter(&f, CTR_curr_items);
    stop();
    limit = 64 * MIB;
    start_warm();
    ck_assert_uint_eq(a.items, items);
    stop();
    limit = 16 * MIB;
    start();
    ck_assert_msg(a.state == ATTACH_WARM, "%s", a.why);
    for (unsigned i = 0; i < 1000 && fixture_used(&f) > (int64_t)limit; i++) {
        fixture_grace(&f);
        (void)shard_maintain(f.engine.shards[i % 2], fixture_now(&f), 0);
    }
    for (unsigned i = 0; i < 2000; i++) {
        (void)fixture_try(&f, fixture_key("n", i), 1000, MSEC_NEVER);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_curr_items), 1000);
    ck_assert_uint_lt(fixture_counter(&f, CTR_curr_items), items);
    stop();
}

TEST(the_shards_are_those_that_were_left)
{
    static const uint32_t wanted[] = {1, 8, 2, 4, 3};

    shards = 4;
    start();
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("k", i), 100 + i * 400);
    }
    for (unsigned round = 0; round < 5; round++) {
        stop();
        shards = wanted[round];
        start_warm();
        ck_assert_uint_eq(f.engine.shard_count, 4);
        ck_assert_uint_eq(a.items, 100);
        for (unsigned i = 0; i < 100; i++) {
            fixture_check(&f, fixture_key("k", i), 100 + i * 400);
        }
    }
    stop();
    /* Each shard needs something to work with. */
    shards = 1;
    limit = 3 * MIB;
    start_cold("does not suit its 4 shards");
    stop();
}

TEST(what_is_too_old_is_not_used)
{
    start();
    fixture_set(&f, "a", 100);
    stop();
    max_age_s = 3600;
    start_warm();
    stop();
    change(0, 0); /* the file stays as it is */
    max_age_s = 1;
    usleep(1100 * 1000);
    start_cold("restart_max_age");
    stop();
}

/* ---- doubts ------------------------------------------------------------------------------ */

TEST(a_crash_is_a_cold_start)
{
    int crashed;

    start();
    fixture_set(&f, "a", 100);
    stop();
    start_warm();
    crashed = copy_of(file);
    stop();
    close(file);
    file = crashed;
    start_cold("clean stop");
    stop();
}

TEST(what_is_something_else_is_not_overwritten)
{
    struct stat st;

    ck_assert(region_write(file, 0, "precious", 8));
    memset(&a, 0, sizeof(a));
    ck_assert_int_eq(fchmod(file, 0644), 0);
    ck_assert(!attach_open_fd(&a, dup(file)));
    ck_assert_ptr_nonnull(strstr(a.why, "something else"));
    ck_assert_int_eq(fstat(file, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0644);
}

TEST(who_has_served_nobody_may_leave_nothing)
{
    start();
    fixture_set(&f, "a", 100);
    a.leaves_nothing = true;
    fixture_stop(&f);
    ck_assert_str_ne(a.why, "");
    attach_close(&a);
    start_cold("clean stop");
    stop();
}

TEST(a_file_is_for_one_process)
{
    char path[64];
    struct attach other;

    start();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    memset(&other, 0, sizeof(other));
    ck_assert(!attach_open(&other, path));
    ck_assert_ptr_nonnull(strstr(other.why, "another process"));
    stop();
}

/* Items of all kinds: blocks of each kind, dead ones, holes, pieces, segments. */
static void leave_all_kinds(void)
{
    start();
    for (unsigned i = 0; i < 300; i++) {
        fixture_set(&f, fixture_key("k", i), i);
    }
    for (unsigned i = 0; i < 100; i += 7) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    fixture_set(&f, "k301", 41);
    fixture_set(&f, "large", 300000);
    fixture_set(&f, "pieces", 40000);
    fixture_set_until(&f, "later", 300, fixture_now(&f) + 100000000);
    stop();
}

/* Start with what has become of the file: whatever it is, the engine works. */
static void start_anyhow(void)
{
    start();
    fixture_set(&f, "new", 1000);
    fixture_check(&f, "new", 1000);
    fixture_stop(&f);
    attach_close(&a);
}

/* Change a byte, start, and put the file back as it was. */
static bool is_warm_with(uint64_t at, uint8_t mask)
{
    int clean = file;
    bool is_warm;

    file = copy_of(clean);
    change(at, mask);
    start();
    is_warm = a.state == ATTACH_WARM;
    ck_assert(is_warm || (a.why[0] != '\0' && fixture_counter(&f, CTR_curr_items) == 0));
    fixture_stop(&f);
    attach_close(&a);
    close(file);
    file = clean;
    return is_warm;
}

TEST(each_byte_of_the_head_counts)
{
    leave_all_kinds();
    ck_assert(is_warm_with(0, 0));
    for (uint64_t at = 8; at < 200; at++) {
        ck_assert_msg(!is_warm_with(at, 0x10), "byte %u", (unsigned)at);
    }
    for (uint64_t at = 200; at < 9000; at += 97) {
        ck_assert_msg(!is_warm_with(at, 0x01), "byte %u", (unsigned)at);
    }
}

TEST(each_byte_of_the_list_of_segments_counts)
{
    struct keep_segment list[2];

    leave_all_kinds();
    ck_assert(region_read(file, 64 * KIB, list, sizeof(list)));
    ck_assert(list[0].number != 0 && list[1].number != 0);
    for (uint64_t at = 64 * KIB; at < 64 * KIB + sizeof(list); at++) {
        ck_assert_msg(!is_warm_with(at, 0x10), "byte %u", (unsigned)at);
    }
}

/* Where a field of an item is in the file. */
static uint64_t place_of(const char *key, const void *field)
{
    struct shard *s = fixture_get(&f, key).shard;

    return a.region[s->id].at + (uint64_t)((const char *)field - s->memory.arena.base);
}

TEST(fields_of_blocks_are_doubted)
{
    struct {
        uint64_t at;
        uint8_t mask;
        const char *what;
    } wrong[16];
    const struct item *it;
    const struct large *l;
    const struct item *piece;
    unsigned n = 0;

    leave_all_kinds();
    start_warm();
    it = fixture_get(&f, "k201").item;
#define WRONG(key, field, bits)                                                                \
    (wrong[n].at = place_of(key, field), wrong[n].mask = (bits), wrong[n++].what = #field)
    WRONG("k201", (const char *)&it->shape, 0x01);     /* another size */
    WRONG("k201", (const char *)&it->shape + 1, 0x04); /* much larger */
    WRONG("k201", (const char *)&it->shape + 1, 0x08); /* dead */
    WRONG("k201", (const char *)&it->shape + 1, 0x10); /* large */
    WRONG("k201", &it->key_len, 0xff);
    WRONG("k201", (const char *)&it->value_len + 2, 0x01);
    WRONG("k201", item_key(it), 0x01); /* another key, mostly of another shard or taken */
    it = fixture_get(&f, "later").item;
    WRONG("later", (const char *)&item_ttl(it)->deadline + 7, 0x80);
    it = fixture_get(&f, "large").item;
    l = item_large(it);
    WRONG("large", &l->first, 0x01);
    WRONG("large", &l->segments, 0x02);
    WRONG("large", &it->value_len, 0x08);
    it = fixture_get(&f, "pieces").item;
    l = item_large(it);
    ck_assert_uint_gt(l->pieces, 0);
    piece = shard_item(fixture_get(&f, "pieces").shard, atomic_load(&l->piece[0]));
    WRONG("pieces", &l->pieces, 0x01);
    WRONG("pieces", &l->piece[0], 0x04);
    WRONG("pieces", &piece->client_flags, 0x01); /* its owner */
    WRONG("pieces", &piece->value_len, 0x01);
    stop();
    for (unsigned i = 0; i < n; i++) {
        bool is_key = strcmp(wrong[i].what, "item_key(it)") == 0;

        ck_assert_msg(!is_warm_with(wrong[i].at, wrong[i].mask) || is_key, "%s", wrong[i].what);
    }
}

/* Anything may stand in the segments: it is refused, or it is items. */
TEST(damaged_blocks_never_crash)
{
    struct rng r;
    uint64_t base;
    int clean;

    leave_all_kinds();
    start_warm();
    base = a.region[0].at;
    stop();
    clean = file;
    rng_init(&r, rng_seed());
    for (unsigned i = 0; i < 300; i++) {
        file = copy_of(clean);
        for (unsigned k = rng_below(&r, 4); k < 5; k++) {
            change(base + 32 * KIB + rng_below(&r, 60000), (uint8_t)(1 + rng_below(&r, 255)));
        }
        start_anyhow();
        close(file);
    }
    file = clean;
}

TEST(a_file_that_was_cut_is_not_used)
{
    leave_all_kinds();
    ck_assert_int_eq(ftruncate(file, 128 * KIB), 0);
    start_cold("cut short");
    stop();
}
