/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a log has of items that expire: one word for any number of them. A snapshot and its
 * logs, as they are when the process is killed, bring back nothing that has expired, and all
 * else as it was, whatever becomes of the wall clock.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/engine/engine.h"
#include "lib/format/decode.h"
#include "lib/format/io.h"
#include "lib/log/keychain.h"
#include "lib/log/keylog.h"
#include "lib/log/logfill.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"
#include "tests/common/folder.h"
#include "tests/lib/fixture.h"
#include "tests/lib/log/unheard.h"

#define HOUR ((msec_t)3600 * 1000)

/* Milliseconds are short here: LOGFILL_DUE_MS is waited for often. */
#define HASTE 20

usec_t __real_clock_mono_us(void);
usec_t __wrap_clock_mono_us(void);

usec_t __wrap_clock_mono_us(void)
{
    return __real_clock_mono_us() * HASTE;
}

static struct fixture f;
static struct keylog *keylog;
static uint64_t number; /* of the last log */

/* The one that is loaded beside it. A fixture registers this thread, and its end undoes it. */
static struct fixture after;

static void on_gap(void *arg, int error)
{
    ck_abort_msg("a gap: %d", error);
}

/* Once for all engines of a test: those that run read the options that it sets. */
static struct engine_config config;

/* A process that is killed loses nothing that it wrote, so nothing waits for the disk. */
static struct io_calls io;

static int no_fsync(int fd)
{
    return 0;
}

static void make_folder(void)
{
    folder_make();
    io = io_system;
    io.fsync = no_fsync;
    fixture_config(&config);
    config.shards = 2;
    config.limit_bytes = 64 * MIB;
    config.ring_bytes = 1 * MIB;
}

TEST_FIXTURE(make_folder, folder_remove)

static void stop(void)
{
    keylog_stop(&keylog);
    fixture_stop(&f);
}

static void start_log(int64_t base_offset_ms)
{
    struct keylog_config cfg = unheard_config(&f.engine, &io, on_gap);

    cfg.base_offset_ms = base_offset_ms;
    ck_assert_int_eq(keylog_start(&keylog, &cfg, KEYLOG_SYNC_EVERYSEC), MF_OK);
    unit_at_end(stop);
}

static void rotate(enum keylog_mode mode)
{
    ck_assert_int_eq(keylog_rotate(keylog, mode, CHAIN, ++number, 0), 0);
}

/* Save a snapshot that begins with the log that is open. */
static void save_here(void)
{
    struct save s = {.engine = &f.engine,
                     .io = &io,
                     .dir = folder,
                     .name = BASE,
                     .flags = SNAP_HAS_LOG,
                     .chain = CHAIN,
                     .log = number};

    ck_assert_int_eq(save_run(&s), SAVE_DONE);
    keylog_base(keylog, s.to_unix_ms);
    ck_assert_int_eq(keychain_remove(&io, folder, BASE, number), 0);
}

/* One with a new log, as the daemon makes it. */
static void save(enum keylog_mode mode)
{
    rotate(mode);
    save_here();
}

static void start(enum keylog_mode mode)
{
    number = 0;
    fixture_start_threaded(&f, &config);
    start_log(0);
    save(mode);
}

static uint64_t logged(void)
{
    keylog_settle(keylog);
    return keylog_now(keylog).all_bytes;
}

/* ---- killed ------------------------------------------------------------------------------ */

static char killed[96];

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n;

    ck_assert(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof(bytes))) > 0) {
        ck_assert_int_eq(write(out, bytes, (size_t)n), n);
    }
    close(in);
    close(out);
}

/* Keep what a process that is killed now leaves: no log is closed. */
static void kill_it(void)
{
    const struct dirent *entry;

    keylog_settle(keylog);
    snprintf(killed, sizeof(killed), "%s/killed", folder);
    (void)mkdir(killed, 0700);
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    while ((entry = readdir(d)) != NULL) {
        char from[512];
        char to[512];

        if (strncmp(entry->d_name, BASE, strlen(BASE)) == 0) {
            snprintf(from, sizeof(from), "%s/%s", folder, entry->d_name);
            snprintf(to, sizeof(to), "%s/%s", killed, entry->d_name);
            copy_file(from, to);
        }
    }
    closedir(d);
}

/* Load what a folder has into an engine whose wall clock shows this time. */
static void load_from(struct fixture *to, const char *dir, int64_t unix_ms, struct load *l)
{
    struct keychain c = {.io = &io, .dir = dir, .base = BASE, .may_cut = true};
    struct load_file file;
    char path[128];

    fixture_start_threaded(to, &config);
    clock_step_wall(&to->engine.clock, unix_ms - clock_unix_ms(&to->engine.clock));
    snprintf(path, sizeof(path), "%s/" BASE, dir);
    ck_assert(load_open(&file, path));
    ck_assert_int_eq(keychain_read(&c, &file.header), KEYCHAIN_DONE);
    *l = (struct load){.engine = &to->engine,
                       .file = &file,
                       .threads = 1,
                       .chain = &c,
                       .unix_floor_ms = c.unix_ms};
    ck_assert_int_eq(load_run(l), LOAD_DONE);
    load_close(&file);
    keychain_fini(&c);
}

/* Load what was left; the wall clock goes on, or was stepped. */
static void load_killed(msec_t step_ms, struct load *l)
{
    load_from(&after, killed, clock_unix_ms(&f.engine.clock) + step_ms, l);
}

static void stop_loaded(void)
{
    fixture_stop(&after);
}

/* ---- a mass of them ---------------------------------------------------------------------- */

#define MANY 50000

static uint64_t count_blocks(uint8_t kind, int64_t *due_unix_ms)
{
    struct snap_fault fault;
    struct snap_opener o;
    struct snap_reader r;
    struct snap_block b;
    struct load_file file;
    uint64_t n = 0;
    char path[128];

    snprintf(path, sizeof(path), "%s/" BASE ".log.%u", killed, (unsigned)number);
    ck_assert(load_open_any(&file, path, O_RDONLY));
    ck_assert(snap_reader_begin(&r, load_read, &file, &fault) && snap_opener_init(&o));
    while (snap_reader_next(&r, &b, &fault) == SNAP_NEXT_BLOCK) {
        struct span content;

        ck_assert(snap_block_open(&r, &b, &o, &content, &fault));
        n += b.kind == kind;
        if (b.kind == SNAP_DUE) {
            ck_assert_int_eq(b.flags, SNAP_OPTIONAL); /* older programs pass over it */
            ck_assert(snap_instant_of(content, due_unix_ms));
            ck_assert_int_ge(b.unix_ms, *due_unix_ms); /* and take this time */
        }
    }
    snap_opener_fini(&o);
    load_close(&file);
    return n;
}

TEST_LOOP(a_mass_of_deaths_is_a_word_in_the_log, 2)
{
    enum keylog_mode mode = _i == 0 ? KEYLOG_KEYS : KEYLOG_FULL;
    int64_t due_unix_ms = 0;
    struct load load;

    start(mode);
    msec_t deadline = fixture_now(&f) + 60000;
    for (unsigned i = 0; i < MANY; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, deadline);
        if (i % 1000 == 0) {
            keylog_settle(keylog);
        }
    }
    fixture_set(&f, "stays", 10);
    save(mode);
    uint64_t before = logged();
    clock_advance(&f.engine.clock, 60000);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), MANY);
    /* A word each quarter of a second that it takes; records would be thirty times as much. */
    ck_assert_uint_le(logged() - before, MANY);
    kill_it();
    ck_assert_uint_gt(count_blocks(SNAP_DUE, &due_unix_ms), 0);
    ck_assert_int_ge(due_unix_ms, clock_to_unix_ms(&f.engine.clock, deadline));
    load_killed(-HOUR, &load);
    ck_assert_uint_eq(fixture_counter(&after, CTR_curr_items), 1);
    fixture_check(&after, "stays", 10);
    stop_loaded();
}

/* Without records there is nothing that wakes the reader of the rings but the word. */
TEST(the_word_is_written_though_nothing_else_changes)
{
    const struct timespec a_while = {.tv_nsec = 200000000};
    int64_t due_unix_ms = 0;

    start(KEYLOG_FULL);
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 1000);
    keylog_settle(keylog);
    nanosleep(&a_while, NULL); /* whether it sleeps by then or not, it notices */
    clock_advance(&f.engine.clock, 1000);
    fixture_expire(&f);
    kill_it();
    ck_assert_uint_eq(count_blocks(SNAP_DUE, &due_unix_ms), 1);
    fixture_expire(&f); /* nothing more has expired: nothing more is said */
    ck_assert(keylog_make_durable(keylog));
    kill_it();
    ck_assert_uint_eq(count_blocks(SNAP_DUE, &due_unix_ms), 1);
}

/* D is what shards have nothing due left of, though others have expired that were met. */
TEST(the_word_says_no_more_than_is_gone)
{
    int64_t due_unix_ms = 0;

    start(KEYLOG_FULL);
    msec_t deadline = fixture_now(&f) + 1000;
    engine_hold_sampler(&f.engine, true);
    fixture_set_until(&f, "due", 10, deadline);
    fixture_set_until(&f, "met", 10, deadline + 1000);
    clock_advance(&f.engine.clock, 5000);
    ck_assert(!fixture_has(&f, "met"));
    kill_it();
    ck_assert_uint_eq(count_blocks(SNAP_DUE, &due_unix_ms), 1);
    ck_assert_int_lt(due_unix_ms, clock_to_unix_ms(&f.engine.clock, deadline));
    engine_hold_sampler(&f.engine, false);
    fixture_expire(&f);
    kill_it();
    ck_assert_uint_eq(count_blocks(SNAP_DUE, &due_unix_ms), 2);
    ck_assert_int_eq(due_unix_ms, clock_unix_ms(&f.engine.clock));
}

/* ---- the wall clock ---------------------------------------------------------------------- */

/* When it is set back by an hour: at none of these, or one of them. */
enum stepped { NEVER, BEFORE, ALIVE, DUE, COLLECTED, DOWN, STEPS };

static void step(enum stepped here, enum stepped when, msec_t by)
{
    if (here == when) {
        clock_step_wall(&f.engine.clock, by);
    }
}

/*
 * What has expired stays away. It was collected by the sampler, or by a reader while the
 * sampler was held, and nothing else was written meanwhile.
 */
TEST_LOOP(what_has_expired_stays_away_whatever_the_clock_does, 2 * STEPS * 2)
{
    enum keylog_mode mode = _i % 2 == 0 ? KEYLOG_KEYS : KEYLOG_FULL;
    enum stepped when = (enum stepped)(_i / 2 % STEPS);
    bool is_lazy = _i / 2 / STEPS != 0;
    struct load load;

    start(mode);
    engine_hold_sampler(&f.engine, is_lazy);
    step(BEFORE, when, -HOUR);
    fixture_set_until(&f, "logged", 10, fixture_now(&f) + 60000);
    fixture_set_until(&f, "due", 10, fixture_now(&f) + 50000); /* and nobody asks for it */
    fixture_set_until(&f, "dead", 10, fixture_now(&f) + 60000);
    fixture_set_until(&f, "late", 10, fixture_now(&f) + 90000);
    fixture_set_until(&f, "lives", 10, fixture_now(&f) + 3 * HOUR);
    save(mode);                                                   /* in the snapshot */
    fixture_set_until(&f, "logged", 11, fixture_now(&f) + 60000); /* in the log */
    keylog_settle(keylog);
    step(ALIVE, when, -HOUR);
    clock_advance(&f.engine.clock, 60000);
    step(DUE, when, -HOUR);
    if (is_lazy) {
        ck_assert(!fixture_has(&f, "dead") && !fixture_has(&f, "logged"));
        /* A get drops nothing while the log's reader has the shard. */
        WAIT_UNTIL(!fixture_has(&f, "dead") && !fixture_has(&f, "logged") &&
                   fixture_counter(&f, CTR_expired_lazy) > 1);
    } else {
        fixture_expire(&f);
        ck_assert_uint_gt(fixture_counter(&f, CTR_expired_active), 1);
    }
    keylog_settle(keylog);
    step(COLLECTED, when, -HOUR);
    clock_advance(&f.engine.clock, 30000);
    ck_assert(!fixture_has(&f, "late"));
    kill_it();
    load_killed(when == DOWN ? -HOUR : 0, &load);
    ck_assert(!fixture_has(&after, "dead") && !fixture_has(&after, "logged"));
    ck_assert(!fixture_has(&after, "late"));
    fixture_check(&after, "lives", 10);
    stop_loaded();
}

/* Also after a load with a clock earlier than the latest time in the files. */
TEST_LOOP(what_was_loaded_by_a_clock_that_is_behind_stays_away, 2)
{
    enum keylog_mode mode = _i == 0 ? KEYLOG_KEYS : KEYLOG_FULL;
    struct load load;

    start(mode);
    fixture_set_until(&f, "dead", 10, fixture_now(&f) + 60000);
    fixture_set_until(&f, "lives", 10, fixture_now(&f) + HOUR);
    save(mode);
    int64_t unix_ms = clock_unix_ms(&f.engine.clock);
    stop();
    load_from(&f, folder, unix_ms - HOUR, &load);
    ck_assert_int_gt(load.behind_ms, HOUR - 60000);
    fixture_check(&f, "dead", 10);
    start_log(load.to_unix_ms);
    rotate(mode);
    clock_advance(&f.engine.clock, 60000);
    fixture_expire(&f);
    kill_it();
    load_killed(0, &load);
    ck_assert(!fixture_has(&after, "dead"));
    fixture_check(&after, "lives", 10);
    stop_loaded();
}

static uint64_t expire_one(void)
{
    uint64_t before = logged();

    fixture_set_until(&f, "one", 10, fixture_now(&f) + 1000);
    keylog_settle(keylog);
    before = logged();
    clock_advance(&f.engine.clock, 1000);
    fixture_expire(&f);
    return logged() - before;
}

/* Items that expire have a record each only while files have times of the clock before. */
TEST(records_come_and_go_with_the_clock)
{
    const uint64_t word = SNAP_BLOCK_BYTES + SNAP_DUE_BYTES;
    const uint64_t gone = SNAP_BLOCK_BYTES + SNAP_ITEM_BYTES + strlen("one");

    start(KEYLOG_FULL);
    ck_assert_uint_eq(expire_one(), word);
    clock_step_wall(&f.engine.clock, HOUR);
    ck_assert_uint_eq(expire_one(), word);
    clock_step_wall(&f.engine.clock, -HOUR);
    ck_assert_uint_eq(expire_one(), gone);
    clock_step_wall(&f.engine.clock, HOUR / 2);
    ck_assert_uint_eq(expire_one(), gone);
    rotate(KEYLOG_FULL); /* whose snapshot may fail yet */
    ck_assert_uint_eq(expire_one(), gone);
    save(KEYLOG_FULL);
    ck_assert_uint_eq(expire_one(), word);
    rotate(KEYLOG_FULL);
    clock_step_wall(&f.engine.clock, HOUR);
    ck_assert_uint_eq(expire_one(), word); /* in the log that the snapshot begins with */
    clock_step_wall(&f.engine.clock, -HOUR);
    save_here();
    ck_assert_uint_eq(expire_one(), gone);
    save(KEYLOG_FULL);
    ck_assert_uint_eq(expire_one(), word);
    stop();
    number = 0;
    fixture_start_threaded(&f, &config);
    start_log(LOGFILL_OFFSET_UNKNOWN);
    rotate(KEYLOG_FULL);
    ck_assert_uint_eq(expire_one(), gone);
    save(KEYLOG_FULL);
    ck_assert_uint_eq(expire_one(), word);
}

/* ---- against a model --------------------------------------------------------------------- */

#define KEYS 40

/* What each key has; len 0: nothing. */
static struct {
    size_t len;
    msec_t deadline;
} model[KEYS];

/* Unless what has expired is kept. */
static void expire(void)
{
    if (engine_hold_left(&f.engine, fixture_now(&f)) == 0) {
        fixture_expire(&f);
    }
}

static void do_one(struct rng *r)
{
    unsigned i = (unsigned)rng_below(r, KEYS);
    unsigned what = (unsigned)rng_below(r, 100);
    const char *key = fixture_key("k", i);
    msec_t now = fixture_now(&f);
    msec_t deadline = now + 1 + (msec_t)rng_below(r, 2000);

    if (what < 40) {
        model[i].len = 1 + rng_below(r, 900);
        model[i].deadline = what < 30 ? deadline : MSEC_NEVER;
        fixture_set_until(&f, key, model[i].len, model[i].deadline);
    } else if (what < 60) {
        bool is_there = model[i].len != 0 && model[i].deadline > now;

        ck_assert((fixture_touch(&f, key, deadline) == OUT_TOUCHED) == is_there);
        model[i].deadline = is_there ? deadline : model[i].deadline;
    } else if (what < 65) {
        (void)fixture_delete(&f, key);
        model[i].len = 0;
    } else if (what < 75) {
        (void)fixture_has(&f, key);
    } else if (what < 85) {
        expire();
    } else if (what < 97) {
        clock_advance(&f.engine.clock, (msec_t)rng_below(r, 300));
    } else {
        engine_hold_expired(&f.engine, now + (msec_t)rng_below(r, 500));
    }
}

static void check_model(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        bool is_there = model[i].len != 0 && model[i].deadline > fixture_now(&f);
        struct got got = fixture_get(&after, fixture_key("k", i));

        ck_assert_msg(got.is_hit == is_there, "%u", i);
        if (is_there) {
            fixture_check(&after, fixture_key("k", i), model[i].len);
            ck_assert(clock_to_unix_ms(&after.engine.clock, got.deadline) ==
                      clock_to_unix_ms(&f.engine.clock, model[i].deadline));
        }
    }
}

/* At any moment a full log gives what there is, with deadlines to the millisecond. */
TEST_LOOP(what_comes_back_is_what_there_was, 4)
{
    struct rng r;

    rng_init(&r, rng_seed() + (uint64_t)_i);
    memset(model, 0, sizeof(model));
    start(KEYLOG_FULL);
    for (unsigned round = 0; round < 12; round++) {
        struct load load;

        for (unsigned i = 0; i < 150; i++) {
            do_one(&r);
        }
        if (rng_below(&r, 4) == 0) {
            save(KEYLOG_FULL);
        }
        if (rng_below(&r, 2) == 0) {
            expire();
        }
        kill_it();
        load_killed(0, &load);
        check_model();
        stop_loaded();
    }
}
