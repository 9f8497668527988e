/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims: see claim.h. Whoever reads a folder can have a shared lock of it only, at the byte
 * that the hash of the name says. But he may ask whether an exclusive one could be had: not if
 * there is another shared one. Of two who come at the same time both may see each other.
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
    /* Not negative, nor the last one, as the byte behind it is named too. */
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
