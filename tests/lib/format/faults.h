/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system's calls with a fault: the n-th of a kind fails, or is short.
 */
#ifndef MAYFLY_TESTS_LIB_FORMAT_FAULTS_H
#define MAYFLY_TESTS_LIB_FORMAT_FAULTS_H

#include <errno.h>
#include <stdbool.h>

#include "lib/format/io.h"

enum fault_call {
    FAULT_OPEN,
    FAULT_WRITE,
    FAULT_FSYNC,
    FAULT_CLOSE,
    FAULT_RENAME,
    FAULT_CALLS
};

/* What is to fail, and what was called: set by the test, which is one thread. */
static struct {
    enum fault_call call;
    unsigned nth; /* from 1; 0: nothing fails */
    int error;    /* 0: it is short instead (write) */
    unsigned count[FAULT_CALLS];
    unsigned fsync_after; /* calls of fsync after the one that failed */
} faults;

static inline bool fault_is_now(enum fault_call call)
{
    faults.count[call]++;
    if (faults.call == FAULT_FSYNC && call == FAULT_FSYNC && faults.nth != 0 &&
        faults.count[call] > faults.nth) {
        faults.fsync_after++;
    }
    if (faults.nth == 0 || faults.call != call || faults.count[call] != faults.nth) {
        return false;
    }
    errno = faults.error;
    return true;
}

static int fault_open(int dir, const char *name, int flags, unsigned mode)
{
    return fault_is_now(FAULT_OPEN) ? -1 : io_system.open_at(dir, name, flags, mode);
}

static ssize_t fault_write(int fd, const void *bytes, size_t n)
{
    if (fault_is_now(FAULT_WRITE)) {
        if (faults.error != 0) {
            return -1;
        }
        n = n / 2 + 1;
    }
    return io_system.write(fd, bytes, n);
}

static int fault_fsync(int fd)
{
    return fault_is_now(FAULT_FSYNC) ? -1 : io_system.fsync(fd);
}

static int fault_truncate(int fd, int64_t bytes)
{
    return io_system.truncate(fd, bytes);
}

static int fault_close(int fd)
{
    int result = io_system.close(fd);

    return fault_is_now(FAULT_CLOSE) ? -1 : result;
}

static int fault_rename(int dir, const char *from, const char *to)
{
    return fault_is_now(FAULT_RENAME) ? -1 : io_system.rename_at(dir, from, to);
}

static int fault_sync_range(int fd, int64_t offset, int64_t n, unsigned flags)
{
    return io_system.sync_range(fd, offset, n, flags);
}

static int fault_direct(int fd, bool is_direct)
{
    return io_system.set_direct(fd, is_direct);
}

static int fault_unlink(int dir, const char *name)
{
    return io_system.unlink_at(dir, name);
}

static int fault_name(int fd, const char *dir, const char *name)
{
    return io_system.check_name(fd, dir, name);
}

static const struct io_calls io_faulty = {
    .open_at = fault_open,
    .write = fault_write,
    .set_direct = fault_direct,
    .sync_range = fault_sync_range,
    .fsync = fault_fsync,
    .truncate = fault_truncate,
    .close = fault_close,
    .rename_at = fault_rename,
    .unlink_at = fault_unlink,
    .check_name = fault_name,
};

#endif
