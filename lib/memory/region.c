/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges in files: see region.h.
 */
#include "lib/memory/region.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/check.h"

void *region_map(const struct region *r, uint64_t n)
{
    must(n <= r->bytes && r->at % REGION_ALIGN == 0);
    void *p = mmap(NULL, n, PROT_NONE, MAP_SHARED | MAP_NORESERVE, r->fd, (off_t)r->at);
    return p == MAP_FAILED ? NULL : p;
}

/*
 * A truncated file is not extended again: the missing part would read as zeros, of which no
 * block is made. So an access beyond its end fails.
 */
bool region_back(const struct region *r, uint64_t offset, uint64_t n)
{
    must(offset <= r->bytes && n <= r->bytes - offset);
    return TEMP_FAILURE_RETRY(
               fallocate(r->fd, FALLOC_FL_KEEP_SIZE, (off_t)(r->at + offset), (off_t)n)) == 0;
}

/* Memory that is locked by -k goes this way as well, which madvise() would refuse. */
void region_drop(const struct region *r, uint64_t offset, uint64_t n)
{
    must(offset <= r->bytes && n <= r->bytes - offset);
    (void)fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(r->at + offset),
                    (off_t)n);
}

bool region_read(int fd, uint64_t at, void *p, size_t n)
{
    while (n != 0) {
        ssize_t got = TEMP_FAILURE_RETRY(pread(fd, p, n, (off_t)at));

        if (got <= 0) {
            errno = got == 0 ? 0 : errno;
            return false;
        }
        p = (char *)p + got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

bool region_write(int fd, uint64_t at, const void *p, size_t n)
{
    while (n != 0) {
        ssize_t done = TEMP_FAILURE_RETRY(pwrite(fd, p, n, (off_t)at));

        if (done <= 0) {
            return false;
        }
        p = (const char *)p + done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return true;
}
