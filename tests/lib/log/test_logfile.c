/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * logfile: what is put is in the file, in order, whichever way it is written.
 */
#include "lib/log/logfile.h"

#include "lib/base/load.h"
#include "lib/base/mem.h"
#include "lib/format/decode.h"
#include "tests/lib/log/unheard.h"

#define MOST SNAP_RAW_MAX
#define LONG (64u * 1024)
#define KEYS (LONG / SNAP_KEY_BYTES)

static char *room;
static uint64_t keys;

/* How the file is written, and what is refused. */
static struct {
    bool is_direct, refuses_direct, refuses_writes;
    unsigned directs, buffered;
} calls;

static ssize_t note_write(int fd, const void *bytes, size_t n)
{
    if (calls.is_direct) {
        ck_assert_uint_eq((uintptr_t)bytes % NEWFILE_ALIGN, 0);
        ck_assert_uint_eq(n % NEWFILE_ALIGN, 0);
        ck_assert_int_eq(lseek(fd, 0, SEEK_CUR) % (off_t)NEWFILE_ALIGN, 0);
        if (calls.refuses_writes) {
            errno = EINVAL;
            return -1;
        }
    }
    calls.directs += calls.is_direct;
    calls.buffered += !calls.is_direct;
    return io_system.write(fd, bytes, n);
}

/* Without asking the file system, which may not have it. */
static int note_direct(int fd, bool is_direct)
{
    if (calls.refuses_direct) {
        errno = EINVAL;
        return -1;
    }
    calls.is_direct = is_direct;
    return 0;
}

static struct io_calls io;

static void set_up(void)
{
    folder_make();
    memset(&calls, 0, sizeof(calls));
    io = io_system;
    io.write = note_write;
    io.set_direct = note_direct;
    room = mem_alloc_aligned(LOGFILE_ROOM_BYTES, NEWFILE_ALIGN);
    keys = 0;
}

static void tear_down(void)
{
    mem_free(room);
    remove_logs();
}

TEST_FIXTURE(set_up, tear_down)

static void begin(struct logfile *f)
{
    ck_assert_int_eq(logfile_open(f, &io, folder, BASE, 0, CHAIN, 1), 0);
    calls.buffered = calls.directs = 0;
}

/* A block of this number of keys, which are numbers. */
static void put(struct logfile *f, uint32_t n, bool in_haste)
{
    const struct logfile_block block = {.b = {.kind = SNAP_KEYS,
                                              .items = n,
                                              .raw = n * SNAP_KEY_BYTES,
                                              .stored = n * SNAP_KEY_BYTES},
                                        .bytes = room};

    for (uint32_t i = 0; i < n; i++) {
        store_le64(room + SNAP_BLOCK_BYTES + (size_t)i * SNAP_KEY_BYTES, ++keys);
    }
    ck_assert_uint_eq(logfile_put(f, &block, 1, in_haste), 1);
}

static void end(struct logfile *f)
{
    const struct snap_header h = {.flags = SNAP_HAS_LOG, .chain = CHAIN, .log = 1};
    struct keychain c = {.io = &io_system, .dir = folder, .base = BASE};

    logfile_close(f);
    ck_assert_int_eq(keychain_read(&c, &h), KEYCHAIN_DONE);
    ck_assert_uint_eq(c.keys, keys);
    for (uint64_t i = 1; i <= keys; i++) {
        ck_assert(keyset_has(&c.set, i));
    }
    keychain_fini(&c);
}

TEST(long_blocks_go_past_the_memory_of_the_system)
{
    struct logfile f;

    begin(&f);
    put(&f, KEYS, false); /* behind the header, to where a page begins */
    ck_assert_uint_eq(f.file.bytes % NEWFILE_ALIGN, 0);
    for (uint32_t more = 0; more < 600; more += 20) {
        put(&f, KEYS + more, false);
    }
    put(&f, MOST / SNAP_KEY_BYTES, false);
    ck_assert_uint_eq(calls.buffered, 1);
    ck_assert_uint_eq(calls.directs, 31);
    end(&f);
}

/* Blocks of this size in bytes, with keys, in rooms that follow each other. */
static void begin_run(struct logfile_block *blocks, unsigned n, const uint32_t *bytes)
{
    char *rooms = mem_alloc_aligned(n * LOGFILE_ROOM_BYTES, NEWFILE_ALIGN);

    ck_assert_ptr_nonnull(rooms);
    for (unsigned i = 0; i < n; i++) {
        struct snap_block b = {.kind = SNAP_KEYS, .raw = bytes[i], .stored = bytes[i]};

        b.items = bytes[i] / SNAP_KEY_BYTES;
        blocks[i] =
            (struct logfile_block){.b = b, .bytes = rooms + (size_t)i * LOGFILE_ROOM_BYTES};
        for (uint32_t k = 0; k < b.items; k++) {
            store_le64(blocks[i].bytes + SNAP_BLOCK_BYTES + (size_t)k * SNAP_KEY_BYTES, ++keys);
        }
    }
}

TEST(blocks_that_fill_their_memory_take_one_write)
{
    static const uint32_t bytes[] = {MOST, MOST - 4096, MOST - 16, MOST / 2, MOST, LONG - 8};
    struct logfile_block blocks[6];
    struct logfile f;
    unsigned done = 0;

    begin(&f);
    put(&f, KEYS, false);
    begin_run(blocks, 6, bytes);
    calls.buffered = 0;
    unsigned n = logfile_put(&f, blocks, 6, false);
    ck_assert_uint_eq(n, 4); /* the fourth does not fill its memory */
    ck_assert_uint_eq(calls.directs, 1);
    ck_assert_uint_eq(f.file.bytes % NEWFILE_ALIGN, 0);
    for (done = n; done < 6; done += n) {
        n = logfile_put(&f, blocks + done, 6 - done, false);
        ck_assert_uint_eq(n, 1); /* the last is too short for it */
    }
    ck_assert_uint_eq(calls.directs, 2);
    ck_assert_uint_eq(calls.buffered, 1);
    /* Each tells what was written before it: nothing but the header is durable. */
    for (unsigned i = 1; i < 4; i++) {
        ck_assert_uint_eq(load_le32(blocks[i].bytes + 20) - load_le32(blocks[i - 1].bytes + 20),
                          LOGFILE_ROOM_BYTES);
    }
    mem_free(blocks[0].bytes);
    end(&f);
}

TEST(a_run_goes_through_the_system_if_the_disk_refuses_it)
{
    static const uint32_t bytes[] = {MOST, MOST, MOST};
    struct logfile_block blocks[3];
    struct logfile f;

    begin(&f);
    put(&f, KEYS, false);
    begin_run(blocks, 3, bytes);
    calls.refuses_writes = true;
    ck_assert_uint_eq(logfile_put(&f, blocks, 3, false), 3);
    ck_assert(f.is_buffered);
    mem_free(blocks[0].bytes);
    end(&f);
}

TEST(a_block_without_room_for_its_pad_has_none)
{
    struct logfile f;

    begin(&f);
    put(&f, KEYS, false);
    put(&f, 495, false);
    put(&f, MOST / SNAP_KEY_BYTES, false);
    ck_assert_uint_eq(f.file.bytes % NEWFILE_ALIGN, NEWFILE_ALIGN - 40);
    put(&f, MOST / SNAP_KEY_BYTES, false);
    ck_assert_uint_eq(f.file.bytes % NEWFILE_ALIGN, 8);
    put(&f, MOST / SNAP_KEY_BYTES, false);
    ck_assert_uint_eq(f.file.bytes % NEWFILE_ALIGN, 0);
    end(&f);
}

TEST(short_ones_and_those_in_haste_do_not)
{
    struct logfile f;

    begin(&f);
    put(&f, KEYS, false);
    put(&f, KEYS, true);
    put(&f, KEYS - 1, false);
    put(&f, KEYS, false);
    ck_assert_uint_eq(calls.directs, 0);
    put(&f, KEYS, false);
    ck_assert_uint_eq(calls.directs, 1);
    put(&f, 1, false);
    put(&f, MOST / SNAP_KEY_BYTES, true);
    ck_assert_uint_eq(calls.buffered, 6);
    put(&f, MOST / SNAP_KEY_BYTES, false);
    ck_assert_uint_eq(calls.directs, 2);
    end(&f);
}

/* It is tried once, and nothing is padded from then on. */
TEST_LOOP(a_file_system_may_refuse_it, 2)
{
    struct logfile f;

    calls.refuses_direct = _i == 0;
    calls.refuses_writes = _i == 1;
    begin(&f);
    for (unsigned i = 0; i < 5; i++) {
        put(&f, KEYS, false);
    }
    ck_assert_uint_eq(calls.directs, 0);
    ck_assert_uint_eq(calls.buffered, 5);
    uint64_t before = f.file.bytes;
    put(&f, KEYS, false);
    ck_assert_uint_eq(f.file.bytes, before + SNAP_BLOCK_BYTES + LONG);
    end(&f);
}

static ssize_t read_file(void *arg, void *out, size_t n, uint64_t offset)
{
    return pread(*(int *)arg, out, n, (off_t)offset);
}

/* A reader takes what a block says of the bytes before it for true: see keychain.h. */
TEST(a_block_tells_what_is_durable_and_what_fills_pages_does_not)
{
    static const enum snap_kind kinds[] = {SNAP_KEYS, SNAP_PAD, SNAP_KEYS, SNAP_PAD, SNAP_KEYS};
    struct snap_fault fault;
    struct snap_reader r;
    uint64_t synced = SNAP_HEADER_BYTES;
    struct logfile f;
    struct snap_block b;
    char path[sizeof(folder) + sizeof(f.name)];

    begin(&f);
    put(&f, KEYS, false);
    ck_assert(logfile_sync(&f));
    put(&f, KEYS, false);
    put(&f, 1, false);
    snprintf(path, sizeof(path), "%s/%s", folder, f.name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert(fd >= 0 && snap_reader_begin(&r, read_file, &fd, &fault));
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ck_assert_int_eq(snap_reader_next(&r, &b, &fault), SNAP_NEXT_BLOCK);
        ck_assert_int_eq(b.kind, kinds[i]);
        synced = i == 2 ? f.synced : synced;
        ck_assert_uint_eq(b.unsynced,
                          b.kind == SNAP_PAD ? SNAP_UNSYNCED_MAX : b.offset - synced);
    }
    close(fd);
    end(&f);
}

/* What fills a page is as long as needed, and at least a block. */
TEST(a_block_that_nearly_fills_its_page_is_filled_by_the_least)
{
    const uint64_t all = 17 * (uint64_t)NEWFILE_ALIGN;
    struct logfile f;

    begin(&f);
    put(&f, (uint32_t)((all - SNAP_HEADER_BYTES - 2 * SNAP_BLOCK_BYTES) / SNAP_KEY_BYTES),
        false);
    ck_assert_uint_eq(f.file.bytes, all);
    put(&f, KEYS, false);
    ck_assert_uint_eq(f.file.bytes, all + 17 * (uint64_t)NEWFILE_ALIGN);
    end(&f);
}

/* The last block says that all before it is durable, so it is written only if that is so. */
TEST(only_what_is_durable_is_sealed)
{
    struct logfile f;
    uint64_t bytes;

    begin(&f);
    put(&f, 10, false);
    bytes = f.file.bytes;
    logfile_seal(&f, 1);
    ck_assert_uint_eq(f.file.bytes, bytes);
    ck_assert(logfile_sync(&f));
    logfile_seal(&f, 1);
    ck_assert_uint_eq(f.file.bytes, bytes + SNAP_BLOCK_BYTES);
    end(&f);
}
