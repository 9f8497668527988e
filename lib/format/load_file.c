/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that is loaded: see load_file.h.
 */
#include "lib/format/load_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/format/decode.h"

/*
 * So far ahead of what is read the system is asked for more, in such steps: what it reads ahead
 * by itself does not keep a disk busy.
 */
#define AHEAD_BYTES      ((uint64_t)16 << 20)
#define AHEAD_STEP_BYTES ((uint64_t)4 << 20)

static void read_ahead(struct load_file *f, uint64_t offset)
{
    uint64_t asked = atomic_load_explicit(&f->asked, memory_order_relaxed);

    while (asked < f->bytes && asked < offset + AHEAD_BYTES) {
        if (atomic_compare_exchange_weak(&f->asked, &asked, asked + AHEAD_STEP_BYTES)) {
            (void)posix_fadvise(f->fd, (off_t)asked, (off_t)AHEAD_STEP_BYTES,
                                POSIX_FADV_WILLNEED);
            asked += AHEAD_STEP_BYTES;
        }
    }
}

ssize_t load_read(void *arg, void *out, size_t n, uint64_t offset)
{
    struct load_file *f = arg;

    read_ahead(f, offset);
    ssize_t got = TEMP_FAILURE_RETRY(pread(f->fd, out, n, (off_t)offset));
    return got < 0 ? -errno : got;
}

static bool open_fails(struct load_file *f)
{
    f->fault = (struct snap_fault){.kind = SNAP_FAULT_READ, .number = (uint64_t)errno};
    load_close(f);
    return false;
}

bool load_open_any(struct load_file *f, const char *path, int flags)
{
    struct snap_reader r;
    struct stat st;

    *f = (struct load_file){.fault = {.kind = SNAP_FINE}};
    /* O_NONBLOCK: if it is a pipe, do not wait for a process that opens it for writing. */
    f->fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) != 0) {
        return open_fails(f);
    }
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return open_fails(f);
    }
    f->bytes = (uint64_t)st.st_size;
    if (!snap_reader_begin(&r, load_read, f, &f->fault)) {
        load_close(f);
        return false;
    }
    f->header = r.header;
    return true;
}

bool load_open(struct load_file *f, const char *path)
{
    if (!load_open_any(f, path, O_RDONLY)) {
        return false;
    }
    if ((f->header.flags & SNAP_IS_LOG) != 0) {
        f->fault = (struct snap_fault){.kind = SNAP_FAULT_FOREIGN};
        load_close(f);
        return false;
    }
    return true;
}

void load_close(struct load_file *f)
{
    if (f->fd >= 0) {
        close(f->fd);
        f->fd = -1;
    }
}
