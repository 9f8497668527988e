/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is not an item, and the memory budget of the process. Only mem.c names mimalloc;
 * sanitizer builds use the system's allocator.
 *
 * A budget counts what -m bounds: resident segments, indexes, wheels, ghosts, rings and
 * announced bodies. It is a plain counter: code that allocates such memory adds to it, and code
 * that releases it subtracts.
 */
#ifndef MAYFLY_LIB_BASE_MEM_H
#define MAYFLY_LIB_BASE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Some of the used bytes. */
enum budget_part {
    BUDGET_RETIRED, /* not in segments, and used until a grace period ends */
    /*
     * Of arrays whose items are moving to a smaller one. These bytes will become free too, but
     * that may take long, so a caller that needs room now must free some itself.
     */
    BUDGET_LEAVING,
    BUDGET_PINNED, /* in large values that slow readers have pinned */
    BUDGET_HELD,   /* in segments */
    BUDGET_PARTS
};

struct budget {
    /* [atomic] */
    _Atomic int64_t limit_bytes; /* as it was set */
    _Atomic int64_t bound_bytes; /* used may reach this: the limit, or more while it falls */
    _Atomic int64_t used_bytes;
    _Atomic int64_t part_bytes[BUDGET_PARTS];
};

/* As malloc, calloc (of one object), realloc and free of the C library. Context: any thread. */
void *mem_alloc(size_t n);
void *mem_zalloc(size_t n);
void *mem_realloc(void *p, size_t n);
void mem_free(void *p);

/* The same, aligned to a power of two; released by mem_free(). Context: any thread. */
void *mem_alloc_aligned(size_t n, size_t align);

/*
 * A zeroed object of n bytes on its own pages. Pages that are all zero can be released by
 * mem_discard_zeros(). NULL without memory. Context: any thread.
 */
void *mem_alloc_pages(size_t n);
void mem_free_pages(void *p, size_t n);

/*
 * The calling thread will not allocate for a long time: release what the allocator keeps for
 * it. What it has allocated stays, and other threads may free it. Context: any thread.
 */
void mem_rest_thread(void);

enum mem_pages { MEM_PAGES_SMALL, MEM_PAGES_HUGE };

/*
 * Zeroed pages from the system, for big arrays: resident only when touched, released at once by
 * mem_unmap(). MEM_PAGES_HUGE aligns to 2 MiB and asks for huge pages. NULL when the system
 * refuses. A system call, so never inside a shard. Context: any thread.
 */
void *mem_map(size_t n, enum mem_pages pages);
void mem_unmap(void *p, size_t n);

/*
 * The same in two steps, for an array that grows without moving: mem_reserve() takes address
 * space only, mem_commit() makes a part of it usable. False when the system refuses to commit
 * (overcommit is off, or data segments are limited). mem_unmap() releases the whole range.
 * System calls, so never inside a shard. Context: any thread.
 */
void *mem_reserve(size_t n, enum mem_pages pages);
bool mem_commit(void *p, size_t n);

/*
 * May a process commit any amount of memory, because only touched pages count? False where
 * overcommit is off (vm.overcommit_memory=2), and where data segments or the address space are
 * limited. System calls. Context: any thread.
 */
bool mem_promises_freely(void);

/*
 * Address space that the process may still take (RLIMIT_AS), in bytes; UINT64_MAX: it is not
 * limited. Context: any thread.
 */
uint64_t mem_address_space_left(void);

/*
 * Give the pages of a mapped range back to the system; they read as zero when touched again. A
 * system call, so never inside a shard. Context: any thread.
 */
void mem_discard(void *p, size_t n);

/*
 * Release those whole pages of a range, of any memory, that contain only zeros: they take no
 * memory until they are written again. No other thread may write there meanwhile. A system call
 * for each run of pages. Context: any thread.
 */
void mem_discard_zeros(void *p, size_t n);

/*
 * Make the pages of a mapped range resident. The range is not in use yet and reads as zero. May
 * take long (a huge page some 100 us), so never inside a shard. Context: any thread.
 */
void mem_touch(void *p, size_t n);

/*
 * The same for a large array: each call touches one part, which takes about 100 us. *done is
 * the number of resident bytes, 0 before the first call. True when the whole array is resident.
 * Context: any thread, outside a shard.
 */
#define MEM_TOUCH_BYTES ((size_t)512 << 10)
bool mem_touch_next(void *p, size_t n, size_t *done);

/*
 * Whether the system may use huge pages in a part of a range that was mapped with
 * MEM_PAGES_HUGE, in whole MEM_HUGE_BYTES. Only a hint. A system call, so never inside a shard.
 * Context: any thread.
 */
#define MEM_HUGE_BYTES ((size_t)2 << 20)
void mem_use_huge(void *p, size_t n, bool may);

/*
 * Leave a mapped range out of core files. A debugger that attaches as root still sees it. Fails
 * only where the system does not know how; then nothing changes. Context: any thread, outside a
 * shard.
 */
void mem_leave_out_of_cores(void *p, size_t n);

/*
 * Set the limit, in bytes. When more is used, the bound falls to it in steps (budget_lower()),
 * so that stores find room meanwhile. Context: any thread, one at a time.
 */
void budget_set_limit(struct budget *b, int64_t limit);

/*
 * Lower the bound by the next step. False if it has reached the limit, or if most of the memory
 * of the last step is still in use. Context: one thread.
 */
bool budget_lower(struct budget *b);

/* The limit as it was set, in bytes. Context: any thread. */
static inline int64_t budget_limit(const struct budget *b)
{
    return atomic_load_explicit(&b->limit_bytes, memory_order_relaxed);
}

/* Is the bound still falling to a lower limit? Context: any thread. */
static inline bool budget_is_lowered(const struct budget *b)
{
    return atomic_load_explicit(&b->bound_bytes, memory_order_relaxed) != budget_limit(b);
}

/* Is more used than the limit, whatever the bound? Context: any thread. */
static inline bool budget_is_over(const struct budget *b)
{
    return atomic_load_explicit(&b->used_bytes, memory_order_relaxed) > budget_limit(b);
}

/*
 * Bytes that may be used beyond the bound while all free memory waits for a grace period: 1/32
 * of the limit, at least 4 MiB. Context: any thread.
 */
static inline int64_t budget_overdraw(const struct budget *b)
{
    int64_t limit = budget_limit(b);

    return limit / 32 > (4 << 20) ? limit / 32 : 4 << 20;
}

/* Count n bytes unless used would exceed bound + overdraw; then false. Context: any thread. */
bool budget_take(struct budget *b, int64_t n, int64_t overdraw);

/* Count n bytes, or -n bytes less, whatever the limit. Context: any thread. */
static inline void budget_add(struct budget *b, int64_t n)
{
    atomic_fetch_add_explicit(&b->used_bytes, n, memory_order_relaxed);
}

/*
 * Count n of the used bytes as bytes of this part; negative: -n fewer. budget_part(): their
 * number. Context: any thread.
 */
static inline void budget_count(struct budget *b, enum budget_part part, int64_t n)
{
    atomic_fetch_add_explicit(&b->part_bytes[part], n, memory_order_relaxed);
}

static inline int64_t budget_part(const struct budget *b, enum budget_part part)
{
    return atomic_load_explicit(&b->part_bytes[part], memory_order_relaxed);
}

/* Bytes left; negative when overdrawn. Context: any thread. */
static inline int64_t budget_left(const struct budget *b)
{
    return atomic_load_explicit(&b->bound_bytes, memory_order_relaxed) -
           atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
}

/* Bytes left when retired and leaving ones have been released. Context: any thread. */
static inline int64_t budget_left_soon(const struct budget *b)
{
    return budget_left(b) + budget_part(b, BUDGET_RETIRED) + budget_part(b, BUDGET_LEAVING);
}

#endif
