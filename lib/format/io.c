/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system's calls: see io.h.
 */
#include "lib/format/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int open_at(int dir, const char *name, int flags, unsigned mode)
{
    return openat(dir, name, flags, (mode_t)mode);
}

static int set_direct(int fd, bool is_direct)
{
    int flags = fcntl(fd, F_GETFL);
    struct stat st;

    if (flags < 0 || fstat(fd, &st) != 0) {
        return -1;
    }
    /* Those without a device of their own: one over a network waits for each write then. */
    if (is_direct && major(st.st_dev) == 0) {
        errno = EINVAL;
        return -1;
    }
    return fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT);
}

static int sync_range(int fd, int64_t offset, int64_t n, unsigned flags)
{
    return sync_file_range(fd, offset, n, flags);
}

static int truncate_to(int fd, int64_t bytes)
{
    return ftruncate(fd, bytes);
}

static int rename_at(int dir, const char *from, const char *to)
{
    return renameat(dir, from, dir, to);
}

static int unlink_at(int dir, const char *name)
{
    return unlinkat(dir, name, 0);
}

static int check_name(int fd, const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat own, named;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (fstat(fd, &own) != 0 || stat(path, &named) != 0) {
        return -1;
    }
    errno = ENOENT;
    return own.st_ino == named.st_ino && own.st_dev == named.st_dev ? 0 : -1;
}

const struct io_calls io_system = {
    .open_at = open_at,
    .write = write,
    .set_direct = set_direct,
    .sync_range = sync_range,
    .fsync = fsync,
    .truncate = truncate_to,
    .close = close,
    .rename_at = rename_at,
    .unlink_at = unlink_at,
    .check_name = check_name,
};
