/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load: what becomes of each field of an item. The test writes the files itself, so that they
 * have what no engine would save.
 */
#include "lib/snapshot/load.h"

#include "lib/base/buf.h"
#include "lib/format/encode.h"
#include "tests/common/folder.h"
#include "tests/lib/fixture.h"

static char path[96];
static struct fixture f;
static struct buf bytes; /* of the file that is being made */
static struct snap_encoder encoder;

static bool write_bytes(void *arg, const void *p, size_t n)
{
    return buf_append(&bytes, p, n);
}

static void set_up(void)
{
    struct engine_config cfg;

    folder_make();
    snprintf(path, sizeof(path), "%s/data", folder);
    fixture_config(&cfg);
    cfg.item_size_max = 5000;
    fixture_start_threaded(&f, &cfg);
    clock_advance(&f.engine.clock, 3600000);
}

static void tear_down(void)
{
    fixture_stop(&f);
    folder_remove();
}

/* ---- files ------------------------------------------------------------------------------- */

static int64_t unix_now(void)
{
    return clock_unix_ms(&f.engine.clock);
}

static void begin_file(int64_t unix_ms)
{
    struct snap_header h = {.unix_ms = unix_ms};

    memset(&bytes, 0, sizeof(bytes));
    ck_assert(snap_encoder_begin(&encoder, write_bytes, NULL, &h, false));
}

static struct snap_item item(const char *key)
{
    return (struct snap_item){.cas = 5,
                              .deadline = SNAP_DEADLINE_NEVER,
                              .key = span_str(key),
                              .value = span_str("value"),
                              .value_len = 5};
}

static void put(const struct snap_item *it)
{
    ck_assert(snap_put_item(&encoder, it));
}

static void end_file(void)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ck_assert(snap_encoder_end(&encoder, unix_now()));
    ck_assert_int_eq(write(fd, buf_begin(&bytes), buf_len(&bytes)), (ssize_t)buf_len(&bytes));
    close(fd);
    buf_fini(&bytes);
    snap_encoder_fini(&encoder);
}

static void load(struct load *l)
{
    struct load_file file;

    ck_assert(load_open(&file, path));
    l->engine = &f.engine;
    l->file = &file;
    l->threads = l->threads != 0 ? l->threads : 1;
    ck_assert_int_eq(load_run(l), LOAD_DONE);
    load_close(&file);
}

/* A file with this item alone is loaded. */
static struct got load_one(const struct snap_item *it, struct load *l)
{
    begin_file(unix_now());
    put(it);
    end_file();
    load(l);
    return fixture_get(&f, "a");
}

TEST_FIXTURE(set_up, tear_down)

/* ---- fields ------------------------------------------------------------------------------ */

/* How it was used: what is evicted next follows from that. */
TEST(idle_time_and_heat_are_loaded)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};

    it.idle_s = 1000;
    it.heat = HEAT_JUDGED | HEAT_FETCHED | 2 << HEAT_CREDIT_SHIFT | 1;
    struct got got = load_one(&it, &l);
    ck_assert(got.is_hit);
    ck_assert_uint_eq(item_access_s(got.item, (uint32_t)(fixture_now(&f) / 1000)),
                      fixture_now(&f) / 1000 - 1000);
    ck_assert_uint_eq(atomic_load(&got.item->heat), it.heat);
}

/* Idle for longer than the engine's clock goes back: since its beginning. */
TEST(idle_time_before_the_clock_is_cut)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};

    it.idle_s = 1000000;
    ck_assert_uint_eq(item_access_s(load_one(&it, &l).item, (uint32_t)(fixture_now(&f) / 1000)),
                      1);
}

/* No client was told to renew an item that becomes stale by the load. */
TEST_LOOP(marks_are_loaded, 4)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1, .marks_stale = _i >= 2};

    it.marks = (uint8_t)(_i % 2 == 0 ? SNAP_STALE | SNAP_WON : SNAP_WON);
    struct got got = load_one(&it, &l);
    ck_assert_int_eq(got.is_stale, _i != 1);
    ck_assert_int_eq(got.is_won, _i < 2);
}

/* Due at or after the deadline; a file may have any number. */
TEST(an_item_is_loaded_until_its_deadline)
{
    static const struct {
        int64_t after_ms;
        bool is_loaded;
    } rows[] = {{-1, false}, {0, false}, {1, true}, {100000, true}};
    struct snap_item it = item("a");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct load l = {.threads = 1};

        it.deadline = unix_now() + rows[i].after_ms;
        struct got got = load_one(&it, &l);
        ck_assert_int_eq(got.is_hit, rows[i].is_loaded);
        ck_assert_uint_eq(l.counts.items, rows[i].is_loaded);
        ck_assert_uint_eq(l.counts.expired, !rows[i].is_loaded);
        if (got.is_hit) {
            ck_assert_int_eq(got.deadline, fixture_now(&f) + rows[i].after_ms);
            ck_assert_int_eq(fixture_delete(&f, "a"), OUT_DELETED);
        }
    }
    it.deadline = INT64_MIN;
    ck_assert(!load_one(&it, &(struct load){.threads = 1}).is_hit);
}

/* ---- cas values -------------------------------------------------------------------------- */

static uint64_t next_cas(void)
{
    struct put p = {.key = "next", .ptr = "x", .len = 1};
    uint64_t cas;

    ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
    return cas;
}

/* 0 means none in requests. */
TEST(no_item_has_the_cas_0)
{
    struct snap_item it = item("a");

    fixture_set(&f, "b", 1); /* its cas is 1, that of the next one 2 */
    it.cas = 0;
    ck_assert_uint_eq(load_one(&it, &(struct load){.threads = 1}).cas, 1);
}

TEST(what_is_stored_later_has_a_higher_cas)
{
    struct snap_item it = item("a");

    it.cas = ITEM_CAS_DRAWN_MAX - 10000000;
    ck_assert_uint_eq(load_one(&it, &(struct load){.threads = 1}).cas, it.cas);
    ck_assert_uint_eq(next_cas(), it.cas + 1);
}

/* A client chose it: if others went on from there they could come to the end. */
TEST(a_huge_cas_is_kept_and_not_followed)
{
    struct snap_item it = item("a");

    it.cas = (uint64_t)1 << 62;
    ck_assert_uint_eq(load_one(&it, &(struct load){.threads = 1}).cas, it.cas);
    ck_assert_uint_lt(next_cas(), (uint64_t)1 << 61);
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* The limit is of key and value together. */
TEST_LOOP(an_item_that_is_too_large_is_refused, 2)
{
    uint64_t most = f.engine.item_bytes_max;
    char *value = mem_zalloc(most);
    struct snap_item it = item("a");
    struct load l = {.threads = 1};

    it.value_len = (uint32_t)(most - 1 + (unsigned)_i);
    it.value = span_of(value, it.value_len);
    ck_assert_int_eq(load_one(&it, &l).is_hit, _i == 0);
    ck_assert_uint_eq(l.counts.refused, _i);
    ck_assert_uint_eq(l.counts.items, 1 - _i);
    mem_free(value);
}

/* No encoder makes parts of so short a value, and no body has so few bytes. */
TEST(a_short_value_in_parts_is_refused)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};

    it.value = span_of(NULL, 0);
    begin_file(unix_now());
    ck_assert(snap_value_begin(&encoder, &it, unix_now()));
    ck_assert(snap_value_part(&encoder, span_str("value"), unix_now()));
    ck_assert(snap_value_end(&encoder, unix_now()));
    it = item("b");
    put(&it);
    end_file();
    load(&l);
    ck_assert_uint_eq(l.counts.refused, 1);
    ck_assert_uint_eq(l.counts.items, 1);
    ck_assert(!fixture_has(&f, "a") && fixture_has(&f, "b"));
}

/* ---- the whole --------------------------------------------------------------------------- */

TEST(all_bytes_are_counted)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};
    size_t len;

    begin_file(unix_now());
    put(&it);
    end_file();
    {
        FILE *file = fopen(path, "rb");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
        len = (size_t)ftell(file);
        fclose(file);
    }
    load(&l);
    ck_assert_uint_eq(l.bytes, len - SNAP_BLOCK_BYTES - SNAP_END_BYTES); /* END tells the end */
}

/* What the logs have seen of the time counts if the clock says less, as does the file's. */
TEST_LOOP(times_count_from_the_latest_one_that_is_known, 3)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};

    it.deadline = unix_now() + 100000;
    begin_file(unix_now() + (_i == 1 ? 40000 : 0));
    put(&it);
    end_file();
    l.unix_floor_ms = unix_now() + (_i == 0 ? 40000 : -40000);
    load(&l);
    struct got got = fixture_get(&f, "a");
    ck_assert_int_eq(l.behind_ms, _i < 2 ? 40000 : 0);
    ck_assert_int_eq(got.deadline, fixture_now(&f) + 100000 - l.behind_ms);
}

/* Whichever thread meets a flush, it counts: of several the earliest. */
TEST_LOOP(a_flush_counts_whichever_thread_reads_it, 8)
{
    struct load l = {.threads = 4};

    begin_file(unix_now());
    for (unsigned i = 0; i < 60; i++) {
        struct snap_item it = item(fixture_key("k", i));

        put(&it);
        ck_assert(snap_encoder_send(&encoder, unix_now()));
        if (i == 7 * (unsigned)_i) {
            ck_assert(snap_put_flush(&encoder, unix_now() + 5000, unix_now()));
        }
        if (i == 50) {
            ck_assert(snap_put_flush(&encoder, unix_now() + 90000, unix_now()));
        }
    }
    end_file();
    load(&l);
    ck_assert_uint_eq(l.counts.items, 60);
    ck_assert_int_eq(l.flush_unix_ms, unix_now() + 5000);
    ck_assert(fixture_has(&f, "k3"));
    clock_advance(&f.engine.clock, 5000);
    ck_assert(!fixture_has(&f, "k3"));
}

/* A flush that has come since leaves nothing of the file, and nothing counts as loaded. */
TEST(a_flush_that_has_come_takes_all)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};

    begin_file(unix_now() - 1000);
    ck_assert(snap_put_flush(&encoder, unix_now(), unix_now()));
    put(&it);
    end_file();
    load(&l);
    ck_assert_uint_eq(l.counts.items, 0);
    ck_assert(!fixture_has(&f, "a"));
    ck_assert_uint_eq(next_cas() != 0, 1);
}

/* An older value does not come back for an item that has expired, held or not. */
TEST_LOOP(an_expired_item_is_not_replaced_by_a_load, 2)
{
    struct snap_item it = item("a");
    struct load l = {.threads = 1};
    struct load_file file;

    begin_file(unix_now());
    put(&it);
    it = item("b");
    put(&it);
    end_file();
    ck_assert(load_open(&file, path));
    l.engine = &f.engine;
    l.file = &file;
    if (_i == 1) {
        fixture_set_until(&f, "a", 10, fixture_now(&f) + 10); /* which is no miss to note */
    }
    ck_assert(load_beside(&l));
    if (_i == 0) {
        fixture_set_until(&f, "a", 10, fixture_now(&f) + 10);
    } else {
        engine_hold_expired(&f.engine, fixture_now(&f) + 60000);
    }
    clock_advance(&f.engine.clock, 10);
    ck_assert_int_eq(load_run(&l), LOAD_DONE);
    load_close(&file);
    ck_assert(!fixture_has(&f, "a"));
    ck_assert(fixture_has(&f, "b"));
    ck_assert_uint_eq(l.counts.items, 1);
    clock_advance(&f.engine.clock, 60000);
    ck_assert(!fixture_has(&f, "a"));
}
