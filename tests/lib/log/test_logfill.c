/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * logfill, and the states of a log up to where they are loaded: a snapshot and its logs give
 * what there was, of each key the last state that is in them, wherever they break off.
 */
#include "lib/log/logfill.h"

#include <pthread.h>
#include <sys/stat.h>

#include "lib/engine/prefix.h"
#include "lib/format/decode.h"
#include "lib/log/keychain.h"
#include "lib/log/keylog.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"
#include "tests/lib/fixture.h"
#include "tests/lib/log/unheard.h"

static struct fixture f;
static struct keylog *l;
static char path[96];
static _Atomic int gaps;

static void make_folder(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/" BASE, folder);
    gaps = 0;
}

TEST_FIXTURE(make_folder, remove_logs)

static void start(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 64 * MIB;
    cfg.item_size_max = 16 * MIB;
    cfg.ring_bytes = 8 * MIB;
    fixture_start_threaded(&f, &cfg);
}

/* ---- blocks ------------------------------------------------------------------------------ */

static void on_wake(void *arg)
{
}

/* A thread that may take a block takes one. */
static void on_wait(void *arg)
{
    struct logfill *fill = *(struct logfill **)arg;

    ck_assert_ptr_nonnull(logfill_next(fill));
    logfill_took(fill);
}

TEST(a_key_that_changes_often_is_put_once)
{
    struct logfill *fill = mem_zalloc(sizeof(*fill));

    start();
    ck_assert(logfill_init(fill, &f.engine, on_wake, on_wait, &fill));
    ck_assert_int_eq(logfill_begin(fill), MF_OK);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, "hot", 10 + i % 10);
        if (i % 1000 == 0) {
            fixture_set(&f, fixture_key("k", i), 10);
        }
    }
    ck_assert_int_eq(logfill_states(fill), STREAM_IDLE);
    ck_assert(logfill_has_begun(fill));
    ck_assert_ptr_null(logfill_next(fill));
    logfill_send(fill);
    struct logfile_block *block = logfill_next(fill);
    ck_assert_uint_eq(block->b.items, 4);
    ck_assert_int_eq(block->b.kind, SNAP_ITEMS);
    ck_assert_uint_eq(logfill_waiting(fill), block->b.stored);
    logfill_took(fill);
    ck_assert_uint_eq(logfill_waiting(fill), 0);
    /* Of keys likewise, in blocks of their own. */
    fixture_set(&f, "last", 10);
    ck_assert_int_eq(logfill_states(fill), STREAM_IDLE);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, "hot", 10);
    }
    ck_assert_int_eq(logfill_keys(fill), STREAM_IDLE);
    logfill_send(fill);
    block = logfill_next(fill);
    ck_assert(block->b.kind == SNAP_ITEMS && block->b.items == 1);
    logfill_took(fill);
    block = logfill_next(fill);
    ck_assert(block->b.kind == SNAP_KEYS && block->b.items == 1);
    logfill_took(fill);
    ck_assert_ptr_null(logfill_next(fill));
    /* Far more than the blocks have room for: then it waits. */
    for (unsigned i = 0; i < 4000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    fixture_set(&f, "large", 5 * MIB);
    ck_assert_int_eq(logfill_states(fill), STREAM_IDLE);
    logfill_send(fill);
    for (block = logfill_next(fill); block != NULL; block = logfill_next(fill)) {
        logfill_took(fill);
    }
    ck_assert_uint_eq(logfill_waiting(fill), 0);
    logfill_end(fill);
    logfill_fini(fill);
    mem_free(fill);
}

/* Blocks as a log takes them. */
static struct taken {
    char room[4][SNAP_ROOM_BYTES];
    struct snap_block b[4];
    bool is_more[4];
    unsigned n;
} taken;

static char *on_take(void *arg, const struct snap_block *b, bool is_more)
{
    struct taken *t = arg;

    t->b[t->n] = *b;
    t->is_more[t->n++] = is_more;
    return t->room[t->n];
}

/* Also where nothing of it is out yet: the log may have an older state, which must go. */
TEST(a_value_that_is_cut_at_once_is_in_the_log)
{
    const struct snap_item it = {
        .deadline = SNAP_DEADLINE_NEVER, .key = span_str("large"), .value_len = 600000};
    struct snap_item read;
    struct snap_encoder e;
    struct span bytes;
    uint32_t at;

    taken.n = 0;
    snap_filler_begin(&e, on_take, &taken, taken.room[0]);
    ck_assert(snap_value_begin(&e, &it, 1));
    ck_assert(snap_value_part(&e, span_str("part"), 1));
    ck_assert(snap_value_cut(&e, 1));
    ck_assert_uint_eq(taken.n, 2);
    taken.b[0].marks = SNAP_MARKS;
    struct span content = span_of(taken.room[0] + SNAP_BLOCK_BYTES, taken.b[0].stored);
    ck_assert(taken.b[0].kind == SNAP_VALUE && taken.is_more[0]);
    ck_assert(snap_part_of(&taken.b[0], content, &at, &read, &bytes));
    ck_assert(at == 0 && read.key.len == 5 && bytes.len == 4);
    content = span_of(taken.room[1] + SNAP_BLOCK_BYTES, taken.b[1].stored);
    ck_assert(taken.b[1].kind == SNAP_VALUE && !taken.is_more[1]);
    ck_assert(snap_part_of(&taken.b[1], content, &at, &read, &bytes));
    ck_assert_uint_eq(at, SNAP_PART_CUT);
    ck_assert_uint_eq(e.used, 0);
}

/* ---- logs -------------------------------------------------------------------------------- */

static void on_gap(void *arg, int error)
{
    gaps++;
}

static void start_log(void)
{
    const struct keylog_config cfg = unheard_config(&f.engine, &io_system, on_gap);

    ck_assert_int_eq(keylog_start(&l, &cfg, KEYLOG_SYNC_EVERYSEC), MF_OK);
}

static void rotate(enum keylog_mode mode, uint64_t number)
{
    ck_assert_int_eq(keylog_rotate(l, mode, CHAIN, number, 0), 0);
}

static void save_with(uint64_t number)
{
    struct save s = {.engine = &f.engine,
                     .io = &io_system,
                     .dir = folder,
                     .name = BASE,
                     .flags = SNAP_HAS_LOG,
                     .chain = CHAIN,
                     .log = number};

    ck_assert_int_eq(save_run(&s), SAVE_DONE);
}

/* Load everything into an engine whose clock is later by `ms`. */
static void load_after(msec_t later, struct load *load)
{
    struct load_file file;
    struct keychain c = {.io = &io_system, .dir = folder, .base = BASE, .may_cut = true};

    start();
    clock_advance(&f.engine.clock, later);
    ck_assert(load_open(&file, path));
    ck_assert_int_eq(keychain_read(&c, &file.header), KEYCHAIN_DONE);
    *load = (struct load){.engine = &f.engine,
                          .file = &file,
                          .threads = 2,
                          .chain = &c,
                          .unix_floor_ms = c.unix_ms};
    ck_assert_int_eq(load_run(load), LOAD_DONE);
    load_close(&file);
    keychain_fini(&c);
}

/* Stop what was logged. */
static void stop(void)
{
    keylog_stop(&l);
    ck_assert_int_eq(gaps, 0);
    fixture_stop(&f);
}

TEST_LOOP(what_changed_comes_back_as_it_was, 2)
{
    const struct erase mark = {.marks_stale = true};
    struct load load;

    start();
    start_log();
    fixture_set(&f, "same", 10);
    fixture_set(&f, "dropped", 10);
    fixture_set(&f, "stored", 10);
    fixture_set(&f, "touched", 10);
    fixture_set(&f, "marked", 10);
    fixture_set(&f, "short", 10);
    fixture_set(&f, "grown", 10);
    fixture_set(&f, "shrunk", 3 * MIB);
    rotate(KEYLOG_FULL, 5);
    if (_i == 0) {
        save_with(5);
    }
    fixture_delete(&f, "dropped");
    fixture_set(&f, "stored", 20);
    fixture_touch(&f, "touched", fixture_now(&f) + 100000);
    fixture_erase(&f, "marked", &mark);
    fixture_touch(&f, "short", fixture_now(&f) + 10);
    fixture_set(&f, "grown", 3 * MIB);
    fixture_set(&f, "shrunk", 300000);
    fixture_set(&f, "new", 100);
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set(&f, fixture_key("k", i), i % 700);
    }
    if (_i == 1) {
        save_with(5); /* the log has the states once more */
    }
    rotate(KEYLOG_FULL, 6);
    fixture_set(&f, "stored", 30);
    fixture_delete(&f, fixture_key("k", 17));
    struct got before = fixture_get(&f, "touched");
    msec_t left = before.deadline - fixture_now(&f);
    stop();
    load_after(50, &load);
    ck_assert_uint_ge(load.counts.states, 2);
    fixture_check(&f, "same", 10);
    fixture_check(&f, "stored", 30);
    fixture_check(&f, "grown", 3 * MIB);
    fixture_check(&f, "shrunk", 300000);
    fixture_check(&f, "new", 100);
    struct got after = fixture_get(&f, "touched");
    ck_assert(after.is_hit && after.cas == before.cas);
    ck_assert_int_le(after.deadline - fixture_now(&f), left - 50); /* the test takes a while */
    ck_assert_int_gt(after.deadline - fixture_now(&f), left - 90000);
    ck_assert(fixture_get(&f, "marked").is_stale);
    ck_assert(!fixture_has(&f, "dropped") && !fixture_has(&f, "short"));
    for (unsigned i = 0; i < 5000; i++) {
        if (i != 17) {
            fixture_check(&f, fixture_key("k", i), i % 700);
        }
    }
    ck_assert(!fixture_has(&f, fixture_key("k", 17)));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 7 + 4999);
}

/* One that took place, and those that are to come or have come by the time of the load. */
TEST_LOOP(a_flush_is_in_the_log, 4)
{
    struct load load;

    start();
    start_log();
    fixture_set(&f, "a", 10);
    rotate(KEYLOG_FULL, 1);
    save_with(1);
    fixture_set(&f, "b", 10);
    fixture_flush(&f, _i == 0 ? fixture_now(&f) : fixture_now(&f) + 1000);
    ck_assert(keylog_make_durable(l));
    if (_i == 3) {
        clock_advance(&f.engine.clock, 2000);
    }
    fixture_set(&f, "c", 10);
    stop();
    load_after(_i == 2 ? 5000 : _i == 3 ? 2000 : 0, &load);
    ck_assert_int_eq(fixture_has(&f, "a"), _i == 1);
    ck_assert_int_eq(fixture_has(&f, "b"), _i == 1);
    ck_assert_int_eq(fixture_has(&f, "c"), _i != 2);
    clock_advance(&f.engine.clock, 1000);
    ck_assert_int_eq(fixture_has(&f, "a"), false);
    ck_assert_int_eq(fixture_has(&f, "c"), _i == 0 || _i == 3);
}

/* What it flushed is not loaded, neither from the snapshot nor from the log before it. */
TEST(a_flush_of_a_prefix_is_in_the_log)
{
    struct load load;

    start();
    start_log();
    for (unsigned i = 0; i < 100; i++) {
        fixture_set(&f, fixture_key("p:", i), 10);
        fixture_set(&f, fixture_key("q:", i), 10);
    }
    fixture_set(&f, "p:large", 300000);
    rotate(KEYLOG_FULL, 1);
    save_with(1);
    fixture_set(&f, "p:logged", 10);
    /* More than may be flushed at a time: the reader of the log waits. */
    for (unsigned i = 0; i < 200; i++) {
        fixture_flush_prefix(&f, fixture_key("p:x", i));
        while (i % 50 == 49 && engine_prefixes(&f.engine) != 0) {
            fixture_settle(&f);
        }
    }
    ck_assert(keylog_make_durable(l));
    fixture_flush_prefix(&f, "p:");
    fixture_set(&f, "p:1", 20);
    stop();
    load_after(0, &load);
    fixture_check(&f, "p:1", 20);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(fixture_has(&f, fixture_key("p:", i)), i == 1);
        ck_assert(fixture_has(&f, fixture_key("q:", i)));
    }
    ck_assert(!fixture_has(&f, "p:large") && !fixture_has(&f, "p:logged"));
}

/* After each byte: of every key a state that it had, and none older than a shorter file has. */
TEST(it_may_break_off_anywhere)
{
    char name[KEYCHAIN_NAME_MAX];
    char log[KEYCHAIN_NAME_MAX + 96];
    size_t last = 10;
    struct load load;
    struct stat st;

    ck_assert(keychain_name(name, BASE, 1));
    snprintf(log, sizeof(log), "%s/%s", folder, name);
    start();
    start_log();
    fixture_set(&f, "a", 10);
    fixture_set(&f, "large", 20);
    rotate(KEYLOG_FULL, 1);
    save_with(1);
    for (size_t len = 11; len < 16; len++) {
        fixture_set(&f, "a", len);
        ck_assert(keylog_make_durable(l));
    }
    fixture_set(&f, "large", 600000);
    stop();
    ck_assert_int_eq(stat(log, &st), 0);
    /*
     * What is cut off stays cut, so from the end, which is a seal behind the large value; of
     * that some places will do.
     */
    for (off_t n = st.st_size - SNAP_BLOCK_BYTES - 1; n >= SNAP_HEADER_BYTES;
         n -= n > 1000 ? 9973 : 1) {
        size_t len;

        ck_assert_int_eq(truncate(log, n), 0);
        load_after(0, &load);
        fixture_check(&f, "large", 20);
        len = fixture_get(&f, "a").len;
        ck_assert(n > 1000 ? len == 15 : len <= 15 && len >= 10 && (last == 10 || len <= last));
        last = len;
        fixture_check(&f, "a", len);
        fixture_stop(&f);
        ck_assert_int_eq(stat(log, &st), 0);
        n = st.st_size < n ? st.st_size : n;
    }
    ck_assert_uint_eq(last, 10);
}

static void *run_writer(void *arg)
{
    rcu_register();
    for (unsigned i = 0; i < 60; i++) {
        fixture_set(&f, fixture_key("large", i % 4), MIB + i);
        fixture_set(&f, fixture_key("small", i % 7), 10 + i);
    }
    rcu_unregister();
    return NULL;
}

/* No value has its parts in two logs, and nothing is missing between them. */
TEST(logs_follow_each_other_while_large_values_are_stored)
{
    uint64_t number = 1;
    pthread_t writer;
    struct load load;

    start();
    start_log();
    rotate(KEYLOG_FULL, number);
    save_with(number);
    ck_assert_int_eq(pthread_create(&writer, NULL, run_writer, NULL), 0);
    while (number < 30) {
        rotate(KEYLOG_FULL, ++number);
    }
    pthread_join(writer, NULL);
    stop();
    load_after(0, &load);
    for (unsigned i = 56; i < 60; i++) {
        fixture_check(&f, fixture_key("large", i % 4), MIB + i);
    }
    for (unsigned i = 53; i < 60; i++) {
        fixture_check(&f, fixture_key("small", i % 7), 10 + i);
    }
}

/* Keys omit earlier states, and later states follow. */
TEST(logs_of_both_kinds)
{
    struct load load;

    start();
    start_log();
    fixture_set(&f, "a", 10);
    fixture_set(&f, "b", 10);
    fixture_set(&f, "c", 10);
    fixture_set(&f, "d", 10);
    rotate(KEYLOG_KEYS, 1);
    save_with(1);
    fixture_set(&f, "a", 11);
    fixture_set(&f, "b", 11);
    ck_assert(keylog_make_durable(l));
    rotate(KEYLOG_FULL, 2);
    fixture_set(&f, "b", 12);
    fixture_set(&f, "c", 12);
    stop();
    load_after(0, &load);
    ck_assert(!fixture_has(&f, "a"));
    fixture_check(&f, "b", 12);
    fixture_check(&f, "c", 12);
    fixture_check(&f, "d", 10);
    start_log();
    rotate(KEYLOG_KEYS, 3);
    fixture_set(&f, "c", 13);
    ck_assert(keylog_make_durable(l));
    stop();
    load_after(0, &load);
    ck_assert(!fixture_has(&f, "c") && !fixture_has(&f, "a"));
    ck_assert(!fixture_has(&f, "b")); /* the keys of the third log leave out more */
    fixture_check(&f, "d", 10);
}
