/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation by mimalloc, and pages from the system. Sanitizer builds allocate by the C
 * library, because sanitizers watch malloc().
 */
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/procfs.h"

#ifdef MAYFLY_SYSTEM_ALLOC

void *mem_alloc(size_t n)
{
    return malloc(n);
}

void *mem_zalloc(size_t n)
{
    return calloc(1, n);
}

void *mem_realloc(void *p, size_t n)
{
    return realloc(p, n);
}

void mem_free(void *p)
{
    free(p);
}

void *mem_alloc_aligned(size_t n, size_t align)
{
    void *p;

    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, n) == 0 ? p
                                                                                       : NULL;
}

/* In a mapping, sanitizers would see neither where it ends nor what it refers to. */
void *mem_alloc_pages(size_t n)
{
    void *p = mem_alloc_aligned(n, 4096);

    return p != NULL ? memset(p, 0, n) : NULL;
}

void mem_free_pages(void *p, size_t n)
{
    (void)n;
    mem_free(p);
}

void mem_rest_thread(void)
{
}

#else

#include <mimalloc.h>

void *mem_alloc(size_t n)
{
    return mi_malloc(n);
}

void *mem_zalloc(size_t n)
{
    return mi_zalloc(n);
}

void *mem_realloc(void *p, size_t n)
{
    return mi_realloc(p, n);
}

void mem_free(void *p)
{
    mi_free(p);
}

void *mem_alloc_aligned(size_t n, size_t align)
{
    return mi_malloc_aligned(n, align);
}

void *mem_alloc_pages(size_t n)
{
    return mem_map(n, MEM_PAGES_SMALL);
}

void mem_free_pages(void *p, size_t n)
{
    mem_unmap(p, n);
}

/*
 * Blocks that others free later would stay in a heap whose thread does nothing, so it has none
 * meanwhile: its next allocation makes one. No mi_collect(true) before it: in version 2.0.9
 * that unmaps cached segments without waiting for threads that still read their heads, as they
 * look for segments that ended heaps have left.
 */
void mem_rest_thread(void)
{
    mi_thread_done();
}

#endif

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map_pages(size_t n, int prot)
{
    void *p = mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Map more than is needed, then cut off what is before and after the aligned range. */
static void *map_aligned(size_t n, size_t align, int prot)
{
    size_t page = page_bytes();
    size_t total;

    if (__builtin_add_overflow(n, page - 1, &n)) {
        return NULL;
    }
    n &= ~(page - 1);
    if (__builtin_add_overflow(n, align, &total)) {
        return NULL;
    }

    char *base = map_pages(total, prot);
    if (base == NULL) {
        return NULL;
    }
    size_t before = (size_t)(-(uintptr_t)base & (align - 1));
    size_t after = total - before - n;
    if (before > 0) {
        munmap(base, before);
    }
    if (after > 0) {
        munmap(base + before + n, after);
    }
    return base + before;
}

static void *map_range(size_t n, enum mem_pages pages, int prot)
{
    void *p =
        pages == MEM_PAGES_HUGE ? map_aligned(n, MEM_HUGE_BYTES, prot) : map_pages(n, prot);

    if (p != NULL && pages == MEM_PAGES_SMALL) {
        /* If the system uses huge pages by default, one byte would make 2 MiB resident. */
        (void)madvise(p, n, MADV_NOHUGEPAGE);
    } else if (p != NULL) {
        /* Optional: without huge pages the range works as well, with more TLB misses. */
        (void)madvise(p, n, MADV_HUGEPAGE);
    }
    return p;
}

void *mem_map(size_t n, enum mem_pages pages)
{
    return map_range(n, pages, PROT_READ | PROT_WRITE);
}

/* Pages without access are not counted as promised, even where overcommit is off. */
void *mem_reserve(size_t n, enum mem_pages pages)
{
    return map_range(n, pages, PROT_NONE);
}

bool mem_commit(void *p, size_t n)
{
    size_t before = (uintptr_t)p & (page_bytes() - 1); /* pages may be larger than a step */

    p = (char *)p - before;
    n += before;
    return n == 0 || mprotect(p, n, PROT_READ | PROT_WRITE) == 0;
}

/*
 * More than any machine can promise. An experiment, because a sandbox may hide /proc/sys. The
 * thread sanitizer refuses as well.
 */
#define MORE_THAN_PROMISED ((size_t)1 << 44)

bool mem_promises_freely(void)
{
    void *p = map_pages(MORE_THAN_PROMISED, PROT_READ | PROT_WRITE);

    mem_unmap(p, MORE_THAN_PROMISED);
    return p != NULL;
}

/* What the process has mapped, in bytes; 0: unknown. */
static uint64_t address_space_used(void)
{
    char text[128];
    const double pages =
        procfs_read("", "/proc/self/statm", text, sizeof(text)) ? procfs_number(text) : 0;

    return pages > 0 ? (uint64_t)pages * page_bytes() : 0;
}

uint64_t mem_address_space_left(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return UINT64_MAX;
    }
    uint64_t used = address_space_used();
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

void mem_unmap(void *p, size_t n)
{
    if (p != NULL && munmap(p, n) != 0) {
        /*
         * The kernel may have merged it with its neighbours, and cannot split that while the
         * process has the most mappings that it may (vm.max_map_count). The addresses are lost.
         */
        must(errno == ENOMEM);
        mem_discard(p, n);
    }
}

void mem_discard(void *p, size_t n)
{
    debug_must(((uintptr_t)p & (page_bytes() - 1)) == 0);

    if (n == 0 || madvise(p, n, MADV_DONTNEED) == 0) {
        return;
    }
    /* For memory locked by -k the kernel refuses this; before 5.18 it refuses the next, too. */
#ifdef MADV_DONTNEED_LOCKED
    if (madvise(p, n, MADV_DONTNEED_LOCKED) == 0) {
        return;
    }
#endif
    /* Callers were promised that the range reads as zero; it stays resident. */
    memset(p, 0, n);
}

static bool is_zero(const uint64_t *words, size_t n)
{
    uint64_t any = 0;

    for (size_t i = 0; any == 0 && i < n; i++) {
        any |= words[i];
    }
    return any == 0;
}

void mem_discard_zeros(void *p, size_t n)
{
    const size_t page = page_bytes();
    const size_t before = (size_t)(-(uintptr_t)p & (page - 1));

    if (n < before + page) {
        return; /* no whole page; p may be NULL */
    }

    char *at = (char *)p + before;
    char *const end = at + ((n - before) & ~(page - 1));
    char *run = at;

    for (; at < end; at += page) {
        if (!is_zero((const uint64_t *)(const void *)at, page / sizeof(uint64_t))) {
            mem_discard(run, (size_t)(at - run));
            run = at + page;
        }
    }
    mem_discard(run, (size_t)(end - run));
}

/*
 * Stores, and not MADV_POPULATE_WRITE: that has the map of the process locked meanwhile, and
 * every thread that maps, commits or discards would wait for it.
 */
void mem_touch(void *p, size_t n)
{
    size_t page = page_bytes();

    for (size_t at = 0; at < n; at += page) {
        ((volatile char *)p)[at] = 0;
    }
}

bool mem_touch_next(void *p, size_t n, size_t *done)
{
    size_t part = n - *done < MEM_TOUCH_BYTES ? n - *done : MEM_TOUCH_BYTES;

    mem_touch((char *)p + *done, part);
    *done += part;
    return *done == n;
}

void mem_use_huge(void *p, size_t n, bool may)
{
    (void)madvise(p, n, may ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void mem_leave_out_of_cores(void *p, size_t n)
{
    (void)madvise(p, n, MADV_DONTDUMP);
}

/*
 * One step by which the bound falls: this fraction of the excess over the limit, within these
 * bytes. A store may have to wait until one step's bytes are freed.
 */
#define STEP_PART 16
#define STEP_MIN  ((int64_t)1 << 20)
#define STEP_MAX  ((int64_t)64 << 20)

/*
 * What is overdrawn when the limit is set stays an overdraft: if the bound rose to it, setting
 * a limit again and again would let more be used each time.
 */
void budget_set_limit(struct budget *b, int64_t limit)
{
    int64_t used = atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
    int64_t bound = atomic_load_explicit(&b->bound_bytes, memory_order_relaxed);
    int64_t overdraw = budget_overdraw(b);

    must(limit >= 0);
    atomic_store_explicit(&b->limit_bytes, limit, memory_order_relaxed);
    bound += overdraw - budget_overdraw(b);
    bound = used < bound ? used : bound;
    atomic_store_explicit(&b->bound_bytes, bound > limit ? bound : limit, memory_order_relaxed);
}

bool budget_lower(struct budget *b)
{
    int64_t bound = atomic_load_explicit(&b->bound_bytes, memory_order_relaxed);
    int64_t limit = budget_limit(b);
    int64_t used = atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
    int64_t next = limit;

    if (bound == limit || (bound > limit && used - bound > STEP_MIN / 2)) {
        return false;
    }
    if (used > limit) {
        int64_t step = (used - limit) / STEP_PART;

        step = step > STEP_MIN ? step : STEP_MIN;
        step = step < STEP_MAX ? step : STEP_MAX;
        next = (used < bound ? used : bound) - step;
        next = next > limit ? next : limit;
    }
    /* If the limit was set meanwhile, the bound is that one's, or the next call mends it. */
    return atomic_compare_exchange_strong_explicit(&b->bound_bytes, &bound, next,
                                                   memory_order_relaxed, memory_order_relaxed);
}

bool budget_take(struct budget *b, int64_t n, int64_t overdraw)
{
    int64_t bound = atomic_load_explicit(&b->bound_bytes, memory_order_relaxed);
    int64_t used = atomic_load_explicit(&b->used_bytes, memory_order_relaxed);

    must(n >= 0 && overdraw >= 0);
    do {
        if (used + n > bound + overdraw) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &b->used_bytes, &used, used + n, memory_order_relaxed, memory_order_relaxed));
    return true;
}
