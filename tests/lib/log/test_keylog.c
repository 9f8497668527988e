/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keylog: each key that changes after a log was begun is in it, or a notice says that it is
 * not, whatever fails.
 */
#include "lib/log/keylog.h"

#include <time.h>

#include "lib/base/clock.h"
#include "lib/format/format.h"
#include "lib/log/keychain.h"
#include "lib/log/keylog_parts.h"
#include "lib/shard/changes.h"
#include "tests/lib/fixture.h"
#include "tests/lib/format/faults.h"
#include "tests/lib/log/unheard.h"

static struct fixture f;
static struct keylog *l;
static _Atomic int gaps, gap_error, done;
static _Atomic bool behind, behind_ever;
static _Atomic bool base_stays; /* after a gap it cannot be removed */

static void make_folder(void)
{
    folder_make();
    memset(&faults, 0, sizeof(faults));
    gaps = gap_error = done = 0;
    base_stays = false;
}

static void on_gap(void *arg, int error)
{
    gap_error = error;
    if (!base_stays) {
        keylog_forget(*(struct keylog **)arg, UINT64_MAX);
    }
    gaps++;
}

static void on_slow(void *arg, uint64_t ms)
{
    ck_assert_uint_gt(ms, KEYLOG_SLOW_MS);
}

static _Atomic bool is_hanging;   /* writes do */
static _Atomic usec_t stopped_at; /* 0: the clock runs */
static _Atomic bool is_leaving;   /* the reader is to lose changes after its next blocks */

static bool is_reader(void)
{
    char name[16] = "";

    return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
           strcmp(name, "log reader") == 0;
}

usec_t __real_clock_mono_us(void);
usec_t __wrap_clock_mono_us(void);

usec_t __wrap_clock_mono_us(void)
{
    usec_t at = atomic_load(&stopped_at);

    if (is_leaving && is_reader() && logfill_put(&l->fill) != logfill_taken(&l->fill)) {
        is_leaving = false;
        keylog_on_gap(l, 0);
    }
    return at != 0 ? at : __real_clock_mono_us();
}

static void on_behind(void *arg, bool is_behind)
{
    if (is_behind && is_hanging) {
        stopped_at = clock_mono_us(); /* so that the log does not give up yet */
    }
    behind = is_behind;
    behind_ever |= is_behind;
}

static void on_done(void *arg)
{
    done++;
}

static void start(const struct io_calls *io, enum keylog_sync sync, uint64_t ring_bytes)
{
    struct keylog_config cfg = {
        .io = io,
        .dir = folder,
        .base = BASE,
        .on_gap = on_gap,
        .on_slow = on_slow,
        .on_behind = on_behind,
        .on_done = on_done,
        .arg = &l,
    };
    struct engine_config ecfg;

    fixture_config(&ecfg);
    ecfg.shards = 2;
    ecfg.limit_bytes = 32 * MIB;
    ecfg.ring_bytes = ring_bytes;
    fixture_start_threaded(&f, &ecfg);
    cfg.engine = &f.engine;
    ck_assert_int_eq(keylog_start(&l, &cfg, sync), MF_OK);
}

static void nap(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    nanosleep(&ms, NULL);
}

static void wait_gap(void)
{
    WAIT_UNTIL(gaps != 0);
}

static void read_back(struct keychain *c, uint64_t first)
{
    const struct snap_header h = {.flags = SNAP_HAS_LOG, .chain = CHAIN, .log = first};

    *c = (struct keychain){.io = &io_system, .dir = folder, .base = BASE};
    ck_assert_int_eq(keychain_read(c, &h), KEYCHAIN_DONE);
}

static bool has(const struct keychain *c, const char *key)
{
    return keyset_has(&c->set, keyset_hash(&c->set, span_of(key, strlen(key))));
}

TEST_FIXTURE(make_folder, remove_logs)

TEST(what_changes_is_in_it)
{
    struct keylog_info info;
    struct keychain c;

    start(&io_system, KEYLOG_SYNC_EVERYSEC, MIB);
    fixture_set(&f, "before", 10);
    fixture_set(&f, "deleted", 10);
    fixture_set(&f, "touched", 10);
    ck_assert(!keylog_is_on(l));
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 5, 0), 0);
    ck_assert(keylog_is_on(l));
    fixture_set(&f, "stored", 10);
    fixture_delete(&f, "deleted");
    fixture_touch(&f, "touched", fixture_now(&f) + 1000);
    fixture_set(&f, "short", 10);
    keylog_settle(l);
    keylog_look(l, &info);
    ck_assert_uint_eq(info.all_bytes, info.bytes);
    uint64_t first_bytes = info.bytes;
    /* A new log: what is known of the old one is forgotten. */
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 6, 0), 0);
    fixture_set(&f, "stored", 10);
    keylog_settle(l);
    keylog_look(l, &info);
    ck_assert_uint_eq(info.number, 6);
    ck_assert_uint_eq(info.keys, 5);
    ck_assert_uint_eq(info.all_bytes, first_bytes + info.bytes);
    fixture_set(&f, "last", 10);
    keylog_stop(&l);
    read_back(&c, 5);
    ck_assert(has(&c, "stored") && has(&c, "deleted") && has(&c, "touched") &&
              has(&c, "short") && has(&c, "last"));
    ck_assert(!has(&c, "before"));
    keychain_fini(&c);
    read_back(&c, 6);
    ck_assert(has(&c, "stored") && has(&c, "last") && !has(&c, "deleted"));
    ck_assert_uint_eq(c.keys, 2);
    keychain_fini(&c);
    ck_assert_int_eq(gaps, 0);
}

TEST(many_keys_are_all_in_it)
{
    struct keychain c;

    start(&io_system, KEYLOG_SYNC_NO, 16 * MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    for (unsigned i = 0; i < 100000; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
        if (i % 5000 == 0) {
            fixture_set(&f, "often", i / 1000);
        }
    }
    keylog_stop(&l);
    ck_assert_int_eq(gaps, 0);
    read_back(&c, 1);
    for (unsigned i = 0; i < 100000; i++) {
        ck_assert(has(&c, fixture_key("k", i)));
    }
    ck_assert(has(&c, "often"));
    keychain_fini(&c);
}

/* Rings that are overrun: this is reported, and nothing is logged until a new log begins. */
TEST(an_overrun_is_a_gap)
{
    struct keylog_info info;

    start(&io_system, KEYLOG_SYNC_NO, 1);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    for (unsigned i = 0; gaps == 0; i++) {
        fixture_set(&f, fixture_key("k", i % 10000), 10);
    }
    ck_assert_int_eq(gap_error, 0);
    ck_assert(!keylog_is_on(l));
    ck_assert_uint_eq(keylog_ask(l), 0);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 2, 0), 0);
    keylog_look(l, &info);
    ck_assert(info.is_on && info.was_good);
    ck_assert_uint_eq(info.gaps, 1);
    keylog_stop(&l);
}

TEST(a_log_of_what_is_gone_is_closed)
{
    start(&io_system, KEYLOG_SYNC_NO, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 3), 0);
    keylog_forget(l, 3);
    ck_assert(keylog_is_on(l)); /* it is of that epoch */
    keylog_forget(l, 4);
    ck_assert(!keylog_is_on(l));
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 2, 4), 0);
    ck_assert(keylog_is_on(l));
    keylog_stop(&l);
    ck_assert_int_eq(gaps, 0);
}

/* Under ALWAYS a ticket is done once the file was synced. */
TEST(who_asks_waits_for_the_disk)
{
    struct keychain c;

    start(&io_faulty, KEYLOG_SYNC_ALWAYS, MIB);
    ck_assert_uint_eq(keylog_ask(l), 0); /* no log */
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    for (unsigned i = 0; i < 50; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
        uint64_t ticket = keylog_ask(l);
        ck_assert_uint_ne(ticket, 0);
        WAIT_UNTIL(keylog_is_done(l, ticket));
        read_back(&c, 1);
        ck_assert(has(&c, fixture_key("k", i)));
        keychain_fini(&c);
    }
    ck_assert_int_ge(done, 50);
    keylog_set_sync(l, KEYLOG_SYNC_EVERYSEC);
    ck_assert_uint_eq(keylog_ask(l), 0);
    keylog_stop(&l);
    ck_assert_uint_ge(faults.count[FAULT_FSYNC], 50);
}

/* EVERYSEC syncs by itself, NO only when the log ends. */
TEST_LOOP(once_a_second_or_when_the_system_wants_to, 2)
{
    struct keylog_info info;

    start(&io_faulty, _i == 0 ? KEYLOG_SYNC_NO : KEYLOG_SYNC_EVERYSEC, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    fixture_set(&f, "a", 10);
    keylog_settle(l);
    for (keylog_look(l, &info); _i == 1 && info.unsynced != 0; keylog_look(l, &info)) {
        nap();
    }
    ck_assert(_i == 1 || info.unsynced != 0);
    keylog_stop(&l);
    /* Of the file and of the folder when it was begun, of what is in it, and of its end. */
    ck_assert_uint_eq(faults.count[FAULT_FSYNC], 4);
}

/* What is left of a log that could not be begun would make that one no more the last. */
TEST(a_log_goes_on_as_the_last_if_the_next_cannot_begin)
{
    uint64_t highest = 0;
    uint64_t count = 0;

    start(&io_faulty, KEYLOG_SYNC_EVERYSEC, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    fixture_set(&f, "a", 10);
    keylog_settle(l);
    faults.call = FAULT_FSYNC;
    faults.error = EIO;
    faults.nth = faults.count[FAULT_FSYNC] + 3; /* the old file, the new one, the folder */
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 2, 0), EIO);
    ck_assert(keylog_is_on(l));
    ck_assert_int_eq(keychain_find(folder, BASE, &highest, &count), 0);
    ck_assert_uint_eq(highest, 1);
    keylog_stop(&l);
}

/* The n-th call of each kind fails: the log is not begun, or there is a gap, or it is whole. */
TEST(a_fault_is_told)
{
    static const struct {
        enum fault_call call;
        int error;
    } kinds[] = {{FAULT_WRITE, ENOSPC}, {FAULT_WRITE, EIO},   {FAULT_WRITE, 0},
                 {FAULT_FSYNC, EIO},    {FAULT_OPEN, ENFILE}, {FAULT_RENAME, EIO}};

    for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (unsigned nth = 1; nth <= 8; nth++) {
            bool may_fail = kinds[k].error != 0;
            struct keychain c;

            memset(&faults, 0, sizeof(faults));
            faults.call = kinds[k].call;
            faults.nth = nth;
            faults.error = kinds[k].error;
            gaps = 0;
            start(&io_faulty, KEYLOG_SYNC_ALWAYS, MIB);
            int begun = keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0);
            ck_assert(begun == 0 || (may_fail && begun == kinds[k].error));
            for (unsigned i = 0; begun == 0 && i < 3; i++) {
                fixture_set(&f, fixture_key("k", i), 10);
                uint64_t ticket = keylog_ask(l);
                WAIT_UNTIL(keylog_is_done(l, ticket));
                if (i == 1 && keylog_is_on(l)) {
                    ck_assert(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 2, 0) == 0 || may_fail);
                }
            }
            ck_assert(gaps == 0 || (may_fail && gap_error == kinds[k].error));
            keylog_stop(&l);
            if (begun == 0 && gaps == 0) {
                read_back(&c, 1);
                for (unsigned i = 0; i < 3; i++) {
                    ck_assert(has(&c, fixture_key("k", i)));
                }
                keychain_fini(&c);
            }
            fixture_stop(&f);
            remove_logs();
            make_folder();
        }
    }
}

/* A gap ends what was asked: there is nothing left to wait for. */
TEST(nobody_waits_for_a_log_that_is_gone)
{
    faults.call = FAULT_WRITE;
    faults.nth = 2;
    faults.error = EIO;
    start(&io_faulty, KEYLOG_SYNC_ALWAYS, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    fixture_set(&f, "a", 10);
    uint64_t ticket = keylog_ask(l);
    wait_gap();
    WAIT_UNTIL(keylog_is_done(l, ticket));
    ck_assert_int_eq(gap_error, EIO);
    keylog_stop(&l);
}

static bool is_attached(void)
{
    pthread_mutex_lock(&l->mutex);
    const bool is = l->is_attached;
    pthread_mutex_unlock(&l->mutex);
    return is;
}

/*
 * Changes were lost while no log is open, and the reader leaves when it has put a value. The
 * writer takes the last blocks, few as they are: the next log begins only after a whole value.
 */
TEST(a_reader_that_leaves_holds_up_no_log)
{
    start(&io_system, KEYLOG_SYNC_EVERYSEC, 8 * MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_FULL, CHAIN, 1, 0), 0);
    keylog_forget(l, 1);
    WAIT_UNTIL(!is_attached());
    keylog_set_flag(&l->is_read, true);
    keylog_tell(l);
    WAIT_UNTIL(is_attached());
    is_leaving = true;
    fixture_set(&f, "large", MIB);
    WAIT_UNTIL(!is_leaving && !is_attached());
    WAIT_UNTIL(logfill_taken(&l->fill) == logfill_put(&l->fill));
    keylog_stop(&l);
}

/* ---- a log of states that does not keep up ----------------------------------------------- */

static ssize_t write_slowly(int fd, const void *bytes, size_t n)
{
    WAIT_UNTIL(!is_hanging);
    return io_system.write(fd, bytes, n);
}

/*
 * Change other keys until a notice comes; while more bytes than that wait, it has to come
 * without further changes. Names of keys are long, so that rings fill.
 */
static void set_until(const _Atomic int *told, const _Atomic bool *is, uint64_t most)
{
    char key[200];

    for (unsigned i = 0; *told == 0 && !*is; i++) {
        snprintf(key, sizeof(key), "%0190u", i % 20000);
        fixture_set(&f, key, 500);
        if (i % 100 == 0) {
            nap();
            WAIT_UNTIL(*told != 0 || *is || keylog_now(l).waiting_bytes < most);
        }
    }
}

/*
 * Then changes have to wait until it has caught up, and nothing is lost. But if
 * the disk takes nothing at all, nobody waits for ever.
 */
TEST_LOOP(who_changes_something_waits_for_one_that_is_behind, 2)
{
    struct io_calls io = io_system;
    struct keylog_info info;

    io.write = write_slowly;
    is_hanging = behind = behind_ever = false;
    start(&io, KEYLOG_SYNC_EVERYSEC, 8 * MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_FULL, CHAIN, 1, 0), 0);
    ck_assert_uint_eq(keylog_ask(l), 0);
    is_hanging = true;
    set_until(&gaps, &behind, 8 * MIB);
    ck_assert(behind && gaps == 0);
    uint64_t ticket = keylog_ask(l);
    ck_assert_uint_ne(ticket, 0);
    ck_assert(!keylog_is_done(l, ticket));
    stopped_at = 0;
    if (_i == 1) {
        WAIT_UNTIL(!behind);
        ck_assert_int_eq(gaps, 0);
        ck_assert_uint_eq(keylog_ask(l), 0);
        set_until(&gaps, &behind, UINT64_MAX);
        ck_assert_int_eq(gaps, 1);
    }
    is_hanging = false;
    WAIT_UNTIL(keylog_is_done(l, ticket) && !behind);
    keylog_look(l, &info);
    ck_assert_uint_eq(info.behind, 1);
    ck_assert_int_eq(gaps, _i);
    keylog_stop(&l);
}

/* ---- a base that cannot be removed ------------------------------------------------------- */

static int sync_never(int fd)
{
    errno = EIO;
    return gap_error == 0 && is_hanging ? -1 : 0;
}

/* With ALWAYS, also for what is changed after the gap. Of another policy nobody does. */
TEST_LOOP(changes_wait_until_the_base_of_a_gap_is_gone, 2)
{
    struct io_calls io = io_system;

    io.fsync = sync_never;
    is_hanging = false;
    base_stays = true;
    start(&io, KEYLOG_SYNC_ALWAYS, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 3), 0);
    is_hanging = true;
    fixture_set(&f, "a", 10);
    uint64_t before = keylog_ask(l);
    wait_gap();
    ck_assert(keylog_is_void(l) && !keylog_is_on(l));
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 2, 3), EBUSY);
    uint64_t made = changes_made();
    fixture_set(&f, "b", 10);
    ck_assert_uint_ne(changes_made(), made); /* a thread that made a change knows it */
    uint64_t after = keylog_ask(l);
    ck_assert_uint_ne(after, 0);
    keylog_forget(l, 3);
    for (unsigned i = 0; i < 20; i++) {
        nap();
    }
    ck_assert(!keylog_is_done(l, before) && !keylog_is_done(l, after));
    if (_i == 0) {
        keylog_forget(l, 4);
        ck_assert(!keylog_is_void(l));
    } else {
        keylog_set_sync(l, KEYLOG_SYNC_EVERYSEC);
    }
    ck_assert(keylog_is_done(l, before) && keylog_is_done(l, after));
    ck_assert_uint_eq(keylog_ask(l), 0);
    is_hanging = false;
    if (_i == 0) {
        ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 2, 4), 0);
        keylog_void(l);
        ck_assert(!keylog_is_void(l)); /* its log is open */
    }
    keylog_stop(&l);
}

/* ---- an fsync that hangs ----------------------------------------------------------------- */

static _Atomic int syncs, sync_error;

static int sync_slowly(int fd)
{
    syncs++;
    WAIT_UNTIL(!is_hanging);
    errno = sync_error;
    return sync_error != 0 ? -1 : io_system.fsync(fd);
}

/* The sync of each second delays no client, but its result is reported. */
TEST_LOOP(the_file_is_written_while_it_is_synced, 2)
{
    struct io_calls io = io_system;
    struct keylog_info info;

    io.fsync = sync_slowly;
    is_hanging = false;
    sync_error = 0;
    start(&io, KEYLOG_SYNC_EVERYSEC, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 1, 0), 0);
    is_hanging = true;
    int before = syncs;
    fixture_set(&f, "a", 10);
    WAIT_UNTIL(syncs != before);
    fixture_set(&f, "b", 10);
    keylog_settle(l);
    keylog_look(l, &info);
    ck_assert_uint_ge(info.unsynced, 2 * (SNAP_BLOCK_BYTES + SNAP_KEY_BYTES));
    sync_error = _i == 0 ? 0 : EIO;
    is_hanging = false;
    if (_i == 0) {
        for (; info.unsynced != 0; keylog_look(l, &info)) {
            nap();
        }
        ck_assert_int_eq(syncs, before + 2);
    } else {
        wait_gap();
        ck_assert_int_eq(gap_error, EIO);
    }
    keylog_stop(&l);
    /* Of the two blocks, and of the end; never again after it has failed. */
    ck_assert_int_eq(syncs, _i == 0 ? before + 3 : before + 1);
    ck_assert_int_eq(gaps, _i);
}

static void *rotate(void *arg)
{
    *(int *)arg = keylog_rotate(l, KEYLOG_KEYS, CHAIN, 6, UINT64_MAX);
    return NULL;
}

/* A flush removes the snapshot and its log, and the next log begins. That is no gap. */
TEST(a_log_is_removed_while_it_is_synced)
{
    struct io_calls io = io_system;
    struct keychain c;
    pthread_t thread;
    int error = -1;

    io.fsync = sync_slowly;
    is_hanging = false;
    sync_error = 0;
    start(&io, KEYLOG_SYNC_ALWAYS, MIB);
    ck_assert_int_eq(keylog_rotate(l, KEYLOG_KEYS, CHAIN, 5, 0), 0);
    is_hanging = true;
    int before = syncs;
    fixture_set(&f, "a", 10);
    ck_assert_uint_ne(keylog_ask(l), 0);
    WAIT_UNTIL(syncs != before);
    keylog_forget(l, UINT64_MAX);
    ck_assert_int_eq(keychain_remove(&io_system, folder, BASE, 6), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, rotate, &error), 0);
    WAIT_UNTIL(!handoff_is_idle(&l->rotation));
    is_hanging = false;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(error, 0);
    fixture_set(&f, "b", 10);
    keylog_stop(&l);
    ck_assert_int_eq(gaps, 0);
    read_back(&c, 6);
    ck_assert(has(&c, "b"));
    keychain_fini(&c);
}
