/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of items in a file: engines that have it one after the other, and changes to it in
 * between. The state is that of the test that includes this.
 */
#ifndef MAYFLY_TESTS_LIB_ENGINE_ATTACHED_H
#define MAYFLY_TESTS_LIB_ENGINE_ATTACHED_H

#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/engine/attach.h"
#include "lib/memory/region.h"
#include "tests/lib/fixture.h"

static struct fixture f;
static struct attach a;
static int file = -1; /* what the engines share */
static uint32_t shards;
static uint64_t limit;
static uint32_t max_age_s;
static bool marks_stale;
static bool starts_passive;
static uint64_t seed;

static inline void remove_file(void)
{
    close(file);
    attach_close(&a);
}

static inline void make_file(void)
{
    file = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_ge(file, 0);
    shards = 2;
    limit = 16 * MIB;
    max_age_s = 0;
    marks_stale = false;
    starts_passive = false;
    seed = 1;
    unit_at_end(remove_file);
}

static inline void stop(void)
{
    fixture_stop(&f);
    ck_assert_str_eq(a.why, "");
    attach_close(&a);
}

static inline void start(void)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.shards = shards;
    cfg.limit_bytes = limit;
    cfg.item_size_max = 2 * MIB;
    cfg.seed = seed++; /* which must not matter to what is there */
    cfg.attach = &a;
    cfg.is_passive = starts_passive;
    memset(&a, 0, sizeof(a));
    a.max_age_s = max_age_s;
    a.marks_stale = marks_stale;
    ck_assert_msg(attach_open_fd(&a, dup(file)), "%s", a.why);
    fixture_start_threaded(&f, &cfg);
    fixture_verify(&f);
    unit_at_end(stop);
}

static inline void start_warm(void)
{
    start();
    ck_assert_msg(a.state == ATTACH_WARM, "%s", a.why);
}

static inline void start_cold(const char *why)
{
    start();
    ck_assert_int_eq(a.state, ATTACH_COLD);
    ck_assert_msg(strstr(a.why, why) != NULL, "%s, not %s", a.why, why);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

static inline uint64_t allocated(void)
{
    struct stat st;

    ck_assert_int_eq(fstat(file, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* Make holes of what is zero, as copying a file may. */
static inline void dig_holes(void)
{
    static const char zero[4096];
    char page[sizeof(zero)];
    off_t end = lseek(file, 0, SEEK_END);
    off_t at = 0;

    while ((at = lseek(file, at, SEEK_DATA)) >= 0 && at < end) {
        at -= at % (off_t)sizeof(page);
        ck_assert(region_read(file, (uint64_t)at, page, sizeof(page)));
        if (memcmp(page, zero, sizeof(page)) == 0) {
            ck_assert_int_eq(
                fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, sizeof(page)),
                0);
        }
        at += (off_t)sizeof(page);
    }
}

/* ---- files that are changed -------------------------------------------------------------- */

/* Another file with the same bytes, and the same holes. */
static inline int copy_of(int from)
{
    int to = memfd_create("copy", MFD_CLOEXEC);
    off_t end = lseek(from, 0, SEEK_END);
    off_t at = 0;

    ck_assert_int_eq(ftruncate(to, end), 0);
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t until = lseek(from, at, SEEK_HOLE);
        char *bytes = mem_alloc((size_t)(until - at));

        ck_assert(region_read(from, (uint64_t)at, bytes, (size_t)(until - at)));
        ck_assert(region_write(to, (uint64_t)at, bytes, (size_t)(until - at)));
        mem_free(bytes);
        at = until;
    }
    return to;
}

static inline void change(uint64_t at, uint8_t mask)
{
    uint8_t byte;

    ck_assert(region_read(file, at, &byte, 1));
    byte ^= mask;
    ck_assert(region_write(file, at, &byte, 1));
}

#endif
