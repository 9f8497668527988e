/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See file.h.
 */
#include "daemon/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

#define MODE_BITS 07777u

/* The length of the folder's path, with the slash at its end; 0: the folder it is in. */
static size_t folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? (size_t)(slash + 1 - path) : 0;
}

static bool fail(const struct file_edit *e, const char *what, const char *reason, char *why,
                 size_t why_bytes)
{
    snprintf(why, why_bytes, "%s %s (%s)", what, e->path, reason);
    return false;
}

/* The same for what a system call said. */
static bool fail_by_errno(const struct file_edit *e, const char *what, char *why,
                          size_t why_bytes)
{
    return fail(e, what, strerror(errno), why, why_bytes);
}

static bool has_content(int fd, struct span content)
{
    char chunk[4096];
    size_t at = 0;

    for (;;) {
        const ssize_t n = TEMP_FAILURE_RETRY(read(fd, chunk, sizeof(chunk)));

        if (n <= 0) {
            return n == 0 && at == content.len;
        }
        if ((size_t)n > content.len - at || memcmp(chunk, content.ptr + at, (size_t)n) != 0) {
            return false;
        }
        at += (size_t)n;
    }
}

/* Is it the file that was read, and may it be written? */
static bool look(const struct file_edit *e, struct stat *st, char *why, size_t why_bytes)
{
    const int fd = open(e->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0) {
        return fail_by_errno(e, "cannot read", why, why_bytes);
    }
    bool is_same = fstat(fd, st) == 0 && S_ISREG(st->st_mode) && has_content(fd, e->old);
    close(fd);
    if (!is_same) {
        return fail(e, "did not write", "it has changed meanwhile", why, why_bytes);
    }
    return faccessat(AT_FDCWD, e->path, W_OK, AT_EACCESS) == 0 ||
           fail_by_errno(e, "may not write", why, why_bytes);
}

/* As the file that it will be. The mode comes last: a change of owner takes bits away. */
static bool adopt(int fd, const struct stat *st)
{
    struct stat own;

    return fstat(fd, &own) == 0 &&
           ((own.st_uid == st->st_uid && own.st_gid == st->st_gid) ||
            fchown(fd, st->st_uid, st->st_gid) == 0) &&
           fchmod(fd, st->st_mode & MODE_BITS) == 0;
}

/* Make the file under a random name, which patterns of include do not match. */
static int make(struct file_edit *e)
{
    const size_t size = strlen(e->path) + sizeof("..XXXXXX");
    const size_t len = folder_len(e->path);

    e->temporary = mem_alloc(size);
    if (e->temporary == NULL) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(e->temporary, size, "%.*s.%s.XXXXXX", (int)len, e->path, e->path + len);
    const int fd = mkostemp(e->temporary, O_CLOEXEC);
    if (fd < 0) {
        const int reason = errno;

        mem_free(e->temporary);
        e->temporary = NULL;
        errno = reason;
    }
    return fd;
}

bool file_edit_prepare(struct file_edit *e, char *why, size_t why_bytes)
{
    struct stat st;

    must(e->temporary == NULL);
    if (!look(e, &st, why, why_bytes)) {
        return false;
    }
    const int fd = make(e);
    if (fd < 0) {
        return fail_by_errno(e, "cannot make a file beside", why, why_bytes);
    }
    bool is_done = file_write(fd, e->text) || fail_by_errno(e, "cannot write", why, why_bytes);
    is_done = is_done &&
              (adopt(fd, &st) || fail_by_errno(e, "cannot keep the owner of", why, why_bytes));
    is_done = is_done && (fsync(fd) == 0 || fail_by_errno(e, "cannot write", why, why_bytes));
    if (close(fd) != 0 && is_done) {
        is_done = fail_by_errno(e, "cannot write", why, why_bytes);
    }
    if (!is_done) {
        file_edit_discard(e);
    }
    return is_done;
}

/* Bring the folder to the disk. Some file systems cannot, and need not. */
static bool sync_folder(const struct file_edit *e)
{
    const size_t len = folder_len(e->path);
    char *folder = mem_alloc(len + 2);

    if (folder == NULL) {
        errno = ENOMEM;
        return false;
    }
    snprintf(folder, len + 2, "%.*s.", (int)len, e->path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_done = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int reason = errno;
    if (fd >= 0) {
        close(fd);
    }
    mem_free(folder);
    errno = reason;
    return is_done;
}

bool file_edit_commit(struct file_edit *e, char *why, size_t why_bytes)
{
    must(e->temporary != NULL);
    if (rename(e->temporary, e->path) != 0) {
        return fail_by_errno(e, "cannot replace", why, why_bytes);
    }
    mem_free(e->temporary);
    e->temporary = NULL;
    return sync_folder(e) ||
           fail_by_errno(e, "wrote, but could not bring to the disk the folder of", why,
                         why_bytes);
}

void file_edit_discard(struct file_edit *e)
{
    if (e->temporary != NULL) {
        (void)unlink(e->temporary);
        mem_free(e->temporary);
        e->temporary = NULL;
    }
}
