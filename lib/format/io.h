/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls used to write a file, as a table, so that tests can make any of them fail.
 * Each returns what the system call returns, and sets errno.
 */
#ifndef MAYFLY_LIB_FORMAT_IO_H
#define MAYFLY_LIB_FORMAT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct io_calls {
    int (*open_at)(int dir, const char *name, int flags, unsigned mode);
    ssize_t (*write)(int fd, const void *bytes, size_t n);
    /*
     * Turn direct I/O, which bypasses the page cache, on or off. Fails where the file system
     * is not on a disk of this machine.
     */
    int (*set_direct)(int fd, bool is_direct);
    int (*sync_range)(int fd, int64_t offset, int64_t n, unsigned flags);
    int (*fsync)(int fd);
    int (*truncate)(int fd, int64_t bytes);
    int (*close)(int fd);
    int (*rename_at)(int dir, const char *from, const char *to);
    int (*unlink_at)(int dir, const char *name);
    /* Is the file that this descriptor is of the one of this name in the folder? ENOENT: no. */
    int (*check_name)(int fd, const char *dir, const char *name);
};

/* Those of the system. [const] */
extern const struct io_calls io_system;

#endif
