/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save, load, newfile: what an engine holds comes back as it was; what is due or was
 * flushed does not; whatever fails, the old file stays.
 */
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/load.h"
#include "lib/engine/flush.h"
#include "lib/format/decode.h"
#include "lib/format/newfile.h"
#include "lib/format/pack.h"
#include "lib/ship/ship.h"
#include "lib/snapshot/behind.h"
#include "lib/snapshot/load.h"
#include "lib/snapshot/save.h"
#include "tests/common/folder.h"
#include "tests/lib/fixture.h"
#include "tests/lib/format/faults.h"

#define NAME "data"

static struct fixture f;
static char path[96];

static void make_folder(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/" NAME, folder);
    memset(&faults, 0, sizeof(faults));
}

/* Nothing but the file may be left. */
static void remove_folder(void)
{
    folder_remove_with(NAME);
}

static void start(unsigned shards, size_t mib)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = mib * MIB;
    cfg.item_size_max = mib * MIB / 4;
    fixture_start_threaded(&f, &cfg);
}

static enum save_end save_as(struct save *s)
{
    s->engine = &f.engine;
    s->io = s->io != NULL ? s->io : &io_system;
    s->dir = folder;
    s->name = NAME;
    return save_run(s);
}

static enum load_end load_as(struct load *l)
{
    struct load_file file;

    ck_assert(load_open(&file, path));
    l->engine = &f.engine;
    l->file = &file;
    l->threads = l->threads != 0 ? l->threads : 1;
    enum load_end end = load_run(l);
    load_close(&file);
    return end;
}

static void save_well(void)
{
    struct save s = {.error = 0};

    ck_assert_int_eq(save_as(&s), SAVE_DONE);
}

TEST_FIXTURE(make_folder, remove_folder)

TEST_LOOP(what_is_saved_is_loaded, 4)
{
    static const size_t lengths[] = {0, 1, 100, 5000, 20000, 300000, 3000000};
    struct save s = {.is_packed = _i >= 2 && pack_is_there()};
    struct load l = {.threads = 1 + (unsigned)_i % 2 * 2};
    unsigned items = 0;

    start(2, 64);
    for (unsigned i = 0; i < 2000; i++) {
        fixture_set(&f, fixture_key("small", i), i % 700);
        items++;
    }
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fixture_set(&f, fixture_key("long", i), lengths[i]);
        items++;
    }
    ck_assert_int_eq(save_as(&s), SAVE_DONE);
    ck_assert_uint_eq(s.items, items);
    ck_assert_uint_eq(s.left_out, 0);
    fixture_stop(&f);

    start(3, 96);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_uint_eq(l.counts.items, items);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), items);
    for (unsigned i = 0; i < 2000; i++) {
        fixture_check(&f, fixture_key("small", i), i % 700);
    }
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fixture_check(&f, fixture_key("long", i), lengths[i]);
    }
}

TEST(an_item_keeps_flags_cas_deadline_marks_and_use)
{
    struct put put = {.key = "a", .ptr = "value", .len = 5, .flags = 0xdeadbeef};
    struct erase stale = {.marks_stale = true};
    struct load l = {.threads = 1};

    start(1, 16);
    put.deadline = fixture_now(&f) + 123457;
    ck_assert_int_eq(fixture_store(&f, &put, NULL), OUT_STORED);
    ck_assert_int_eq(fixture_erase(&f, "a", &stale), OUT_DELETED);
    struct got was = fixture_use(&f, "a", 2);
    ck_assert(was.is_stale);
    put.key = "idle";
    ck_assert_int_eq(fixture_store(&f, &put, NULL), OUT_STORED);
    clock_advance(&f.engine.clock, 77000);
    int64_t unix_ms = clock_to_unix_ms(&f.engine.clock, was.deadline);
    save_well();
    fixture_stop(&f);

    start(1, 16);
    clock_advance(&f.engine.clock, 100000);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    uint32_t idle_s =
        (uint32_t)(fixture_now(&f) / 1000) -
        item_access_s(fixture_get(&f, "idle").item, (uint32_t)(fixture_now(&f) / 1000));
    ck_assert_uint_eq(idle_s, 77);
    put.key = "a";
    struct got is = fixture_get(&f, "a");
    ck_assert(is.is_hit && is.is_stale && !is.is_won && is.was_fetched);
    ck_assert_uint_eq(is.flags, 0xdeadbeef);
    ck_assert_uint_eq(is.cas, was.cas);
    ck_assert_int_eq(clock_to_unix_ms(&f.engine.clock, is.deadline), unix_ms);
    /* A value that is stored now is newer. */
    ck_assert_int_eq(fixture_store(&f, &put, NULL), OUT_STORED);
    ck_assert_uint_gt(fixture_get(&f, "a").cas, was.cas);
    put.key = "b";
    ck_assert_int_eq(fixture_store(&f, &put, NULL), OUT_STORED);
    ck_assert_uint_gt(fixture_get(&f, "b").cas, was.cas);
}

TEST(loaded_as_stale)
{
    struct load l = {.threads = 1, .marks_stale = true};

    start(1, 16);
    fixture_set(&f, "a", 10);
    fixture_set(&f, "long", 2 * MIB);
    save_well();
    fixture_stop(&f);
    start(1, 16);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert(fixture_get(&f, "a").is_stale);
    ck_assert(fixture_get(&f, "long").is_stale);
}

TEST(what_is_due_is_neither_saved_nor_loaded)
{
    struct save s = {.error = 0};
    struct load l = {.threads = 1};

    start(1, 16);
    fixture_set_until(&f, "due", 10, fixture_now(&f) + 10);
    fixture_set_until(&f, "soon", 10, fixture_now(&f) + 1000);
    fixture_set_until(&f, "soon-long", MIB, fixture_now(&f) + 1000);
    fixture_set_until(&f, "later", 10, fixture_now(&f) + 100000);
    clock_advance(&f.engine.clock, 10);
    ck_assert_int_eq(save_as(&s), SAVE_DONE);
    ck_assert_uint_eq(s.items, 3);
    ck_assert_uint_eq(s.expired, 1);
    fixture_stop(&f);

    start(1, 16);
    clock_advance(&f.engine.clock, 5000);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_uint_eq(l.counts.items, 1);
    ck_assert_uint_eq(l.counts.expired, 2);
    ck_assert(fixture_has(&f, "later") && !fixture_has(&f, "soon"));
}

TEST_LOOP(a_flush_to_come_is_saved, 2)
{
    struct load l = {.threads = 1};

    start(2, 16);
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f) + 50000);
    save_well();
    fixture_stop(&f);
    start(2, 16);
    clock_advance(&f.engine.clock, _i == 0 ? 1000 : 60000);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_int_eq(fixture_has(&f, "a"), _i == 0);
    clock_advance(&f.engine.clock, 60000);
    ck_assert(!fixture_has(&f, "a"));
}

/* A clock that has gone back since does not lengthen any life, nor does it give a cas again. */
TEST_LOOP(nothing_lives_longer_when_the_clock_has_gone_back, 2)
{
    struct load l = {.threads = 2};
    struct load_file file;

    start(2, 16);
    fixture_set_until(&f, "short", 10, fixture_now(&f) + 20000);
    fixture_set_until(&f, "short-long", MIB, fixture_now(&f) + 20000);
    fixture_set_until(&f, "long", 10, fixture_now(&f) + 90000);
    fixture_flush(&f, fixture_now(&f) + 60000);
    save_well();
    uint64_t next = (uint64_t)clock_unix_ms(&f.engine.clock) << 16;
    fixture_stop(&f);

    start(2, 16);
    clock_step_wall(&f.engine.clock, -3600000);
    ck_assert(load_open(&file, path));
    l.engine = &f.engine;
    l.file = &file;
    ck_assert(_i == 0 || load_beside(&l));
    ck_assert_int_eq(load_run(&l), LOAD_DONE);
    load_close(&file);
    ck_assert_uint_eq(l.counts.items, 3);
    ck_assert_int_gt(l.behind_ms, 3500000);
    ck_assert_uint_gt(f.engine.group.cas_next, next);
    ck_assert(fixture_has(&f, "short") && fixture_has(&f, "short-long"));
    clock_advance(&f.engine.clock, 20000);
    ck_assert(!fixture_has(&f, "short") && !fixture_has(&f, "short-long"));
    ck_assert(fixture_has(&f, "long"));
    clock_advance(&f.engine.clock, 40000);
    ck_assert(!fixture_has(&f, "long"));
}

/* ---- to somebody else -------------------------------------------------------------------- */

struct stream {
    struct buf bytes;
    size_t limit; /* then writes fail; 0: never */
};

static bool stream_write(void *arg, const void *bytes, size_t n)
{
    struct stream *s = arg;

    return (s->limit == 0 || buf_len(&s->bytes) + n <= s->limit) &&
           buf_append(&s->bytes, bytes, n);
}

TEST(what_is_saved_may_go_elsewhere)
{
    struct stream out = {.limit = 0};
    struct save s = {.write = stream_write, .write_arg = &out};
    struct load l = {.threads = 1};

    out.bytes = (struct buf){0};
    start(2, 64);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    fixture_set(&f, "large", 400000);
    s.engine = &f.engine;
    ck_assert_int_eq(save_run(&s), SAVE_DONE);
    ck_assert_uint_eq(s.bytes, buf_len(&out.bytes));
    ck_assert_int_ne(access(path, F_OK), 0);
    fixture_stop(&f);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, buf_begin(&out.bytes), buf_len(&out.bytes)),
                     (ssize_t)buf_len(&out.bytes));
    close(fd);
    start(1, 64);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_uint_eq(l.counts.items, 3001);
    /* A sink that accepts no more ends it. */
    out.limit = 500000;
    buf_clear(&out.bytes);
    s.engine = &f.engine;
    ck_assert_int_eq(save_run(&s), SAVE_FAILED);
    ck_assert_uint_le(buf_len(&out.bytes), 500000);
    fixture_stop(&f);
    buf_fini(&out.bytes);
}

/* A flush is asked for when the first items of a file are written. */
struct flushing {
    struct stream stream;
    struct fixture *f;
    msec_t at; /* 0: no more */
};

static bool flushing_write(void *arg, const void *bytes, size_t n)
{
    struct flushing *w = arg;

    if (w->at != 0 && n > 10000) {
        fixture_flush(w->f, w->at);
        w->at = 0;
    }
    return stream_write(&w->stream, bytes, n);
}

static ssize_t stream_read(void *arg, void *out, size_t n, uint64_t offset)
{
    const struct buf *b = arg;
    size_t left = offset < buf_len(b) ? buf_len(b) - (size_t)offset : 0;

    n = n < left ? n : left;
    memcpy(out, buf_begin(b) + offset, n);
    return (ssize_t)n;
}

/* A flush to come is in a file once, and one that is asked for meanwhile as well. */
TEST_LOOP(each_flush_to_come_is_saved_once, 3)
{
    static const unsigned flushes[] = {0, 1, 2};
    struct flushing out = {.f = &f};
    struct save s = {.write = flushing_write, .write_arg = &out};
    struct snap_fault fault;
    struct snap_reader r;
    struct snap_block b;
    int64_t at[2] = {0};
    unsigned n = 0;

    out.stream.bytes = (struct buf){0};
    start(2, 64);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 300);
    }
    if (flushes[_i] >= 1) {
        fixture_flush(&f, fixture_now(&f) + 90000);
    }
    out.at = flushes[_i] == 2 ? fixture_now(&f) + 60000 : 0;
    s.engine = &f.engine;
    ck_assert_int_eq(save_run(&s), SAVE_DONE);
    ck_assert(snap_reader_begin(&r, stream_read, &out.stream.bytes, &fault));
    while (snap_reader_next(&r, &b, &fault) == SNAP_NEXT_BLOCK) {
        if (b.kind == SNAP_FLUSH) {
            ck_assert_uint_lt(n, 2);
            at[n++] =
                (int64_t)load_le64(buf_begin(&out.stream.bytes) + b.offset + SNAP_BLOCK_BYTES);
        }
    }
    ck_assert_uint_eq(n, flushes[_i]);
    ck_assert(n < 1 || at[0] == clock_unix_ms(&f.engine.clock) + 90000);
    ck_assert(n < 2 || at[1] == clock_unix_ms(&f.engine.clock) + 60000);
    fixture_stop(&f);
    buf_fini(&out.stream.bytes);
}

/* Shards come to know of a flush one after the other: the earliest counts. */
TEST_LOOP(the_earliest_flush_is_saved, 2)
{
    struct save s = {.error = 0};
    struct load l = {.threads = 1};

    start(2, 16);
    fixture_set(&f, "a", 10);
    fixture_flush(&f, fixture_now(&f) + 90000);
    atomic_store(&f.engine.shards[_i]->flush_at, fixture_now(&f) + 60000);
    int64_t unix_ms = clock_unix_ms(&f.engine.clock) + 60000;
    ck_assert_int_eq(save_as(&s), SAVE_DONE);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_int_eq(l.flush_unix_ms, unix_ms);
}

/* Another start, which serves while it loads what was saved. */
static void restart_beside(struct load *l, struct load_file *file)
{
    fixture_stop(&f);
    start(2, 64);
    ck_assert(load_open(file, path));
    l->engine = &f.engine;
    l->file = file;
    ck_assert(load_beside(l));
}

/* ---- loaded beside requests -------------------------------------------------------------- */

TEST_LOOP(what_was_deleted_meanwhile_is_not_loaded, 2)
{
    struct load l = {.threads = _i == 0 ? 1 : 3};
    struct load_file file;
    uint64_t cas;

    start(2, 64);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    fixture_set(&f, "large", 400000);
    fixture_set(&f, "gone", 400000);
    save_well();
    cas = fixture_get(&f, "k7").cas;
    restart_beside(&l, &file);
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i * 3)), OUT_NOT_FOUND);
    }
    ck_assert_int_eq(fixture_delete(&f, "gone"), OUT_NOT_FOUND);
    fixture_set(&f, "k1", 50);
    ck_assert_uint_gt(fixture_get(&f, "k1").cas, UINT64_C(1) << 40);
    ck_assert_int_eq(load_run(&l), LOAD_DONE);
    load_close(&file);
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert(i % 3 != 0 || !fixture_has(&f, fixture_key("k", i)));
    }
    ck_assert(!fixture_has(&f, "gone"));
    fixture_check(&f, "large", 400000);
    fixture_check(&f, "k1", 50);
    ck_assert_uint_ge(l.guard.turned, 1001);
    ck_assert_uint_eq(l.counts.items + l.guard.turned, 3001); /* k1 was there */
    ck_assert_uint_gt(l.counts.items, 1900);
    ck_assert_uint_eq(fixture_get(&f, "k7").cas, cas);
    /* The guard is gone: another load may come. */
    ck_assert(!f.engine.is_guarded);
}

TEST_LOOP(a_flush_ends_a_load_beside_requests, 3)
{
    struct load l = {.threads = 2};
    struct load_file file;

    start(2, 64);
    for (unsigned i = 0; i < 3000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    if (_i == 2) {
        fixture_flush(&f, fixture_now(&f) + 50000);
    }
    save_well();
    restart_beside(&l, &file);
    if (_i == 0) {
        fixture_flush(&f, fixture_now(&f));
    } else if (_i == 1) {
        fixture_flush(&f, fixture_now(&f) + 10);
        clock_advance(&f.engine.clock, 20);
    } else {
        clock_advance(&f.engine.clock, 60000); /* that of the file has come */
    }
    ck_assert_int_eq(load_run(&l), LOAD_FLUSHED);
    load_close(&file);
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)));
    }
}

/* A request has asked for another flush than the file has, which came later and counts. */
TEST_LOOP(a_flush_asked_for_beside_a_load_counts, 2)
{
    struct load l = {.threads = 1};
    struct load_file file;

    start(2, 64);
    fixture_set(&f, "old", 100);
    fixture_flush(&f, fixture_now(&f) + 50000);
    save_well();
    restart_beside(&l, &file);
    fixture_set(&f, "new", 100);
    if (_i == 0) { /* before that of the file */
        fixture_flush(&f, fixture_now(&f) + 1000);
        ck_assert_int_eq(load_run(&l), LOAD_DONE);
        ck_assert(fixture_has(&f, "old") && fixture_has(&f, "new"));
        clock_advance(&f.engine.clock, 1000);
    } else { /* that of the file has come */
        fixture_flush(&f, fixture_now(&f) + 70000);
        clock_advance(&f.engine.clock, 60000);
        ck_assert_int_eq(load_run(&l), LOAD_FLUSHED);
        ck_assert(!fixture_has(&f, "old"));
        fixture_set(&f, "new", 100);
        clock_advance(&f.engine.clock, 10000);
    }
    ck_assert(!fixture_has(&f, "old") && !fixture_has(&f, "new"));
    load_close(&file);
}

/* ---- while it is used -------------------------------------------------------------------- */

struct meddler {
    struct fixture *f;
    unsigned asked;
    bool flushes;
};

static bool meddle(void *arg)
{
    struct meddler *m = arg;

    if (m->asked++ == 1 && m->flushes) {
        fixture_flush(m->f, fixture_now(m->f));
    }
    return false;
}

static bool is_void(void *arg)
{
    const unsigned *calls = arg;

    (void)calls;
    return true;
}

TEST(a_flush_during_a_save_voids_it)
{
    struct meddler m = {.flushes = true};
    struct save s = {.is_void = meddle, .arg = &m};

    start(1, 64);
    m.f = &f;
    for (unsigned i = 0; i < 20000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    ck_assert_int_eq(save_as(&s), SAVE_FLUSHED);
    ck_assert_int_ne(access(path, F_OK), 0);
    s.is_void = is_void;
    ck_assert_int_eq(save_as(&s), SAVE_FLUSHED);
    ck_assert_int_ne(access(path, F_OK), 0);
}

static bool refuse(void *arg)
{
    return false;
}

static bool is_void_soon(void *arg)
{
    unsigned *calls_left = arg;

    *calls_left -= *calls_left != 0;
    return *calls_left == 0;
}

/* Values about as long as what is shipped at once; a save may end within each, or after it. */
TEST(a_value_of_about_a_block_is_saved_or_not)
{
    const size_t whole = SHIP_BYTES - SHIP_ITEM_BYTES - 2; /* with a key of two bytes */
    const size_t lengths[] = {whole, whole + 1, whole + 32, whole + 33, whole + SHIP_BYTES};
    struct save s = {.is_void = is_void_soon};
    struct load l = {.threads = 1};
    enum save_end end = SAVE_FLUSHED;

    start(1, 64);
    for (unsigned i = 0; i < 5; i++) {
        fixture_set(&f, fixture_key("l", i), lengths[i]);
    }
    for (unsigned calls = 1; end == SAVE_FLUSHED; calls++) {
        unsigned calls_left = calls;

        s.arg = &calls_left;
        end = save_as(&s);
    }
    ck_assert_int_eq(end, SAVE_DONE);
    fixture_stop(&f);
    start(1, 64);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    for (unsigned i = 0; i < 5; i++) {
        fixture_check(&f, fixture_key("l", i), lengths[i]);
    }
}

TEST(a_file_is_not_named_if_the_caller_refuses)
{
    struct save s = {.before_naming = refuse};

    start(1, 16);
    fixture_set(&f, "a", 10);
    ck_assert_int_eq(save_as(&s), SAVE_FLUSHED);
    ck_assert_int_ne(access(path, F_OK), 0);
}

/* ---- faults ------------------------------------------------------------------------------ */

/* Write something of this length through faults; returns the error. */
static int write_file(size_t len)
{
    struct newfile file;
    char *bytes = mem_zalloc(len);
    bool is_done = newfile_begin(&file, &io_faulty, folder, NAME) &&
                   newfile_write(&file, bytes, len) && newfile_sync(&file) &&
                   newfile_name(&file);

    newfile_end(&file);
    mem_free(bytes);
    ck_assert_int_eq(is_done, file.error == 0);
    return file.error;
}

static size_t file_len(void)
{
    struct stat st;

    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

TEST(a_call_that_fails_leaves_the_old_file)
{
    static const struct {
        enum fault_call call;
        unsigned nth;
        int error;
        bool is_new; /* it has its name by then */
    } cases[] = {
        {FAULT_OPEN, 1, EACCES, false},  {FAULT_OPEN, 2, ENOSPC, false},
        {FAULT_WRITE, 1, ENOSPC, false}, {FAULT_WRITE, 1, EIO, false},
        {FAULT_WRITE, 1, EINTR, true},   {FAULT_WRITE, 1, 0, true},
        {FAULT_FSYNC, 1, EIO, false},    {FAULT_FSYNC, 2, EIO, true},
        {FAULT_CLOSE, 1, EIO, false},    {FAULT_RENAME, 1, EIO, false},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int expected = cases[i].error == EINTR ? 0 : cases[i].error;

        memset(&faults, 0, sizeof(faults));
        ck_assert_int_eq(write_file(1000), 0);
        memset(&faults, 0, sizeof(faults));
        faults.call = cases[i].call;
        faults.nth = cases[i].nth;
        faults.error = cases[i].error;
        ck_assert_int_eq(write_file(3000), expected);
        ck_assert_uint_eq(file_len(), cases[i].is_new ? 3000 : 1000);
        ck_assert_uint_eq(faults.fsync_after, 0);
    }
}

/* Each write of a save fails once: the file before it stays. Also where a thread writes. */
TEST_LOOP(a_save_that_fails_anywhere_leaves_the_old_file, 2)
{
    struct behind *behind = _i == 1 ? behind_create() : NULL;
    enum save_end end = SAVE_FAILED;
    struct load l = {.threads = 1};
    unsigned n = 0;

    start(1, 32);
    fixture_set(&f, "old", 10);
    save_well();
    size_t len = file_len();
    fixture_set(&f, "new", 10);
    fixture_set(&f, "large", 2 * MIB);
    while (end != SAVE_DONE) {
        struct save s = {.io = &io_faulty, .behind = behind, .is_direct = behind != NULL};

        memset(&faults, 0, sizeof(faults));
        faults.call = FAULT_WRITE;
        faults.nth = ++n;
        faults.error = n % 2 == 0 ? ENOSPC : EIO;
        end = save_as(&s);
        if (end != SAVE_DONE) {
            ck_assert_int_eq(s.error, faults.error);
            ck_assert_uint_eq(faults.count[FAULT_WRITE], n);
            ck_assert_uint_eq(faults.count[FAULT_FSYNC], 0);
            ck_assert_uint_eq(file_len(), len);
        }
    }
    ck_assert_uint_ge(n, _i == 1 ? 6 : 8);
    behind_destroy(&behind);
    fixture_stop(&f);
    start(1, 32);
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_uint_eq(l.counts.items, 3);
    fixture_check(&f, "large", 2 * MIB);
}

/* ---- bad files --------------------------------------------------------------------------- */

TEST(a_damaged_file_gives_what_stands_before)
{
    struct load l = {.threads = 2};
    char byte = 0;

    start(1, 64);
    for (unsigned i = 0; i < 20000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    save_well();
    fixture_stop(&f);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &byte, 1, (off_t)(file_len() - 5000)), 1);
    byte ^= 4;
    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)(file_len() - 5000)), 1);
    close(fd);
    start(1, 64);
    ck_assert_int_eq(load_as(&l), LOAD_BAD);
    ck_assert_int_eq(l.fault.kind, SNAP_FAULT_SUM);
    ck_assert_uint_gt(l.counts.items, 10000);
    ck_assert_uint_lt(l.counts.items, 20000);
}

/* What was flushed does not come back where the end of the file is missing. */
TEST_LOOP(a_flush_to_come_is_in_what_is_left_of_a_file, 2)
{
    struct load l = {.threads = 2};

    start(1, 64);
    for (unsigned i = 0; i < 10000; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    fixture_flush(&f, fixture_now(&f) + 50000);
    save_well();
    fixture_stop(&f);
    ck_assert_int_eq(truncate(path, (off_t)file_len() - 300000), 0);
    start(1, 64);
    clock_advance(&f.engine.clock, _i == 0 ? 1000 : 60000);
    ck_assert_int_eq(load_as(&l), LOAD_BAD);
    ck_assert_int_eq(l.counts.items != 0, _i == 0);
    clock_advance(&f.engine.clock, 60000);
    for (unsigned i = 0; i < 10000; i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)));
    }
}

TEST(what_cannot_be_read_is_said)
{
    struct load_file file;

    ck_assert(!load_open(&file, path));
    ck_assert_int_eq(file.fault.kind, SNAP_FAULT_READ);
    ck_assert_uint_eq(file.fault.number, ENOENT);
    ck_assert(!load_open(&file, folder));
    ck_assert_uint_eq(file.fault.number, EISDIR);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!load_open(&file, path));
    ck_assert_uint_eq(file.fault.number, EINVAL);
}

/* A file that holds more than fits: what fits is loaded, and nothing waits for ever. */
TEST(more_than_fits_is_loaded_as_far_as_it_fits)
{
    struct load l = {.threads = 1};

    start(1, 64);
    for (unsigned i = 0; i < 30000; i++) {
        fixture_set(&f, fixture_key("k", i), 1000);
    }
    fixture_set(&f, "large", 7 * MIB);
    save_well();
    fixture_stop(&f);
    {
        struct engine_config cfg;

        fixture_config(&cfg);
        fixture_start_threaded(&f, &cfg);
    }
    ck_assert_int_eq(load_as(&l), LOAD_DONE);
    ck_assert_uint_eq(l.counts.items + l.counts.refused, 30001);
    ck_assert_uint_ge(l.counts.refused, 1); /* the large one */
    ck_assert_uint_gt(fixture_counter(&f, CTR_curr_items), 3000);
}
