/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keychain: whatever has become of the logs of a snapshot, no key that is in them is missed
 * silently: it is in the set, or there is a fault, or it followed a torn end.
 */
#include "lib/log/keychain.h"

#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/load.h"
#include "lib/base/mem.h"
#include "lib/format/encode.h"
#include "tests/lib/format/faults.h"
#include "tests/lib/format/files.h"
#include "tests/lib/log/unheard.h"

#define NOW 1700000000123

static void path_of(char out[400], const char *name)
{
    snprintf(out, 400, "%s/%s", folder, name);
}

static void put_file(const char *name, const void *bytes, size_t n)
{
    char path[400];

    path_of(path, name);
    (void)unlink(path); /* some file systems write rewritten files at once */
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static void put_log(uint64_t number, const void *bytes, size_t n)
{
    char name[KEYCHAIN_NAME_MAX];

    ck_assert(keychain_name(name, BASE, number));
    put_file(name, bytes, n);
}

static long size_of(uint64_t number)
{
    char name[KEYCHAIN_NAME_MAX];
    char path[400];
    struct stat st;

    ck_assert(keychain_name(name, BASE, number));
    path_of(path, name);
    return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

/* A log of blocks with `each` keys, numbered from `from` on. */
static void make_log(struct buf *out, uint64_t number, uint64_t from, unsigned blocks,
                     unsigned each)
{
    struct snap_header h = {
        .unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = CHAIN, .log = number};
    struct snap_encoder e;

    buf_clear(out);
    ck_assert(snap_encoder_begin(&e, file_append, out, &h, false));
    for (unsigned i = 0; i < blocks; i++) {
        for (unsigned k = 0; k < each; k++) {
            ck_assert(snap_put_key(&e, hash_key(1, &from, sizeof(from)), NOW + i));
            from++;
        }
        ck_assert(snap_encoder_send(&e, NOW + i));
    }
    snap_encoder_fini(&e);
}

/* Done often, where only what is in the file matters. */
static int no_fsync(int fd)
{
    return 0;
}

static enum keychain_end read_chain(struct keychain *c, uint64_t first, bool may_cut)
{
    const struct snap_header h = {.flags = SNAP_HAS_LOG, .chain = CHAIN, .log = first};

    static struct io_calls io;

    io = io_system;
    io.fsync = no_fsync;
    *c = (struct keychain){.io = &io, .dir = folder, .base = BASE, .may_cut = may_cut};
    return keychain_read(c, &h);
}

static void check_has(const struct keychain *c, uint64_t from, uint64_t until)
{
    for (; from < until; from++) {
        ck_assert(keyset_has(&c->set, hash_key(1, &from, sizeof(from))));
    }
}

TEST_FIXTURE(folder_make, remove_logs)

TEST(all_logs_are_read_from_the_first_on)
{
    struct buf log = {.base = NULL};
    struct keychain c;

    for (uint64_t n = 8; n <= 11; n++) {
        make_log(&log, n, n * 100, 3, 4);
        put_log(n, log.base, log.end);
    }
    ck_assert_int_eq(read_chain(&c, 9, true), KEYCHAIN_DONE);
    ck_assert_uint_eq(c.logs, 3);
    ck_assert_uint_eq(c.keys, 36);
    ck_assert_uint_eq(c.number, 11);
    ck_assert_uint_eq(c.bytes, 3 * log.end);
    ck_assert_int_eq(c.unix_ms, NOW + 2);
    ck_assert_uint_eq(c.cut_bytes, 0);
    ck_assert_uint_eq(c.set.seed, CHAIN);
    for (uint64_t n = 9; n <= 11; n++) {
        check_has(&c, n * 100, n * 100 + 12);
    }
    keychain_fini(&c);
    buf_fini(&log);
}

TEST(a_missing_one_is_a_fault)
{
    struct buf log = {.base = NULL};
    struct keychain c;

    ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_MISSING);
    ck_assert_uint_eq(c.number, 3);
    keychain_fini(&c);
    make_log(&log, 3, 0, 1, 1);
    put_log(3, log.base, log.end);
    make_log(&log, 5, 0, 1, 1);
    put_log(5, log.base, log.end);
    ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_MISSING);
    ck_assert_uint_eq(c.number, 4);
    keychain_fini(&c);
    /* A snapshot that was made without a log has none, until one is begun for it. */
    {
        struct snap_header h = {.chain = CHAIN, .log = 6};

        c = (struct keychain){.io = &io_system, .dir = folder, .base = BASE};
        ck_assert_int_eq(keychain_read(&c, &h), KEYCHAIN_DONE);
        ck_assert_uint_eq(c.logs, 0);
        keychain_fini(&c);
        h.log = 0;
        ck_assert_int_eq(keychain_read(&c, &h), KEYCHAIN_DONE);
        keychain_fini(&c);
    }
    buf_fini(&log);
}

TEST(that_of_another_snapshot_is_a_fault)
{
    struct snap_header h = {.flags = SNAP_IS_LOG, .chain = CHAIN, .log = 3};
    char bytes[SNAP_HEADER_BYTES];
    struct keychain c;

    for (unsigned i = 0; i < 3; i++) {
        struct snap_header other = h;

        other.version = other.least = 1;
        other.chain += i == 0;
        other.log += i == 1;
        other.flags = i == 2 ? 0 : other.flags;
        snap_header_put(bytes, &other);
        put_log(3, bytes, sizeof(bytes));
        ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_FOREIGN);
        keychain_fini(&c);
    }
}

/* The last one, cut at each byte; and one that is not the last. */
TEST(a_torn_end_is_cut_off)
{
    struct buf log = {.base = NULL};
    struct buf next = {.base = NULL};
    struct keychain c;
    size_t block = SNAP_BLOCK_BYTES + 2 * SNAP_KEY_BYTES;

    make_log(&log, 3, 0, 3, 2);
    make_log(&next, 4, 0, 1, 1);
    for (size_t n = 0; n < log.end; n++) {
        size_t whole = n < SNAP_HEADER_BYTES ? 0 : (n - SNAP_HEADER_BYTES) / block;
        size_t good = SNAP_HEADER_BYTES + whole * block;

        put_log(3, log.base, n);
        if (n < SNAP_HEADER_BYTES) {
            ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_BAD);
            keychain_fini(&c);
            continue;
        }
        ck_assert_int_eq(read_chain(&c, 3, false), n == good ? KEYCHAIN_DONE : KEYCHAIN_BAD);
        keychain_fini(&c);
        ck_assert_int_eq(size_of(3), (long)n);
        put_log(4, next.base, next.end);
        ck_assert_int_eq(read_chain(&c, 3, true), n == good ? KEYCHAIN_DONE : KEYCHAIN_BAD);
        ck_assert_int_eq(c.fault.kind, n == good ? SNAP_FINE : SNAP_FAULT_CUT);
        keychain_fini(&c);
        put_log(4, "", 0);
        remove_logs();
        folder_make();
        put_log(3, log.base, n);
        ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_DONE);
        ck_assert_uint_eq(c.cut_bytes, n - good);
        ck_assert_uint_eq(c.bytes, good);
        ck_assert_uint_eq(c.keys, whole * 2);
        check_has(&c, 0, whole * 2);
        keychain_fini(&c);
        ck_assert_int_eq(size_of(3), (long)good);
    }
    buf_fini(&log);
    buf_fini(&next);
}

TEST(a_flipped_bit_is_found)
{
    struct buf log = {.base = NULL};
    struct keychain c;
    size_t block = SNAP_BLOCK_BYTES + 2 * SNAP_KEY_BYTES;

    make_log(&log, 3, 0, 3, 2);
    size_t last = log.end - block;
    for (size_t n = 0; n < log.end * 8; n++) {
        log.base[n / 8] ^= (char)(1u << n % 8);
        put_log(3, log.base, log.end);
        enum keychain_end end = read_chain(&c, 3, true);
        if (n / 8 < last) {
            ck_assert_int_eq(end, KEYCHAIN_BAD);
        } else {
            /* The last block: as a torn end, or as a kind that is not known. */
            ck_assert(end == KEYCHAIN_BAD || (end == KEYCHAIN_DONE && c.cut_bytes == block));
            check_has(&c, 0, 4);
        }
        keychain_fini(&c);
        log.base[n / 8] ^= (char)(1u << n % 8);
    }
    buf_fini(&log);
}

/*
 * A log of six blocks of two keys, of which an fsync has covered the first three before the
 * fourth was written.
 */
#define BLOCKS 6
#define SYNCED 3
#define BLOCK  (SNAP_BLOCK_BYTES + 2 * SNAP_KEY_BYTES)

static size_t offset_of(unsigned block)
{
    return SNAP_HEADER_BYTES + block * BLOCK;
}

static void make_synced_log(struct buf *out)
{
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = CHAIN, .log = 3};
    struct snap_encoder e;
    uint64_t key = 0;

    buf_clear(out);
    ck_assert(snap_encoder_begin(&e, file_append, out, &h, false));
    for (unsigned i = 0; i < BLOCKS; i++) {
        e.shard = (uint32_t)(i * BLOCK - (i >= SYNCED ? SYNCED * BLOCK : 0));
        for (unsigned k = 0; k < 2; k++) {
            ck_assert(snap_put_key(&e, hash_key(1, &key, sizeof(key)), NOW + i));
            key++;
        }
        ck_assert(snap_encoder_send(&e, NOW + i));
    }
    ck_assert_uint_eq(out->end, offset_of(BLOCKS));
    snap_encoder_fini(&e);
}

/* What is left of it when these blocks were damaged: cut before the first, or not accepted. */
static void check_damaged(const struct buf *log, size_t bytes, unsigned damaged)
{
    bool has_mark = false;
    unsigned first = 0;
    struct keychain c;

    while ((damaged & 1u << first) == 0) {
        first++;
    }
    for (unsigned i = SYNCED; i < BLOCKS; i++) {
        has_mark |= (damaged & 1u << i) == 0;
    }
    put_log(3, log->base, bytes);
    ck_assert_int_eq(read_chain(&c, 3, false), KEYCHAIN_BAD);
    keychain_fini(&c);
    if (first < SYNCED && has_mark) {
        ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_BAD);
        ck_assert_int_eq(size_of(3), (long)bytes);
    } else {
        ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_DONE);
        ck_assert_uint_eq(c.cut_bytes, bytes - offset_of(first));
        ck_assert_uint_eq(c.keys, first * 2);
        ck_assert_int_eq(size_of(3), (long)offset_of(first));
    }
    keychain_fini(&c);
}

/* After a loss of power: any blocks may be missing, with or without zeros after the end. */
TEST(what_was_not_synced_may_have_holes)
{
    struct buf good = {.base = NULL};
    struct buf log = {.base = NULL};

    make_synced_log(&good);
    for (unsigned damaged = 1; damaged < 1u << BLOCKS; damaged++) {
        for (unsigned zeros = 0; zeros <= 5000; zeros += 2500) {
            make_synced_log(&log);
            for (unsigned i = 0; i < BLOCKS; i++) {
                if ((damaged & 1u << i) != 0) {
                    memset(log.base + offset_of(i), 0, BLOCK);
                }
            }
            for (unsigned i = 0; i < zeros; i++) {
                ck_assert(buf_append(&log, "", 1));
            }
            check_damaged(&log, log.end, damaged);
        }
    }
    /* A hole begins and ends anywhere: half of a header is no kind that is not known. */
    for (size_t at = 0; at < BLOCK; at++) {
        for (unsigned i = 0; i + 1 < BLOCKS; i++) {
            make_synced_log(&log);
            memset(log.base + offset_of(i) + at, 0, BLOCK);
            if (memcmp(log.base + offset_of(i), good.base + offset_of(i), BLOCK) != 0) {
                check_damaged(&log, log.end, 1u << i | (at != 0 ? 2u << i : 0));
            }
        }
    }
    buf_fini(&good);
    buf_fini(&log);
}

/* A block is of a kind that this does not know: no disk has done that. */
TEST(another_kind_is_no_torn_end)
{
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = CHAIN, .log = 3};
    const struct snap_block b = {.kind = 99, .raw = 8, .stored = 8};
    struct buf log = {.base = NULL};
    char block[SNAP_BLOCK_BYTES + 8] = {0};
    struct snap_encoder e;
    struct keychain c;

    ck_assert(snap_encoder_begin(&e, file_append, &log, &h, false));
    ck_assert(snap_put_block(&e, &b, block));
    put_log(3, log.base, log.end);
    ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_BAD);
    ck_assert_int_eq(c.fault.kind, SNAP_FAULT_KIND);
    keychain_fini(&c);
    snap_encoder_fini(&e);
    buf_fini(&log);
}

/* A client stores heads of blocks: behind a hole they are looked at, and not believed. */
TEST(what_clients_store_is_no_block)
{
    struct buf good = {.base = NULL};
    struct buf log = {.base = NULL};
    char fake[2 * SNAP_BLOCK_BYTES] = "MfBK\3";
    const char zeros[1000] = {0};
    struct keychain c;

    make_synced_log(&good);
    store_le32(fake + 8, 200000);  /* raw */
    store_le32(fake + 12, 200000); /* stored */
    store_le32(fake + 16, 25000);  /* items */
    ck_assert(buf_append(&log, good.base, offset_of(SYNCED)));
    ck_assert(buf_append(&log, zeros, sizeof(zeros)));
    for (unsigned i = 0; i < 5000; i++) {
        store_le64(fake + 32, SYNCED + 1 + i % 3);
        ck_assert(buf_append(&log, fake, sizeof(fake)));
    }
    size_t bytes = log.end;
    put_log(3, log.base, bytes);
    ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_DONE);
    ck_assert_uint_eq(c.cut_bytes, bytes - offset_of(SYNCED));
    ck_assert_uint_eq(c.keys, 2 * SYNCED);
    keychain_fini(&c);
    buf_fini(&good);
    buf_fini(&log);
}

/* The reader makes it durable: its writer may have been killed. */
TEST(what_was_read_is_made_durable)
{
    const struct snap_header h = {.flags = SNAP_HAS_LOG, .chain = CHAIN, .log = 3};
    struct buf log = {.base = NULL};

    memset(&faults, 0, sizeof(faults));
    make_log(&log, 3, 0, 1, 1);
    put_log(3, log.base, log.end);
    make_log(&log, 4, 0, 1, 1);
    put_log(4, log.base, log.end);
    struct keychain c = (struct keychain){.io = &io_faulty, .dir = folder, .base = BASE};
    ck_assert_int_eq(keychain_read(&c, &h), KEYCHAIN_DONE);
    ck_assert_uint_eq(faults.count[FAULT_FSYNC], 1);
    keychain_fini(&c);
    faults.call = FAULT_FSYNC;
    faults.nth = 2;
    faults.error = EIO;
    ck_assert_int_eq(keychain_read(&c, &h), KEYCHAIN_BAD);
    ck_assert_int_eq(c.fault.kind, SNAP_FAULT_READ);
    keychain_fini(&c);
    buf_fini(&log);
}

TEST(names_are_numbered)
{
    static const char *const others[] = {BASE,
                                         BASE ".log.",
                                         BASE ".log.3x",
                                         BASE "2.log.9",
                                         "x" BASE ".log.9",
                                         BASE ".log.0",
                                         BASE ".log.18446744073709551619", /* 2^64 + 3 */
                                         BASE ".log.99999999999999999999999"};
    char name[KEYCHAIN_NAME_MAX];
    char path[400];
    char base[300];
    uint64_t highest;
    uint64_t count;

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        put_file(others[i], "", 0);
    }
    ck_assert_int_eq(keychain_find(folder, BASE, &highest, &count), 0);
    ck_assert_uint_eq(highest, 0);
    put_log(2, "", 0);
    put_log(10, "", 0);
    put_log(9, "", 0);
    put_file("." BASE ".log.11.new", "", 0);
    ck_assert_int_eq(keychain_find(folder, BASE, &highest, &count), 0);
    ck_assert_uint_eq(highest, 10);
    ck_assert_uint_eq(count, 3);
    ck_assert_int_eq(keychain_remove(&io_system, folder, BASE, 10), 0);
    ck_assert_int_eq(size_of(2), -1);
    ck_assert_int_eq(size_of(9), -1);
    ck_assert_int_eq(size_of(10), 0);
    path_of(path, "." BASE ".log.11.new");
    ck_assert_int_ne(access(path, F_OK), 0);
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        path_of(path, others[i]);
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_int_ne(keychain_find("/nonexistent", BASE, &highest, &count), 0);
    memset(base, 'x', sizeof(base));
    base[sizeof(base) - 1] = '\0';
    ck_assert(!keychain_name(name, base, 1));
}

/* The latest that any of it was written, wherever the clock was set back. */
TEST(the_latest_time_counts)
{
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = CHAIN, .log = 3};
    struct buf log = {.base = NULL};
    struct snap_encoder e;
    struct keychain c;

    ck_assert(snap_encoder_begin(&e, file_append, &log, &h, false));
    ck_assert(snap_put_key(&e, 1, NOW + 900));
    ck_assert(snap_encoder_send(&e, NOW + 900));
    ck_assert(snap_put_key(&e, 2, NOW - 900));
    ck_assert(snap_encoder_send(&e, NOW - 900));
    put_log(3, log.base, log.end);
    ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_DONE);
    ck_assert_int_eq(c.unix_ms, NOW + 900);
    keychain_fini(&c);
    snap_encoder_fini(&e);
    buf_fini(&log);
}

/* Two keys, a block that is not there, and one that says that all before it was durable. */
static void check_hole(size_t bytes, const struct snap_block *after, char *block)
{
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = CHAIN, .log = 3};
    struct buf log = {.base = NULL};
    char *zeros = mem_zalloc(bytes);
    struct snap_encoder e;
    struct keychain c;

    ck_assert(snap_encoder_begin(&e, file_append, &log, &h, false));
    ck_assert(snap_put_key(&e, 1, NOW) && snap_put_key(&e, 2, NOW));
    ck_assert(snap_encoder_send(&e, NOW));
    ck_assert(buf_append(&log, zeros, bytes));
    e.number++;
    ck_assert(snap_put_block(&e, after, block));
    put_log(3, log.base, log.end);
    ck_assert_int_eq(read_chain(&c, 3, true), KEYCHAIN_BAD);
    ck_assert_int_eq(size_of(3), (long)log.end); /* nothing is cut */
    keychain_fini(&c);
    snap_encoder_fini(&e);
    mem_free(zeros);
    buf_fini(&log);
}

/* The search reads 64 KiB at a time: a block may begin anywhere, also across the boundary. */
TEST_LOOP(a_block_after_a_hole_is_found_anywhere, 8)
{
    const struct snap_block after = {.kind = SNAP_KEYS, .items = 1, .raw = 8, .stored = 8};
    char block[SNAP_BLOCK_BYTES + SNAP_KEY_BYTES] = {0};

    check_hole((64u << 10) - 4 + (unsigned)_i, &after, block);
}

/* Also if the block goes on with a value that began in the hole. */
TEST(a_part_after_a_hole_is_found)
{
    const struct snap_block after = {.kind = SNAP_VALUE, .raw = 16, .stored = 16};
    char block[SNAP_BLOCK_BYTES + 16] = {0};

    check_hole(1000, &after, block);
}

static int gone_already(int dir, const char *name)
{
    (void)io_system.unlink_at(dir, name);
    errno = ENOENT;
    return -1;
}

static int not_permitted(int dir, const char *name)
{
    errno = EACCES;
    return -1;
}

/* Another process may have removed a log; a failed removal is reported. */
TEST(what_is_gone_is_removed)
{
    struct io_calls io = io_system;

    put_log(2, "", 0);
    io.unlink_at = not_permitted;
    ck_assert_int_eq(keychain_remove(&io, folder, BASE, 3), EACCES);
    io.unlink_at = gone_already;
    ck_assert_int_eq(keychain_remove(&io, folder, BASE, 3), 0);
    ck_assert_int_eq(size_of(2), -1);
}

/* Nothing can be read from the folder any more. */
static int lose_folder(int dir, const char *name)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)name;
    ck_assert_int_eq(dup2(null, dir), dir);
    return close(null);
}

TEST(a_folder_that_is_not_read_to_its_end_is_a_fault)
{
    struct io_calls io = io_system;

    put_log(2, "", 0);
    io.unlink_at = lose_folder;
    ck_assert_int_eq(keychain_remove(&io, folder, BASE, 3), ENOTDIR);
}
