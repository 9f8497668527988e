/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic replacement of a file: see newfile.h.
 */
#include "lib/format/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static bool fails(struct newfile *f)
{
    if (f->error == 0) {
        f->error = errno != 0 ? errno : EIO;
    }
    return false;
}

static int open_folder(const struct io_calls *io, const char *dir)
{
    return io->open_at(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

bool newfile_begin(struct newfile *f, const struct io_calls *io, const char *dir,
                   const char *name)
{
    *f = (struct newfile){.io = io, .name = name, .dir = -1, .fd = -1};
    if (snprintf(f->temp, sizeof(f->temp), ".%s.new", name) >= (int)sizeof(f->temp)) {
        f->error = ENAMETOOLONG;
        return false;
    }
    f->dir = open_folder(io, dir);
    if (f->dir < 0) {
        return fails(f);
    }
    if (io->unlink_at(f->dir, f->temp) != 0 && errno != ENOENT) {
        fails(f);
        newfile_end(f);
        return false;
    }
    /*
     * Do not follow a link that another user may have put there; and no other user may read the
     * file.
     */
    f->fd = io->open_at(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        0600);
    if (f->fd < 0) {
        fails(f);
        newfile_end(f);
        return false;
    }
    return true;
}

/*
 * The system reports a disk error only once, so after this call an fsync may succeed although
 * bytes are lost. On systems without the call, the fsync does all the work.
 */
static void sync_range(struct newfile *f, uint64_t from, uint64_t to, unsigned flags)
{
    if (f->io->sync_range(f->fd, (int64_t)from, (int64_t)(to - from), flags) != 0 &&
        errno != ENOSYS && errno != EPERM) {
        fails(f);
    }
}

/*
 * Start writing the new bytes to the disk, and wait for the previous step, so that at most two
 * steps are in flight. This only starts the work early; durability comes from the fsync.
 */
static void hand_over(struct newfile *f)
{
    uint64_t from = f->synced;

    sync_range(f, from, f->bytes, SYNC_FILE_RANGE_WRITE);
    if (from != 0) {
        uint64_t before = from > NEWFILE_SYNC_BYTES ? from - NEWFILE_SYNC_BYTES : 0;

        sync_range(f, before, from,
                   SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                       SYNC_FILE_RANGE_WAIT_AFTER);
    }
    f->synced = f->bytes;
}

void newfile_go_direct(struct newfile *f)
{
    f->is_direct = f->bytes % NEWFILE_ALIGN == 0 && f->io->set_direct(f->fd, true) == 0;
}

void newfile_go_buffered(struct newfile *f)
{
    if (f->is_direct) {
        f->is_direct = false;
        f->synced = f->bytes;
        if (f->io->set_direct(f->fd, false) != 0) {
            fails(f);
        }
    }
}

/* Number of bytes that can be written at once. */
static size_t writable(struct newfile *f, const char *p, size_t n)
{
    size_t aligned = n - n % NEWFILE_ALIGN;

    if (!f->is_direct) {
        return n;
    }
    if (aligned != 0 && (uintptr_t)p % NEWFILE_ALIGN == 0 && f->bytes % NEWFILE_ALIGN == 0) {
        return aligned;
    }
    newfile_go_buffered(f); /* the rest is not aligned */
    return n;
}

bool newfile_write(struct newfile *f, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n != 0 && f->error == 0) {
        size_t part = writable(f, p, n);
        ssize_t done = f->error == 0 ? TEMP_FAILURE_RETRY(f->io->write(f->fd, p, part)) : -1;

        if (done < 0 && errno == EINVAL && f->is_direct) {
            newfile_go_buffered(f); /* the file system requires more alignment */
            continue;
        }
        if (done <= 0) {
            errno = done == 0 ? ENOSPC : errno;
            return fails(f);
        }
        p += done;
        n -= (size_t)done;
        f->bytes += (uint64_t)done;
    }
    if (f->error == 0 && !f->is_direct && f->bytes - f->synced >= NEWFILE_SYNC_BYTES) {
        hand_over(f);
    }
    return f->error == 0;
}

bool newfile_flush(struct newfile *f)
{
    if (f->error == 0 && f->io->fsync(f->fd) != 0) {
        fails(f);
    }
    return f->error == 0;
}

bool newfile_flushed(struct newfile *f, int error)
{
    f->error = f->error != 0 ? f->error : error;
    return f->error == 0;
}

bool newfile_sync(struct newfile *f)
{
    newfile_flush(f);
    if (f->io->close(f->fd) != 0) {
        fails(f);
    }
    f->fd = -1;
    return f->error == 0;
}

bool newfile_name(struct newfile *f)
{
    if (f->error == 0 && f->io->rename_at(f->dir, f->temp, f->name) != 0) {
        fails(f);
    }
    if (f->error != 0) {
        return false;
    }
    f->temp[0] = '\0'; /* it has the name now */
    return f->io->fsync(f->dir) == 0 || fails(f);
}

void newfile_end(struct newfile *f)
{
    if (f->fd >= 0) {
        f->io->close(f->fd);
        f->fd = -1;
    }
    if (f->dir >= 0) {
        if (f->temp[0] != '\0') {
            f->io->unlink_at(f->dir, f->temp);
        }
        f->io->close(f->dir);
        f->dir = -1;
    }
}

int newfile_rename(const struct io_calls *io, const char *dir, const char *from, const char *to)
{
    int fd = open_folder(io, dir);
    int error = 0;

    if (fd < 0) {
        return errno;
    }
    /* It may be missing because of an earlier removal whose fsync has failed. */
    bool is_done = to != NULL ? io->rename_at(fd, from, to) == 0
                              : io->unlink_at(fd, from) == 0 || errno == ENOENT;
    if (!is_done || io->fsync(fd) != 0) {
        error = errno;
    }
    io->close(fd);
    return error;
}

int newfile_remove(const struct io_calls *io, const char *dir, const char *name)
{
    return newfile_rename(io, dir, name, NULL);
}
