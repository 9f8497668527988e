/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See file.h.
 */
#include "daemon/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/context.h"
#include "lib/base/mem.h"

static mode_t current_umask(void)
{
    mode_t mask = umask(0);

    umask(mask);
    return mask;
}

bool file_write(int fd, struct span content)
{
    while (content.len > 0) {
        const ssize_t n = TEMP_FAILURE_RETRY(write(fd, content.ptr, content.len));

        if (n < 0) {
            return false;
        }
        content = span_of(content.ptr + n, content.len - (size_t)n);
    }
    return true;
}

/* Everything that has to be done with a file that no other process knows of yet. */
static bool fill(int fd, struct span content, mode_t mode, struct file_id *id)
{
    struct stat st;

    if (!file_write(fd, content) || fchmod(fd, mode & ~current_umask()) != 0 ||
        fstat(fd, &st) != 0) {
        return false;
    }
    id->dev = st.st_dev;
    id->ino = st.st_ino;
    return true;
}

bool file_replace(const char *path, struct span content, mode_t mode, struct file_id *id)
{
    char temporary[PATH_MAX];
    struct stat st;

    must_be_main();
    if (lstat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))) {
        errno = EEXIST;
        return false;
    }
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >=
        sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = mkostemp(temporary, O_CLOEXEC); /* O_EXCL: a file that was not there before */
    if (fd < 0) {
        return false;
    }
    bool is_filled = fill(fd, content, mode, id);
    int why = errno;
    if (close(fd) == 0 && is_filled && rename(temporary, path) == 0) {
        return true;
    }
    why = is_filled ? errno : why;
    (void)unlink(temporary);
    errno = why;
    return false;
}

/* Open a regular file. O_NONBLOCK: a fifo without a reader or writer is not waited for. */
static int open_regular(const char *path, int access)
{
    int fd = open(path, access | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        fd = -1;
    }
    return fd;
}

ssize_t file_read_start(const char *path, char *out, size_t size)
{
    int fd = open_regular(path, O_RDONLY);

    must(size > 0);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, out, size - 1);
    int why = errno;
    close(fd);
    errno = why;
    out[n > 0 ? n : 0] = '\0';
    return n;
}

/* Read up to the size that the file has at the open. */
static const char *read_all(int fd, size_t max, struct file_text *out)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return strerror(errno);
    }
    if (!S_ISREG(st.st_mode)) {
        return "not a regular file";
    }
    if (st.st_size > (off_t)max) {
        return "too large";
    }
    out->cap = (size_t)st.st_size + 1;
    out->bytes = mem_alloc(out->cap);
    if (out->bytes == NULL) {
        return "out of memory";
    }
    while (out->len < out->cap) {
        ssize_t n = TEMP_FAILURE_RETRY(read(fd, out->bytes + out->len, out->cap - out->len));

        if (n < 0) {
            return strerror(errno);
        }
        if (n == 0) {
            break;
        }
        out->len += (size_t)n;
    }
    return out->len == (size_t)st.st_size ? NULL : "it changed while it was read";
}

const char *file_read_all(const char *path, size_t max, struct file_text *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    must_be_main();
    memset(out, 0, sizeof(*out));
    if (fd < 0) {
        return strerror(errno);
    }
    const char *why = read_all(fd, max, out);
    close(fd);
    return why;
}

bool file_is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static bool is_file(const struct stat *st, const struct file_id *id)
{
    return st->st_dev == id->dev && st->st_ino == id->ino;
}

bool file_remove(const char *path, const struct file_id *id)
{
    struct stat st;

    if (lstat(path, &st) != 0 || !is_file(&st, id)) {
        return true; /* somebody has removed or replaced it */
    }
    if (unlink(path) == 0 || errno == ENOENT) {
        return true;
    }
    int why = errno;
    int fd = open_regular(path, O_WRONLY);
    if (fd < 0) {
        errno = why;
        return false;
    }
    bool is_emptied = fstat(fd, &st) == 0 && is_file(&st, id) && ftruncate(fd, 0) == 0;
    close(fd);
    errno = why;
    return is_emptied;
}
