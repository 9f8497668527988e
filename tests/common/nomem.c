/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocations that fail, in a daemon that runs: the linker puts these functions between all
 * code and those of lib/base/mem.h. From the n-th call of the threads of one name on, calls
 * fail. What is to happen is in the file MAYFLY_NOMEM, which is mapped
 * (tests/common/nomem.py).
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

#define NAME_BYTES 16 /* of a thread, as the kernel has it */

/* Of the page that is mapped: nomem.py knows the order. */
struct plan {
    _Atomic uint64_t is_counting;
    _Atomic uint64_t nth;   /* from 1; 0: nothing fails */
    _Atomic uint64_t times; /* number that fail, from the n-th on */
    _Atomic uint64_t seen;  /* calls since it was set */
    _Atomic uint64_t fired;
    char thread[NAME_BYTES]; /* names that begin so; empty: all */
};

static struct plan *plan;

void *__real_mem_alloc(size_t n);
void *__real_mem_zalloc(size_t n);
void *__real_mem_realloc(void *p, size_t n);
void *__real_mem_alloc_aligned(size_t n, size_t align);
void *__real_mem_alloc_pages(size_t n);
void *__real_mem_map(size_t n, enum mem_pages pages);
bool __real_mem_commit(void *p, size_t n);
void *__wrap_mem_alloc(size_t n);
void *__wrap_mem_zalloc(size_t n);
void *__wrap_mem_realloc(void *p, size_t n);
void *__wrap_mem_alloc_aligned(size_t n, size_t align);
void *__wrap_mem_alloc_pages(size_t n);
void *__wrap_mem_map(size_t n, enum mem_pages pages);
bool __wrap_mem_commit(void *p, size_t n);

MF_CONSTRUCTOR static void begin(void)
{
    const char *path = getenv("MAYFLY_NOMEM");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page;

    if (fd < 0) {
        return;
    }
    page = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) {
        plan = page;
    }
}

static bool is_of_thread(void)
{
    char name[NAME_BYTES + 1] = "";

    return plan->thread[0] == '\0' ||
           (prctl(PR_GET_NAME, name) == 0 &&
            strncmp(name, plan->thread, strnlen(plan->thread, NAME_BYTES)) == 0);
}

static bool fails(void)
{
    uint64_t nth;
    uint64_t seen;

    if (plan == NULL || !atomic_load(&plan->is_counting) || !is_of_thread()) {
        return false;
    }
    seen = atomic_fetch_add(&plan->seen, 1) + 1;
    nth = atomic_load(&plan->nth);
    if (nth == 0 || seen < nth || seen - nth >= atomic_load(&plan->times)) {
        return false;
    }
    atomic_fetch_add(&plan->fired, 1);
    return true;
}

void *__wrap_mem_alloc(size_t n)
{
    return fails() ? NULL : __real_mem_alloc(n);
}

void *__wrap_mem_zalloc(size_t n)
{
    return fails() ? NULL : __real_mem_zalloc(n);
}

void *__wrap_mem_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_mem_realloc(p, n);
}

void *__wrap_mem_alloc_aligned(size_t n, size_t align)
{
    return fails() ? NULL : __real_mem_alloc_aligned(n, align);
}

void *__wrap_mem_alloc_pages(size_t n)
{
    return fails() ? NULL : __real_mem_alloc_pages(n);
}

void *__wrap_mem_map(size_t n, enum mem_pages pages)
{
    return fails() ? NULL : __real_mem_map(n, pages);
}

bool __wrap_mem_commit(void *p, size_t n)
{
    return !fails() && __real_mem_commit(p, n);
}
