/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clocks of another host, for a program that runs, by LD_PRELOAD: the wall clock and
 * CLOCK_BOOTTIME are ahead by a number, which is in the file MAYFLY_CLOCKS. It is mapped,
 * so that a test sets the wall clock while the program runs (tests/common/clocks.py).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"

#define NS_PER_SEC INT64_C(1000000000)

/* Of the page that is mapped: clocks.py knows the order. */
struct ahead {
    _Atomic int64_t wall_ns;
    _Atomic int64_t boot_ns; /* not to be changed while the program runs */
};

static struct ahead none;
static struct ahead *ahead = &none;
static int (*real)(clockid_t, struct timespec *);

/* Other constructors may read a clock before; then it is the machine's. */
MF_CONSTRUCTOR static void begin(void)
{
    const char *path = getenv("MAYFLY_CLOCKS");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page;

    if (fd < 0) {
        return;
    }
    page = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) {
        ahead = page;
    }
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t ns;

    if (real == NULL) {
        real = (__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");
    }
    if (real(id, ts) != 0) {
        return -1;
    }
    if (id == CLOCK_REALTIME || id == CLOCK_BOOTTIME) {
        ns = ts->tv_sec * NS_PER_SEC + ts->tv_nsec +
             atomic_load(id == CLOCK_REALTIME ? &ahead->wall_ns : &ahead->boot_ns);
        ts->tv_sec = ns / NS_PER_SEC;
        ts->tv_nsec = ns % NS_PER_SEC;
    }
    return 0;
}
