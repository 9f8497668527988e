/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A snapshot and its logs after a loss of power, at any moment, with any pages of what was not
 * synced: they are never refused, nothing that was durable is missing, and nothing is older
 * than that. Processes that are killed and restart are part of it: what they have left is
 * read, and may not be durable yet.
 *
 * MAYFLY_STRESS_SECONDS repeats it for this time with other numbers, MAYFLY_SEED begins with
 * others.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "lib/engine/flush.h"
#include "lib/log/keychain.h"
#include "lib/log/keylog.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"
#include "tests/common/folder.h"
#include "tests/lib/fixture.h"
#include "tests/lib/log/unheard.h"
#include "tests/lib/snapshot/disk.h"

#define KEYS      24
#define STEPS_MAX 600
#define ACKS_MAX  600
#define LIVES     3
#define LONG      20000  /* some of them make a block that is written directly */
#define LARGE     300000 /* in parts */

/* The length of each key's value after each step, 0: it was absent; and when the step began. */
static struct {
    unsigned n;
    unsigned length[STEPS_MAX + 1][KEYS];
    size_t began[STEPS_MAX + 1];
} history;

/* From this number of calls on, all up to this step is durable. */
static struct {
    unsigned n;
    unsigned step[ACKS_MAX];
    size_t calls[ACKS_MAX];
} acks;

static struct {
    enum keylog_mode mode; /* of the last log */
    bool is_mixed;         /* each log is of another kind */
    enum keylog_sync sync;
    uint64_t number; /* of the last log */
    size_t named;    /* number of calls from which there is a snapshot */
    bool is_named, is_saving;
    struct rng rng;
    struct fixture f;
    struct keylog *log;
} life;

/* Seconds are short here, so that the log syncs by itself while it is written. */
#define HASTE 100

usec_t __real_clock_mono_us(void);
usec_t __wrap_clock_mono_us(void);

usec_t __wrap_clock_mono_us(void)
{
    return __real_clock_mono_us() * HASTE;
}

static char found[96]; /* the folder of what is found */

static const char *key_of(unsigned i)
{
    return fixture_key("k", i);
}

/* ---- what is done ------------------------------------------------------------------------ */

static void on_gap(void *arg, int error)
{
    ck_abort_msg("a gap: %d", error);
}

static void start(struct fixture *f)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 16 * MIB;
    cfg.item_size_max = 4 * MIB;
    cfg.ring_bytes = 4 * MIB;
    fixture_start_threaded(f, &cfg);
}

static void start_log(void)
{
    const struct keylog_config cfg = unheard_config(&life.f.engine, &disk_io, on_gap);

    ck_assert_int_eq(keylog_start(&life.log, &cfg, life.sync), MF_OK);
}

static unsigned draw(unsigned n)
{
    return (unsigned)rng_below(&life.rng, n);
}

/* All up to now is durable. */
static void note_ack(unsigned step)
{
    if (life.is_named && !disk_is_dead() && acks.n < ACKS_MAX) {
        acks.step[acks.n] = step;
        acks.calls[acks.n++] = disk_calls();
    }
}

/* The snapshot has its name, and keeps it. */
static void note_named(void)
{
    if (!life.is_named && !disk_is_dead()) {
        life.is_named = true;
        life.named = disk_calls();
    }
}

static void make_durable(void)
{
    unsigned step = history.n;

    ck_assert(keylog_make_durable(life.log));
    note_ack(step);
}

/* The same, as clients wait for it under ALWAYS. */
static void ask(void)
{
    unsigned step = history.n;
    uint64_t ticket = keylog_ask(life.log);

    WAIT_UNTIL(keylog_is_done(life.log, ticket));
    note_ack(step);
}

static void begin_step(void)
{
    ck_assert(history.n < STEPS_MAX);
    memcpy(history.length[history.n + 1], history.length[history.n], sizeof(history.length[0]));
    history.n++;
    history.began[history.n] = disk_calls();
}

static void do_step(void)
{
    unsigned key = draw(KEYS);
    unsigned what = draw(100);

    begin_step();
    unsigned *now = history.length[history.n];
    if (what < 3 && !life.is_mixed && life.mode == KEYLOG_FULL && !life.is_saving) {
        fixture_flush(&life.f, fixture_now(&life.f));
        memset(now, 0, sizeof(history.length[0]));
    } else if (what < 20) {
        fixture_delete(&life.f, key_of(key));
        now[key] = 0;
    } else {
        now[key] = (what < 22 ? LARGE : what < 45 ? LONG : 1) + history.n * 5;
        fixture_set(&life.f, key_of(key), now[key]);
    }
}

static void do_steps(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned what = draw(100);

        do_step();
        if (what < 8 && keylog_is_on(life.log)) {
            if (life.sync == KEYLOG_SYNC_ALWAYS) {
                ask();
            } else {
                make_durable();
            }
        } else if (what < 30) {
            keylog_settle(life.log);
        }
    }
}

static bool is_void(void *arg)
{
    if (draw(4) == 0) {
        do_steps(1); /* without flushes, which would restart the save */
    }
    return false;
}

/* As the daemon: see snapshots.c. */
static bool before_naming(void *arg)
{
    if (life.mode == KEYLOG_FULL) {
        make_durable();
    }
    return true;
}

static void rotate(void)
{
    if (life.is_mixed) {
        life.mode = draw(2) == 0 ? KEYLOG_KEYS : KEYLOG_FULL;
    }
    ck_assert_int_eq(keylog_rotate(life.log, life.mode, CHAIN, life.number, 0), 0);
}

static void save(void)
{
    struct save s = {.engine = &life.f.engine,
                     .io = &disk_io,
                     .dir = folder,
                     .name = BASE,
                     .flags = SNAP_HAS_LOG,
                     .chain = CHAIN,
                     .log = ++life.number,
                     .is_void = is_void,
                     .before_naming = before_naming};

    rotate();
    unsigned step = history.n; /* it may have later ones as well */
    life.is_saving = true;
    ck_assert_int_eq(save_run(&s), SAVE_DONE);
    life.is_saving = false;
    note_named();
    note_ack(step);
    ck_assert_int_eq(keychain_remove(&disk_io, folder, BASE, life.number), 0);
}

/* ---- what is found ----------------------------------------------------------------------- */

/* Load what a folder has. False: there is no snapshot. */
static bool load_from(const char *dir, const struct io_calls *io, struct fixture *f)
{
    struct keychain c = {.io = io, .dir = dir, .base = BASE, .may_cut = true};
    char path[256];
    char text[SNAP_FAULT_TEXT_MAX];
    struct load_file file;

    snprintf(path, sizeof(path), "%s/%s", dir, BASE);
    if (access(path, F_OK) != 0) {
        return false;
    }
    if (!load_open(&file, path)) {
        ck_abort_msg("%s: %s", path, snap_fault_text(&file.fault, text));
    }
    if (keychain_read(&c, &file.header) != KEYCHAIN_DONE) {
        ck_abort_msg("%s: log %u of %u: %s", path, (unsigned)c.number,
                     (unsigned)file.header.log, snap_fault_text(&c.fault, text));
    }
    struct load l = (struct load){.engine = &f->engine,
                                  .file = &file,
                                  .threads = 1,
                                  .chain = &c,
                                  .unix_floor_ms = c.unix_ms};
    if (load_run(&l) != LOAD_DONE) {
        ck_abort_msg("%s: %s", path, snap_fault_text(&l.fault, text));
    }
    load_close(&file);
    keychain_fini(&c);
    return true;
}

/* Had the key this value at any time from one step to the other? */
static bool was(unsigned key, unsigned length, unsigned from, unsigned to)
{
    bool is_one = false;

    for (unsigned i = from; i <= to; i++) {
        is_one |= history.length[i][key] == length;
    }
    return is_one || (length == 0 && (life.is_mixed || life.mode == KEYLOG_KEYS));
}

/* Everything is as it was at some time since the last step that is durable. */
static void check_found(struct fixture *f, size_t calls)
{
    unsigned from = 0;
    unsigned to = 0;

    for (unsigned i = 0; i < acks.n; i++) {
        from = acks.calls[i] <= calls && acks.step[i] > from ? acks.step[i] : from;
    }
    for (unsigned i = 1; i <= history.n; i++) {
        to = history.began[i] <= calls ? i : to;
    }
    for (unsigned i = 0; i < KEYS; i++) {
        struct got got = fixture_get(f, key_of(i));
        unsigned length = got.is_hit ? (unsigned)got.len : 0;

        if (!was(i, length, from, to)) {
            ck_abort_msg("key %u has %u bytes, which it had not from step %u to %u", i, length,
                         from, to);
        }
        if (length != 0) {
            fixture_check(f, key_of(i), length);
        }
    }
}

static void empty(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;

    ck_assert_ptr_nonnull(d);
    while ((entry = readdir(d)) != NULL) {
        (void)unlinkat(dirfd(d), entry->d_name, 0);
    }
    closedir(d);
}

/* Nobody looks whether it is durable. */
static int no_fsync(int fd)
{
    return 0;
}

/* The power is lost after this number of calls. */
static void lose_power(size_t calls)
{
    struct io_calls io = io_system;
    struct fixture f;

    io.fsync = no_fsync;
    empty(found);
    disk_make(found, calls, &life.rng);
    start(&f);
    if (load_from(found, &io, &f)) {
        check_found(&f, calls);
    } else {
        ck_assert(!life.is_named || calls < life.named);
    }
    fixture_stop(&f);
}

/* ---- lives ------------------------------------------------------------------------------- */

/* What was loaded is what there is. Nothing else can be found any more. */
static void begin_history(bool is_anew)
{
    if (is_anew) {
        history.n = 0;
        acks.n = 0;
        life.named = 0;
    }
    begin_step();
    history.began[history.n] = is_anew ? 0 : history.began[history.n];
    for (unsigned i = 0; i < KEYS; i++) {
        struct got got = fixture_get(&life.f, key_of(i));

        history.length[history.n][i] = got.is_hit ? (unsigned)got.len : 0;
    }
}

/* A process starts, with what it finds: all if the one before was killed, else what is left. */
static void begin_life(bool has_lost_power)
{
    size_t calls = disk_calls();
    uint64_t highest;
    uint64_t count;

    if (has_lost_power) {
        calls -= draw(calls < 20 ? (unsigned)calls : 20);
        empty(folder);
        disk_make(folder, calls, &life.rng);
        disk_begin(folder);
    }
    start(&life.f);
    bool is_there = load_from(folder, &disk_io, &life.f);
    ck_assert(is_there || !life.is_named || calls < life.named);
    if (is_there) {
        check_found(&life.f, calls);
    }
    life.is_named = is_there && (has_lost_power || life.is_named);
    begin_history(has_lost_power);
    life.sync = (enum keylog_sync)draw(3);
    start_log();
    ck_assert_int_eq(keychain_find(folder, BASE, &highest, &count), 0);
    life.number = highest;
    if (is_there) {
        life.number++;
        /* The folder is synced with it, and so whatever name the one before gave. */
        rotate();
        note_named();
        note_ack(history.n);
    }
}

static void end_life(void)
{
    bool is_killed = draw(4) != 0;

    if (is_killed) {
        disk_kill();
    }
    keylog_stop(&life.log);
    note_ack(history.n);
    fixture_stop(&life.f);
    disk_revive();
}

static void live(bool has_lost_power, unsigned losses)
{
    size_t calls = disk_calls();
    size_t began = has_lost_power ? 0 : calls;

    begin_life(has_lost_power);
    if (draw(2) == 0) {
        disk_kill_after(draw(60));
    }
    do_steps(20 + draw(30));
    save();
    do_steps(20 + draw(30));
    if (draw(2) == 0) {
        save();
        do_steps(1 + draw(20));
    }
    end_life();
    calls = disk_calls();
    for (unsigned i = 0; i < losses; i++) {
        lose_power(began + draw((unsigned)(calls - began) + 1));
        lose_power(calls - draw(calls < 12 ? (unsigned)calls : 12));
    }
}

static void run(uint64_t seed, unsigned losses)
{
    memset(&history, 0, sizeof(history));
    memset(&life, 0, sizeof(life));
    acks.n = 0;
    rng_init(&life.rng, seed);
    life.mode = seed % 3 == 0 ? KEYLOG_KEYS : KEYLOG_FULL;
    life.is_mixed = seed % 3 == 2;
    empty(folder);
    disk_begin(folder);
    for (unsigned i = 0; i < LIVES; i++) {
        live(i != 0 && draw(2) == 0, losses);
    }
    disk_end();
}

static void set_up(void)
{
    folder_make();
    snprintf(found, sizeof(found), "%s-found", folder);
    ck_assert_int_eq(mkdir(found, 0700), 0);
}

static void tear_down(void)
{
    empty(found);
    ck_assert_int_eq(rmdir(found), 0);
    folder_remove();
}

TEST_FIXTURE(set_up, tear_down)

TEST(nothing_durable_is_lost_with_the_power)
{
    const char *given = getenv("MAYFLY_STRESS_SECONDS");
    time_t until = time(NULL) + (given != NULL ? atol(given) : 0);
    uint64_t seed = rng_seed();

    for (unsigned i = 0; i < 3 || time(NULL) < until; i++) {
        run(seed + i, 20);
    }
}
