/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims: see claim.h. A process without write access to a folder can only take a shared lock
 * on it. The lock covers the byte whose offset is the hash of the name. F_OFD_GETLK then tells
 * whether an exclusive lock would be refused, which means that another process holds a shared
 * one. If two processes do this at the same time, each may see the other, and both give up.
 */
#include "lib/snapshot/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/hash.h"

/* Any number will do that is the same everywhere. */
#define SEED 1

static bool is_taken(int fd, struct flock *byte)
{
    byte->l_type = F_WRLCK;
    return fcntl(fd, F_OFD_GETLK, byte) == 0 && byte->l_type != F_UNLCK;
}

int claim_take(const char *dir, const char *name)
{
    /* Not negative, and not the last offset, because the following byte is named too. */
    off_t at = (off_t)(hash_key(SEED, name, strlen(name)) >> 2);
    struct flock byte = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    if (fcntl(fd, F_OFD_SETLK, &byte) == 0 && is_taken(fd, &byte)) {
        close(fd);
        return -EBUSY;
    }
    return fd;
}
