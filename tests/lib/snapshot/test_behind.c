/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * behind: data handed over is in the file, or a fault is reported, with direct writes or not.
 */
#include "lib/snapshot/behind.h"

#include <sys/stat.h>

#include "lib/base/mem.h"
#include "lib/format/newfile.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

#define NAME "data"
#define MOST ((size_t)5 << 20)

static char path[80];

/* What was written, and how: set by the test while no thread is in a call. */
static struct {
    unsigned nth; /* this write fails; 0: none */
    int error;
    bool is_direct;
    bool refuses_direct; /* each write while it is */
    unsigned writes, directs, syncs;
} calls;

static ssize_t note_write(int fd, const void *bytes, size_t n)
{
    calls.writes++;
    if (calls.writes == calls.nth) {
        errno = calls.error;
        return -1;
    }
    if (calls.is_direct) {
        ck_assert_uint_eq((uintptr_t)bytes % NEWFILE_ALIGN, 0);
        ck_assert_uint_eq(n % NEWFILE_ALIGN, 0);
        if (calls.refuses_direct) {
            errno = EINVAL;
            return -1;
        }
        calls.directs++;
    }
    return io_system.write(fd, bytes, n);
}

/* Without asking the file system, which may not have it. */
static int note_direct(int fd, bool is_direct)
{
    calls.is_direct = is_direct;
    return 0;
}

static int note_sync_range(int fd, int64_t offset, int64_t n, unsigned flags)
{
    calls.syncs++;
    return io_system.sync_range(fd, offset, n, flags);
}

static struct io_calls io;
static char *pattern;

static void set_up(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/%s", folder, NAME);
    memset(&calls, 0, sizeof(calls));
    io = io_system;
    io.write = note_write;
    io.set_direct = note_direct;
    io.sync_range = note_sync_range;
    pattern = mem_alloc(MOST);
    for (size_t i = 0; i < MOST; i++) {
        pattern[i] = (char)(i * 2654435761u >> 13);
    }
}

static void tear_down(void)
{
    mem_free(pattern);
    folder_remove_with(NAME);
}

TEST_FIXTURE(set_up, tear_down)

/* So much of the pattern to a file, in pieces of this length. Returns the error. */
static int write_through(struct behind *b, size_t len, size_t piece, bool is_direct)
{
    struct newfile f;
    bool is_good = true;

    ck_assert(newfile_begin(&f, &io, folder, NAME));
    if (is_direct) {
        newfile_go_direct(&f);
    }
    behind_begin(b, &f);
    for (size_t at = 0; at < len && is_good; at += piece) {
        is_good = behind_write(b, pattern + at, piece < len - at ? piece : len - at);
    }
    ck_assert(behind_end(b) == (f.error == 0));
    ck_assert(f.error != 0 || is_good);
    ck_assert(f.error != 0 || f.bytes == len);
    ck_assert_int_eq(newfile_sync(&f) && newfile_name(&f), f.error == 0);
    newfile_end(&f);
    return f.error;
}

static void check_file(size_t len)
{
    char *have = mem_alloc(len + 1);
    int fd = open(path, O_RDONLY);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, have, len + 1, 0), (ssize_t)len);
    ck_assert_int_eq(memcmp(have, pattern, len), 0);
    close(fd);
    mem_free(have);
}

TEST(what_is_handed_over_is_written_in_its_order)
{
    static const size_t lens[] = {0,
                                  1,
                                  4096,
                                  BEHIND_BYTES - 1,
                                  BEHIND_BYTES,
                                  BEHIND_BYTES + 1,
                                  2 * BEHIND_BYTES,
                                  3 * BEHIND_BYTES + 5000,
                                  MOST};
    static const size_t pieces[] = {1000, 4096, 262192, MOST};
    struct behind *b = behind_create();

    ck_assert_ptr_nonnull(b);
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (unsigned j = 0; j < sizeof(pieces) / sizeof(pieces[0]); j++) {
            for (unsigned k = 0; k < 3; k++) {
                memset(&calls, 0, sizeof(calls));
                calls.refuses_direct = k == 2;
                ck_assert_int_eq(write_through(b, lens[i], pieces[j], k > 0), 0);
                check_file(lens[i]);
                if (k == 1) {
                    ck_assert_uint_eq(calls.directs != 0, lens[i] >= NEWFILE_ALIGN);
                } else {
                    ck_assert_uint_eq(calls.directs, 0);
                }
            }
        }
    }
    behind_destroy(&b);
    ck_assert_ptr_null(b);
    behind_destroy(&b);
}

TEST(a_write_that_fails_is_told_and_the_next_file_is_written)
{
    struct behind *b = behind_create();

    ck_assert_int_eq(write_through(b, 5000, 1000, false), 0);
    for (unsigned nth = 1; nth <= 4; nth++) {
        memset(&calls, 0, sizeof(calls));
        calls.nth = nth;
        calls.error = nth % 2 == 0 ? ENOSPC : EIO;
        ck_assert_int_eq(write_through(b, MOST, 100000, nth > 2), calls.error);
        ck_assert_uint_eq(calls.writes, nth);
        check_file(5000); /* the old one */
    }
    memset(&calls, 0, sizeof(calls));
    ck_assert_int_eq(write_through(b, 6000, 1000, false), 0);
    check_file(6000);
    behind_destroy(&b);
}

/* Only counted: nothing has to be on the disk. */
static ssize_t count_write(int fd, const void *bytes, size_t n)
{
    (void)fd;
    (void)bytes;
    return (ssize_t)n;
}

static int fail_sync_range(int fd, int64_t offset, int64_t n, unsigned flags)
{
    (void)fd;
    (void)offset;
    (void)n;
    errno = calls.error;
    return (flags & SYNC_FILE_RANGE_WAIT_AFTER) != 0 ? -1 : 0;
}

/* The system reports such an error once: a later fsync succeeds. */
TEST(an_error_that_comes_before_the_fsync_counts)
{
    static const int errors[] = {EIO, ENOSPC, ENOSYS};

    io.write = count_write;
    io.sync_range = fail_sync_range;
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct newfile f;

        calls.error = errors[i];
        ck_assert(newfile_begin(&f, &io, folder, NAME));
        while (f.bytes < 3 * NEWFILE_SYNC_BYTES && newfile_write(&f, pattern, MOST)) {
        }
        ck_assert_int_eq(f.error, errors[i] != ENOSYS ? errors[i] : 0);
        ck_assert_int_eq(newfile_sync(&f), errors[i] == ENOSYS);
        newfile_end(&f);
    }
}

/* By the system's own calls, whatever the file system makes of it. */
TEST(a_file_that_goes_past_the_memory_of_the_system)
{
    struct behind *b = behind_create();

    io = io_system;
    ck_assert_int_eq(write_through(b, MOST - 100, 50000, true), 0);
    check_file(MOST - 100);
    behind_destroy(&b);
}
