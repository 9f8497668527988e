/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system's calls: see io.h.
 */
#include "lib/snapshot/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int open_at(int dir, const char *name, int flags, unsigned mode)
{
    return openat(dir, name, flags, (mode_t)mode);
}

static int sync_range(int fd, int64_t offset, int64_t n, unsigned flags)
{
    return sync_file_range(fd, offset, n, flags);
}

static int rename_at(int dir, const char *from, const char *to)
{
    return renameat(dir, from, dir, to);
}

static int unlink_at(int dir, const char *name)
{
    return unlinkat(dir, name, 0);
}

const struct io_calls io_system = {
    .open_at = open_at,
    .write = write,
    .sync_range = sync_range,
    .fsync = fsync,
    .close = close,
    .rename_at = rename_at,
    .unlink_at = unlink_at,
};
