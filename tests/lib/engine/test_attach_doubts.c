/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach, shard/attach, keep: a file in which anything is doubtful is not used at all.
 */
#include "lib/engine/attach.h"

#include <sys/stat.h>

#include "lib/base/hash.h"
#include "lib/memory/chunks.h"
#include "lib/memory/keep.h"
#include "lib/shard/attach.h"
#include "tests/lib/engine/attached.h"

TEST_FIXTURE(make_file, remove_file)

TEST(a_crash_is_a_cold_start)
{
    start();
    fixture_set(&f, "a", 100);
    stop();
    start_warm();
    int crashed = copy_of(file);
    stop();
    close(file);
    file = crashed;
    start_cold("clean stop");
}

TEST(what_is_something_else_is_not_overwritten)
{
    struct stat st;

    ck_assert(region_write(file, 0, "precious", 8));
    memset(&a, 0, sizeof(a));
    ck_assert_int_eq(fchmod(file, 0644), 0);
    ck_assert(!attach_open_fd(&a, dup(file)));
    ck_assert_ptr_nonnull(strstr(a.why, "something else"));
    ck_assert_int_eq(fstat(file, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0644);
}

/* Its owner could change items while the engine uses them. Only root can give a file away. */
TEST(a_file_of_another_user_is_refused)
{
    start();
    stop();
    if (geteuid() == 0) {
        memset(&a, 0, sizeof(a));
        ck_assert_int_eq(fchown(file, 65534, 65534), 0);
        ck_assert(!attach_open_fd(&a, dup(file)));
        ck_assert_ptr_nonnull(strstr(a.why, "another user"));
        a.why[0] = '\0';
    }
}

TEST(who_has_served_nobody_may_leave_nothing)
{
    start();
    fixture_set(&f, "a", 100);
    a.leaves_nothing = true;
    fixture_stop(&f);
    ck_assert_str_ne(a.why, "");
    attach_close(&a);
    start_cold("clean stop");
}

TEST(a_file_is_for_one_process)
{
    char path[64];
    struct attach other;

    start();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    memset(&other, 0, sizeof(other));
    ck_assert(!attach_open(&other, path));
    ck_assert_ptr_nonnull(strstr(other.why, "another process"));
}

/* Items of all kinds: blocks of each kind, dead ones, holes, pieces, segments. */
static void leave_all_kinds(void)
{
    start();
    for (unsigned i = 0; i < 300; i++) {
        fixture_set(&f, fixture_key("k", i), i);
    }
    for (unsigned i = 0; i < 100; i += 7) {
        ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
    }
    fixture_settle(&f);
    fixture_set(&f, "k301", 41);
    fixture_set(&f, "large", 300000);
    fixture_set(&f, "pieces", 40000);
    fixture_set_until(&f, "later", 300, fixture_now(&f) + 100000000);
    stop();
}

/* Start with what has become of the file: whatever it is, the engine works. */
static void start_anyhow(void)
{
    start();
    fixture_set(&f, "new", 1000);
    fixture_check(&f, "new", 1000);
    fixture_stop(&f);
    attach_close(&a);
}

/* Change a byte, start, and put the file back as it was. */
static bool is_warm_with(uint64_t at, uint8_t mask)
{
    int clean = file;

    file = copy_of(clean);
    change(at, mask);
    start();
    bool is_warm = a.state == ATTACH_WARM;
    ck_assert(is_warm || (a.why[0] != '\0' && fixture_counter(&f, CTR_curr_items) == 0));
    fixture_stop(&f);
    attach_close(&a);
    close(file);
    file = clean;
    return is_warm;
}

TEST(each_byte_of_the_head_counts)
{
    leave_all_kinds();
    ck_assert(is_warm_with(0, 0));
    for (uint64_t at = 8; at < 200; at++) {
        ck_assert_msg(!is_warm_with(at, 0x10), "byte %u", (unsigned)at);
    }
    for (uint64_t at = 200; at < 9000; at += 97) {
        ck_assert_msg(!is_warm_with(at, 0x01), "byte %u", (unsigned)at);
    }
}

/* Where the sum is in the head, and the number of bytes that it is of. */
#define SUM_AT 24

static size_t summed_bytes(char head[64 * KIB])
{
    uint64_t sum;
    size_t n = SUM_AT;

    memcpy(&sum, head + SUM_AT, sizeof(sum));
    memset(head + SUM_AT, 0, sizeof(sum));
    do {
        n += sizeof(sum);
        ck_assert_uint_le(n, 64 * KIB);
    } while (XXH3_64bits(head, n) != sum);
    return n;
}

/* The sum finds accidents, and anybody can compute it. */
TEST(numbers_of_the_head_are_doubted)
{
    static const uint64_t odd[] = {UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
                                   UINT64_C(1) << 57};
    static char head[64 * KIB];
    const size_t entry = sizeof(struct attach_shard) + sizeof(uint64_t);

    leave_all_kinds();
    ck_assert(region_read(file, 0, head, sizeof(head)));
    const size_t end = summed_bytes(head);
    const size_t shard_0 = end - ATTACH_SHARDS_MAX * entry;
    int clean = file;
    for (size_t at = SUM_AT + 8; at < shard_0 + entry; at += at == 192 ? shard_0 - at : 8) {
        for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
            uint64_t was;

            memcpy(&was, head + at, sizeof(was));
            memcpy(head + at, &odd[i], sizeof(was));
            uint64_t sum = XXH3_64bits(head, end);
            file = copy_of(clean);
            ck_assert(region_write(file, 0, head, sizeof(head)));
            ck_assert(region_write(file, SUM_AT, &sum, sizeof(sum)));
            start_anyhow();
            close(file);
            memcpy(head + at, &was, sizeof(was));
        }
    }
    file = clean;
}

TEST(each_byte_of_the_list_of_segments_counts)
{
    struct keep_segment list[2];

    leave_all_kinds();
    ck_assert(region_read(file, 64 * KIB, list, sizeof(list)));
    ck_assert(list[0].number != 0 && list[1].number != 0);
    for (uint64_t at = 64 * KIB; at < 64 * KIB + sizeof(list); at++) {
        ck_assert_msg(!is_warm_with(at, 0x10), "byte %u", (unsigned)at);
    }
}

/* Where a field of an item is in the file. */
static uint64_t place_of(const char *key, const void *field)
{
    struct shard *s = fixture_get(&f, key).shard;

    return a.region[s->id].at + (uint64_t)((const char *)field - s->memory.arena.base);
}

TEST(fields_of_blocks_are_doubted)
{
    struct {
        uint64_t at;
        uint8_t mask;
        const char *what;
    } wrong[24];
    const struct large *l;
    const struct item *piece;
    unsigned n = 0;

    leave_all_kinds();
    start_warm();
    const struct item *it = fixture_get(&f, "k201").item;
#define WRONG(key, field, bits)                                                                \
    (wrong[n].at = place_of(key, field), wrong[n].mask = (bits), wrong[n++].what = #field)
    WRONG("k201", (const char *)&it->shape, 0x01);     /* another size */
    WRONG("k201", (const char *)&it->shape + 1, 0x04); /* much larger */
    WRONG("k201", (const char *)&it->shape + 1, 0x08); /* dead */
    WRONG("k201", (const char *)&it->shape + 1, 0x10); /* wide */
    WRONG("k201", &it->key_len, 0xff);
    WRONG("k201", (const char *)&it->cas_len + 1, 0x20); /* a value of 8 KiB more */
    WRONG("k201", item_key(it), 0x01); /* another key, mostly of another shard or taken */
    it = fixture_get(&f, "later").item;
    WRONG("later", (const char *)&it->shape + 1, 0x10); /* wide */
    it = fixture_get(&f, "large").item;
    l = item_large(it);
    WRONG("large", &l->first, 0x01);
    WRONG("large", &l->segments, 0x02);
    WRONG("large", &it->cas_len, 0x08); /* its length */
    WRONG("large", &item_wide(it)->len_high, 0x01);
    WRONG("large", &item_wide(it)->far_large, WIDE_LARGE);
    WRONG("large", &item_wide(it)->far_large, 1u << WIDE_FAR_SHIFT);
    WRONG("large", &item_wide(it)->cas_high, 0x80);
    it = fixture_get(&f, "pieces").item;
    l = item_large(it);
    ck_assert_uint_gt(l->pieces, 0);
    piece = shard_item(fixture_get(&f, "pieces").shard, atomic_load(&l->piece[0]));
    WRONG("pieces", &l->pieces, 0x01);
    WRONG("pieces", &l->piece[0], 0x04);
    WRONG("pieces", &item_wide(piece)->client_flags, 0x01); /* its owner */
    WRONG("pieces", &piece->cas_len, 0x01);                 /* its length */
    WRONG("pieces", (const char *)&piece->shape + 1, 0x10); /* no owner */
    stop();
    for (unsigned i = 0; i < n; i++) {
        bool is_key = strcmp(wrong[i].what, "item_key(it)") == 0;

        ck_assert_msg(!is_warm_with(wrong[i].at, wrong[i].mask) || is_key, "%s", wrong[i].what);
    }
}

/* Segments may contain anything: it is rejected, or it is items. */
TEST(damaged_blocks_never_crash)
{
    struct rng r;

    leave_all_kinds();
    start_warm();
    uint64_t base = a.region[0].at;
    stop();
    int clean = file;
    rng_init(&r, rng_seed());
    for (unsigned i = 0; i < 300; i++) {
        file = copy_of(clean);
        for (unsigned k = rng_below(&r, 4); k < 5; k++) {
            change(base + 32 * KIB + rng_below(&r, 60000), (uint8_t)(1 + rng_below(&r, 255)));
        }
        start_anyhow();
        close(file);
    }
    file = clean;
}

TEST(a_file_that_was_cut_is_not_used)
{
    leave_all_kinds();
    ck_assert_int_eq(ftruncate(file, 128 * KIB), 0);
    start_cold("cut short");
}

/* Nobody can have left it so; it would come back when the first of them is deleted. */
TEST(a_key_in_two_shards_is_doubted)
{
    const struct route_slot at_0 = route_settled(0);

    start();
    uint32_t slot = (uint32_t)(fixture_hash(&f, "k") >> (64 - ROUTE_SLOT_BITS));
    ck_assert_int_eq(router_publish(&f.engine.router, slot, 1, at_0), MF_OK);
    fixture_set(&f, "k", 100);
    ck_assert_int_eq(router_publish(&f.engine.router, slot, 1, route_settled(1)), MF_OK);
    fixture_set(&f, "k", 100);
    ck_assert_int_eq(router_publish(&f.engine.router, slot, 1, route_moving(0, 1)), MF_OK);
    stop();
    start_cold("two shards have the same key");
}
