/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem: allocation, mapped pages and how they are discarded, the budget with several threads.
 * The seed of the key hash is tested here as well.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "tests/common/unit.h"

#define MIB ((size_t)1 << 20)

TEST(allocations_hold_what_is_written)
{
    char *p = mem_alloc(100);
    ck_assert_ptr_nonnull(p);
    memset(p, 'x', 100);
    p = mem_realloc(p, 10000);
    ck_assert_ptr_nonnull(p);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(p[i], 'x');
    }
    mem_free(p);

    unsigned char *z = mem_zalloc(1000);
    ck_assert_ptr_nonnull(z);
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(z[i], 0);
    }
    mem_free(z);
    mem_free(NULL);
}

TEST(aligned_allocations_are_aligned)
{
    for (size_t align = 1; align <= 4096; align *= 2) {
        char *p = mem_alloc_aligned(align * 3 + 1, align);

        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p & (align - 1), 0);
        memset(p, 1, align * 3 + 1);
        mem_free(p);
    }
}

/* The resident pages of a range, as the kernel counts them. */
static size_t resident_pages(void *p, size_t n)
{
    static unsigned char vec[8192];
    size_t pages = n / (size_t)sysconf(_SC_PAGESIZE);
    size_t count = 0;

    ck_assert_uint_le(pages, sizeof(vec));
    ck_assert_int_eq(mincore(p, n, vec), 0);
    for (size_t i = 0; i < pages; i++) {
        count += vec[i] & 1;
    }
    return count;
}

TEST(mapped_pages_are_resident_only_when_touched)
{
    size_t n = 4 * MIB;
    char *p = mem_map(n, MEM_PAGES_SMALL);

    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(resident_pages(p, n), 0);
    p[MIB] = 1;
    ck_assert_uint_eq(resident_pages(p, n), 1);
    ck_assert_int_eq(p[0], 0);
    mem_unmap(p, n);
}

TEST(a_large_array_is_touched_part_by_part)
{
    size_t n = 3 * MEM_TOUCH_BYTES + MEM_TOUCH_BYTES / 4;
    size_t done = 0;
    char *p = mem_map(n, MEM_PAGES_SMALL);

    ck_assert_ptr_nonnull(p);
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert(!mem_touch_next(p, n, &done));
        ck_assert_uint_eq(done, i * MEM_TOUCH_BYTES);
        ck_assert_uint_eq(resident_pages(p, n), done / (size_t)sysconf(_SC_PAGESIZE));
    }
    ck_assert(mem_touch_next(p, n, &done));
    ck_assert_uint_eq(resident_pages(p, n), n / (size_t)sysconf(_SC_PAGESIZE));
    mem_unmap(p, n);
}

TEST(discarded_pages_leave_and_read_as_zero)
{
    size_t n = MIB;
    char *p = mem_map(n, MEM_PAGES_SMALL);

    ck_assert_ptr_nonnull(p);
    memset(p, 'x', n);
    mem_discard(p + n / 2, n / 2);
    ck_assert_uint_eq(resident_pages(p, n), n / 2 / (size_t)sysconf(_SC_PAGESIZE));
    ck_assert_int_eq(p[n / 2 - 1], 'x');
    for (size_t i = n / 2; i < n; i += 512) {
        ck_assert_int_eq(p[i], 0);
    }
    mem_discard(p, 0);
    ck_assert_int_eq(p[0], 'x');
    mem_unmap(p, n);
}

TEST(what_cannot_be_unmapped_is_emptied)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t most = 1 << 17; /* more than vm.max_map_count */
    char *p = mem_map(3 * page, MEM_PAGES_SMALL);
    char *many = mmap(NULL, 2 * most * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t n = 0;

    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_ne(many, MAP_FAILED);
    memset(p, 1, 3 * page);
    while (n < most && mprotect(many + 2 * n * page, page, PROT_READ) == 0) {
        n++;
    }
    mem_unmap(p + page, page);
    ck_assert_int_eq(munmap(many, 2 * most * page), 0);
    ck_assert_int_eq(p[0] + p[2 * page], 2);
    if (n < most) {
        ck_assert_int_eq(p[page], 0);
        mem_unmap(p, 3 * page);
    }
}

TEST(only_pages_of_zeros_are_discarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = 8 * page;
    char *p = mem_map(n, MEM_PAGES_SMALL);

    ck_assert_ptr_nonnull(p);
    mem_touch(p, n);
    p[0] = 1;
    p[3 * page - 1] = 1;
    p[5 * page + 8] = 1;
    mem_discard_zeros(p + 8, n - 9); /* neither the first page nor the last as a whole */
    ck_assert_uint_eq(resident_pages(p, n), 4);
    ck_assert_int_eq(p[0] + p[3 * page - 1] + p[5 * page + 8], 3);
    mem_discard_zeros(p, n);
    ck_assert_uint_eq(resident_pages(p, n), 3);
    mem_discard_zeros(p + 1, page);
    mem_discard_zeros(NULL, 0);
    ck_assert_uint_eq(resident_pages(p, n), 3);
    mem_unmap(p, n);
}

static void *rest_and_go_on(void *arg)
{
    char **blocks = arg;

    blocks[0] = mem_alloc(100);
    memset(blocks[0], 'a', 100);
    mem_rest_thread();
    mem_rest_thread();
    blocks[1] = mem_alloc(200);
    memset(blocks[1], 'b', 200);
    mem_rest_thread();
    return NULL;
}

TEST(a_thread_that_rests_keeps_its_blocks)
{
    char *blocks[2];
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, rest_and_go_on, blocks), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(blocks[0][99], 'a');
    ck_assert_int_eq(blocks[1][199], 'b');
    mem_free(blocks[0]);
    mem_free(blocks[1]);
}

/* With -k all memory is locked, and the kernel refuses MADV_DONTNEED. */
TEST(locked_pages_are_discarded_too)
{
    size_t n = 4 * (size_t)sysconf(_SC_PAGESIZE);
    char *p = mem_map(n, MEM_PAGES_SMALL);

    ck_assert_ptr_nonnull(p);
    if (mlock(p, n) == 0) {
        memset(p, 'x', n);
        mem_discard(p, n);
        for (size_t i = 0; i < n; i++) {
            ck_assert_int_eq(p[i], 0);
        }
    }
    mem_unmap(p, n);
}

TEST(huge_mapping_is_aligned)
{
    size_t sizes[] = {1, 4096, 2 * MIB - 1, 2 * MIB, 3 * MIB, 16 * MIB};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *p = mem_map(sizes[i], MEM_PAGES_HUGE);

        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p & (2 * MIB - 1), 0);
        p[0] = 1;
        p[sizes[i] - 1] = 1;
        mem_unmap(p, sizes[i]);
    }
}

TEST(impossible_mapping_is_refused)
{
    ck_assert_ptr_null(mem_map(SIZE_MAX / 2, MEM_PAGES_SMALL));
    ck_assert_ptr_null(mem_map(SIZE_MAX / 2, MEM_PAGES_HUGE));
    ck_assert_ptr_null(mem_map(SIZE_MAX - 1, MEM_PAGES_HUGE));
    mem_unmap(NULL, 4096);
}

TEST(budget_is_exact_at_its_limit)
{
    struct budget b = {0};

    budget_set_limit(&b, 100);
    ck_assert(budget_take(&b, 60, 0));
    ck_assert(!budget_take(&b, 41, 0));
    ck_assert(budget_take(&b, 40, 0));
    ck_assert_int_eq(budget_left(&b), 0);
    ck_assert(!budget_take(&b, 11, 10));
    ck_assert(budget_take(&b, 10, 10));
    ck_assert_int_eq(budget_left(&b), -10);
    budget_add(&b, -110);
    ck_assert_int_eq(budget_left(&b), 100);
}

TEST(budget_comes_down_to_a_lower_limit_in_steps)
{
    struct budget b = {0};
    unsigned steps = 0;

    budget_set_limit(&b, 400 * MIB);
    ck_assert(budget_take(&b, 360 * MIB, 0));
    ck_assert(!budget_lower(&b));
    budget_set_limit(&b, 40 * MIB);
    ck_assert(budget_is_over(&b));
    ck_assert(budget_is_lowered(&b));
    ck_assert_int_eq(budget_left(&b), 0);
    while (budget_lower(&b)) {
        int64_t left = budget_left(&b);

        ck_assert_int_lt(left, 0);
        ck_assert_int_ge(left, -20 * (int64_t)MIB);
        ck_assert(!budget_lower(&b)); /* none before this one was lowered */
        budget_add(&b, left);
        steps++;
    }
    ck_assert_uint_gt(steps, 20);
    ck_assert_uint_lt(steps, 100);
    ck_assert(!budget_is_lowered(&b));
    ck_assert_int_ge(budget_left(&b), -(int64_t)MIB);

    /* What is given back in between counts, and a higher limit holds at once. */
    budget_set_limit(&b, 8 * MIB);
    budget_add(&b, 4 * MIB - atomic_load(&b.used_bytes));
    ck_assert(budget_lower(&b));
    ck_assert(!budget_is_lowered(&b));
    ck_assert_int_eq(budget_left(&b), 4 * MIB);
    budget_set_limit(&b, MIB);
    ck_assert(budget_lower(&b));
    budget_set_limit(&b, 6 * MIB);
    ck_assert(!budget_is_lowered(&b));
    ck_assert_int_eq(budget_left(&b), 2 * MIB);
}

static int64_t fill(struct budget *b)
{
    while (budget_take(b, MIB / 4, budget_overdraw(b))) {
    }
    return atomic_load(&b->used_bytes);
}

/* However often limits are set, no more can be used than the highest and its overdraft. */
TEST(setting_limits_again_makes_no_room)
{
    const int64_t lower[] = {64 * MIB, 63 * MIB, 16 * MIB};
    struct budget b = {0};

    for (unsigned i = 0; i < 30; i++) {
        budget_set_limit(&b, lower[i % 3]);
        budget_set_limit(&b, 64 * MIB);
        ck_assert_int_eq(fill(&b), 68 * MIB);
    }
    for (unsigned i = 0; i < 30; i++) {
        budget_set_limit(&b, 1024 * MIB);
        ck_assert_int_eq(fill(&b), 1056 * MIB);
        budget_set_limit(&b, lower[i % 3]);
        ck_assert_int_eq(fill(&b), 1056 * MIB);
        ck_assert_int_eq(budget_left(&b), -4 * (int64_t)MIB);
    }
}

#define TAKERS    4
#define TAKE_EACH 20000

static void *taker(void *arg)
{
    struct budget *b = arg;
    intptr_t taken = 0;

    for (int i = 0; i < TAKE_EACH; i++) {
        if (budget_take(b, 3, 0)) {
            taken += 3;
        }
        ck_assert_int_ge(budget_left(b), 0);
    }
    return (void *)taken;
}

TEST(budget_is_never_overdrawn_by_threads)
{
    struct budget b = {0};
    pthread_t threads[TAKERS];
    int64_t taken = 0;

    budget_set_limit(&b, 3 * TAKE_EACH);
    for (int i = 0; i < TAKERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, taker, &b), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        void *result;

        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        taken += (intptr_t)result;
    }
    ck_assert_int_eq(taken, 3 * TAKE_EACH);
    ck_assert_int_eq(budget_left(&b), 0);
}

TEST(seeds_differ_and_change_the_hash)
{
    uint64_t a = hash_random_seed();
    uint64_t b = hash_random_seed();

    ck_assert_uint_ne(a, b);
    ck_assert_uint_ne(hash_key(a, "key", 3), hash_key(b, "key", 3));
    ck_assert_uint_eq(hash_key(a, "key", 3), hash_key(a, "key", 3));
}
