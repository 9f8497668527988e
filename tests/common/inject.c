/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the disk for a program that runs, by LD_PRELOAD: from the n-th call on files in one
 * folder, calls fail, are short, hang, or the process ends there. MAYFLY_INJECT_DIR is the
 * folder; the faults are described in the file MAYFLY_INJECT, which is mapped, so that a test
 * changes it while the program runs (tests/common/inject.py).
 *
 * It also sees what must never happen: a file that is made durable after a write or an fsync of
 * it has failed, and one that gets another's name before it is durable.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"

/* Kinds of calls, as bits; inject.py has them too. */
enum kind {
    OPEN = 1,
    READ = 2,
    WRITE = 4,
    SYNC = 8,
    RANGE = 16,
    RENAME = 32,
    UNLINK = 64,
    TRUNCATE = 128,
    ALLOCATE = 256,
    MAP = 512,
};

enum how { FAIL, SHORT, DIE, HANG };

/* Where the process ends: a status that nothing else has. */
#define DIED 99

/* Of the page that is mapped: inject.py knows the order. */
struct plan {
    _Atomic uint64_t kinds; /* that are looked at */
    _Atomic uint64_t nth;   /* from 1; 0: nothing happens */
    _Atomic uint64_t times; /* number of calls that fail, from the n-th on */
    _Atomic uint64_t how;
    _Atomic uint64_t number; /* the errno */
    _Atomic uint64_t seen;   /* calls of these kinds since it was set */
    _Atomic uint64_t fired;
    /* what must never happen */
    _Atomic uint64_t resynced; /* a good fsync of a file after a fault */
    _Atomic uint64_t unsynced; /* files that got a name before they were durable */
    _Atomic uint64_t is_hanging;
    char part[128]; /* only files with this in their names; empty: all */
};

#define FILES 256
#define FDS   1024

/* By name, as a file may be opened again. */
struct file {
    char name[NAME_MAX + 1]; /* empty: the folder itself */
    bool is_folder;
    _Atomic bool is_dirty; /* written, and not made durable */
    _Atomic bool has_failed;
};

static struct plan *plan;
static char folder[PATH_MAX];
static struct file files[FILES];
static unsigned file_count;
static _Atomic(struct file *) open_files[FDS];
static _Atomic bool is_locked;

/* The call of this name that comes after ours. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

MF_CONSTRUCTOR static void begin(void)
{
    const char *dir = getenv("MAYFLY_INJECT_DIR");
    const char *path = getenv("MAYFLY_INJECT");
    int fd = path != NULL ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
    void *page;

    if (fd < 0 || dir == NULL) {
        return;
    }
    page = REAL(mmap)(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REAL(close)(fd);
    if (page != MAP_FAILED) {
        snprintf(folder, sizeof(folder), "%s", dir);
        plan = page;
    }
}

/* ---- which file -------------------------------------------------------------------------- */

static void lock(void)
{
    while (atomic_exchange(&is_locked, true)) {
    }
}

static void unlock(void)
{
    atomic_store(&is_locked, false);
}

/* The file of this name in the folder; NULL: too many. */
static struct file *file_named(const char *name, bool is_folder)
{
    struct file *f = NULL;

    lock();
    for (unsigned i = 0; i < file_count && f == NULL; i++) {
        if (strcmp(files[i].name, name) == 0) {
            f = &files[i];
        }
    }
    if (f == NULL && file_count < FILES) {
        f = &files[file_count++];
        snprintf(f->name, sizeof(f->name), "%s", name);
        f->is_folder = is_folder;
    }
    unlock();
    return f;
}

static struct file *file_of(int fd)
{
    return plan != NULL && fd >= 0 && fd < FDS ? atomic_load(&open_files[fd]) : NULL;
}

/* What a path means, which may be relative to a folder; NULL: it is not ours. */
static struct file *file_at(int dir, const char *path)
{
    const struct file *base = file_of(dir);
    size_t n = strlen(folder);

    if (plan == NULL || path == NULL) {
        return NULL;
    }
    if (base != NULL && path[0] != '/') {
        return file_named(path, false);
    }
    if (strncmp(path, folder, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
        return NULL;
    }
    return path[n] == '\0' ? file_named("", true) : file_named(path + n + 1, false);
}

/* ---- what happens to it ------------------------------------------------------------------ */

static void hang(void)
{
    const struct timespec step = {.tv_nsec = 1000 * 1000};

    atomic_fetch_add(&plan->is_hanging, 1);
    while (atomic_load(&plan->nth) != 0 && atomic_load(&plan->how) == HANG) {
        nanosleep(&step, NULL);
    }
    atomic_fetch_sub(&plan->is_hanging, 1);
}

/* Does a call of this kind fail? Then errno is set, or *n is less. */
static bool fails(struct file *f, enum kind kind, size_t *n)
{
    uint64_t nth;
    uint64_t seen;

    if (f == NULL || (atomic_load(&plan->kinds) & kind) == 0 ||
        (plan->part[0] != '\0' && strstr(f->name, plan->part) == NULL)) {
        return false;
    }
    seen = atomic_fetch_add(&plan->seen, 1) + 1;
    nth = atomic_load(&plan->nth);
    if (nth == 0 || seen < nth || seen - nth >= atomic_load(&plan->times)) {
        return false;
    }
    atomic_fetch_add(&plan->fired, 1);
    switch ((enum how)atomic_load(&plan->how)) {
    case DIE:
        _exit(DIED);
    case HANG:
        hang();
        return false;
    case SHORT:
        if (n != NULL && *n > 1) {
            *n /= 2;
        }
        return false;
    case FAIL:
        break;
    }
    if (kind == WRITE || kind == SYNC || kind == RANGE) {
        atomic_store(&f->has_failed, true);
    }
    errno = (int)atomic_load(&plan->number);
    return true;
}

/* ---- the calls --------------------------------------------------------------------------- */

static int opened(int fd, struct file *f, int flags)
{
    if (fd >= 0 && fd < FDS) {
        atomic_store(&open_files[fd], f);
        if (f != NULL && (flags & O_EXCL) != 0) {
            atomic_store(&f->is_dirty, false);
            atomic_store(&f->has_failed, false);
        }
    }
    return fd;
}

static unsigned mode_of(int flags, va_list rest)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0;
}

int open(const char *path, int flags, ...)
{
    struct file *f = file_at(AT_FDCWD, path);
    va_list rest;

    va_start(rest, flags);
    unsigned mode = mode_of(flags, rest);
    va_end(rest);
    return fails(f, OPEN, NULL) ? -1 : opened(REAL(open)(path, flags, mode), f, flags);
}

int openat(int dir, const char *path, int flags, ...)
{
    struct file *f = file_at(dir, path);
    va_list rest;

    va_start(rest, flags);
    unsigned mode = mode_of(flags, rest);
    va_end(rest);
    return fails(f, OPEN, NULL) ? -1 : opened(REAL(openat)(dir, path, flags, mode), f, flags);
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS) {
        atomic_store(&open_files[fd], NULL);
    }
    return REAL(close)(fd);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    return fails(file_of(fd), READ, &n) ? -1 : REAL(pread)(fd, bytes, n, at);
}

/* A write is to come. */
static bool may_write(int fd, size_t *n)
{
    struct file *f = file_of(fd);

    if (f != NULL) {
        atomic_store(&f->is_dirty, true);
    }
    return !fails(f, WRITE, n);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    return may_write(fd, &n) ? REAL(write)(fd, bytes, n) : -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    return may_write(fd, &n) ? REAL(pwrite)(fd, bytes, n, at) : -1;
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
    return may_write(fd, NULL) ? REAL(writev)(fd, iov, n) : -1;
}

static int synced(struct file *f, int result)
{
    if (f != NULL && result == 0) {
        /* Names are in the journal of the file system: it fails for good. */
        if (!f->is_folder && atomic_load(&f->has_failed)) {
            atomic_fetch_add(&plan->resynced, 1);
        }
        atomic_store(&f->is_dirty, false);
    }
    return result;
}

int fsync(int fd)
{
    struct file *f = file_of(fd);

    return fails(f, SYNC, NULL) ? -1 : synced(f, REAL(fsync)(fd));
}

int fdatasync(int fd)
{
    struct file *f = file_of(fd);

    return fails(f, SYNC, NULL) ? -1 : synced(f, REAL(fdatasync)(fd));
}

int sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
    return fails(file_of(fd), RANGE, NULL) ? -1 : REAL(sync_file_range)(fd, at, n, flags);
}

/* A file is about to get another name. */
static bool may_rename(struct file *from, struct file *to)
{
    if (fails(from, RENAME, NULL)) {
        return false;
    }
    if (from != NULL && to != NULL) {
        if (atomic_load(&from->is_dirty)) {
            atomic_fetch_add(&plan->unsynced, 1);
        }
        atomic_store(&to->is_dirty, atomic_load(&from->is_dirty));
        atomic_store(&to->has_failed, atomic_load(&from->has_failed));
    }
    return true;
}

int rename(const char *from, const char *to)
{
    return may_rename(file_at(AT_FDCWD, from), file_at(AT_FDCWD, to)) ? REAL(rename)(from, to)
                                                                      : -1;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return may_rename(file_at(from_dir, from), file_at(to_dir, to))
               ? REAL(renameat)(from_dir, from, to_dir, to)
               : -1;
}

int unlink(const char *path)
{
    return fails(file_at(AT_FDCWD, path), UNLINK, NULL) ? -1 : REAL(unlink)(path);
}

int unlinkat(int dir, const char *path, int flags)
{
    return fails(file_at(dir, path), UNLINK, NULL) ? -1 : REAL(unlinkat)(dir, path, flags);
}

int ftruncate(int fd, off_t n)
{
    struct file *f = file_of(fd);

    if (fails(f, TRUNCATE, NULL)) {
        return -1;
    }
    if (f != NULL && n == 0) {
        atomic_store(&f->has_failed, false); /* nothing is left that was lost */
    }
    return REAL(ftruncate)(fd, n);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    return fails(file_of(fd), ALLOCATE, NULL) ? -1 : REAL(fallocate)(fd, mode, at, n);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return fails(file_of(fd), MAP, NULL) ? MAP_FAILED
                                         : REAL(mmap)(at, n, prot, flags, fd, offset);
}
