/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replid, frame, backlog: what was appended comes out wherever the ring ends; what may be
 * continued, and what not; names; with a writer at the same time, no bytes are taken for good
 * that are not.
 */
#include "lib/replica/backlog.h"

#include <pthread.h>
#include <sched.h>

#include "lib/base/num.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define RING_BYTES 4096u
#define MODEL_MAX  (1u << 20)

static struct budget budget;
static struct backlog *b;

/* All bytes of the stream, and where its blocks begin. */
static struct {
    char bytes[MODEL_MAX];
    bool is_boundary[MODEL_MAX];
    uint64_t end;
} model;

static void make_backlog(void)
{
    memset(&budget, 0, sizeof(budget));
    memset(&model, 0, sizeof(model));
    b = backlog_create(&budget);
    ck_assert_ptr_nonnull(b);
    ck_assert(backlog_reserve(b, RING_BYTES));
    ck_assert_uint_eq(backlog_bytes(b), RING_BYTES);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), RING_BYTES);
}

static void drop_backlog(void)
{
    backlog_destroy(&b);
    ck_assert_ptr_null(b);
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 0);
}

static struct replid id_now(void)
{
    struct backlog_name name;

    backlog_get_name(b, &name);
    return name.id;
}

static void note_appended(const char *block, size_t n)
{
    ck_assert_uint_lt(model.end + n, MODEL_MAX);
    memcpy(model.bytes + model.end, block, n);
    model.is_boundary[model.end] = true;
    model.end += n;
    ck_assert_uint_eq(backlog_end(b), model.end);
}

/* Append a block of n bytes in all, whose contents depend on where it is. */
static void append(size_t n)
{
    char block[RING_BYTES];
    const struct snap_block head = {.kind = SNAP_ITEMS,
                                    .raw = (uint32_t)(n - SNAP_BLOCK_BYTES),
                                    .stored = (uint32_t)(n - SNAP_BLOCK_BYTES)};

    for (size_t i = SNAP_BLOCK_BYTES; i < n; i++) {
        block[i] = (char)((backlog_end(b) + i) * 2654435761u >> 13);
    }
    backlog_append(b, &head, block);
    note_appended(block, n);
}

/* The bytes from an offset on are those of the model. */
static void check_copy(uint64_t offset, size_t n)
{
    char out[RING_BYTES + 1];
    ptrdiff_t got = backlog_copy(b, offset, out, n);
    uint64_t left = model.end - offset;

    ck_assert(got == (ptrdiff_t)(n < left ? n : left));
    ck_assert(memcmp(out, model.bytes + offset, (size_t)got) == 0);
}

/* ---- ids --------------------------------------------------------------------------------- */

TEST(ids_are_shown_and_read)
{
    char text[REPLID_CHARS + 1];
    struct replid id = replid_draw();
    struct replid other = replid_draw();
    struct replid read = {{0}};

    ck_assert(!replid_equal(&id, &other));
    ck_assert(!replid_is_none(&id) && replid_is_none(&read));
    replid_format(&id, text);
    ck_assert_uint_eq(strlen(text), REPLID_CHARS);
    ck_assert(replid_parse(span_str(text), &read));
    ck_assert(replid_equal(&id, &read));
    ck_assert(replid_parse(span_str("0123456789abcdefABCDEF0000ffFF99"), &read));
    ck_assert_uint_eq(read.bytes[0], 0x01);
    ck_assert_uint_eq(read.bytes[8], 0xab);
    ck_assert_uint_eq(read.bytes[15], 0x99);
    other = read;
    ck_assert(!replid_parse(span_str("0123456789abcdefABCDEF0000ffFF9"), &read));
    ck_assert(!replid_parse(span_str("0123456789abcdefABCDEF0000ffFF990"), &read));
    ck_assert(!replid_parse(span_str("0123456789abcdefABCDEF0000ffFF9g"), &read));
    ck_assert(!replid_parse(span_str("0123456789abcdefABCDEF0000ffFF9 "), &read));
    ck_assert(replid_equal(&other, &read));
}

TEST(the_ring_is_a_part_of_the_limit)
{
    ck_assert_uint_eq(backlog_default_bytes(64u << 20), 8u << 20);
    ck_assert_uint_eq(backlog_default_bytes(512u << 20), 16u << 20);
    ck_assert_uint_eq(backlog_default_bytes((uint64_t)1 << 40), 64u << 20);
}

TEST_FIXTURE(make_backlog, drop_backlog)

/* ---- bytes ------------------------------------------------------------------------------- */

/* 97 and 4096 have no divisor in common: a block begins at each position of the ring once. */
TEST(bytes_come_out_wherever_the_ring_ends)
{
    struct rng rng;

    rng_init(&rng, rng_seed());
    for (unsigned i = 0; i < RING_BYTES + 100; i++) {
        append(97);
        uint64_t start = backlog_start(b);

        ck_assert(start == (model.end > RING_BYTES ? model.end - RING_BYTES : 0));
        check_copy(model.end - 97, 97);
        check_copy(start, RING_BYTES + 1);
        check_copy(start + rng_below(&rng, model.end - start), 1 + rng_below(&rng, 200));
    }
}

TEST(blocks_of_all_lengths_come_out)
{
    for (size_t n = SNAP_BLOCK_BYTES; n <= 1000; n++) {
        append(n);
        check_copy(model.end - n, n + 1);
    }
    append(RING_BYTES);
    check_copy(model.end - RING_BYTES, RING_BYTES);
    ck_assert_uint_eq(backlog_start(b), model.end - RING_BYTES);
}

TEST(what_is_not_in_the_ring_is_refused)
{
    char out[8];

    ck_assert_int_eq(backlog_copy(b, 0, out, sizeof(out)), 0);
    ck_assert_int_eq(backlog_copy(b, 1, out, sizeof(out)), -1);
    while (model.end < 3 * RING_BYTES) {
        append(101);
    }
    uint64_t start = backlog_start(b);
    ck_assert_int_eq(backlog_copy(b, model.end, out, sizeof(out)), 0);
    ck_assert_int_eq(backlog_copy(b, model.end + 1, out, sizeof(out)), -1);
    ck_assert_int_eq(backlog_copy(b, UINT64_MAX, out, sizeof(out)), -1);
    ck_assert_int_eq(backlog_copy(b, model.end - 1, out, sizeof(out)), 1);
    ck_assert_int_eq(backlog_copy(b, start, out, sizeof(out)), sizeof(out));
    ck_assert_int_eq(backlog_copy(b, start, out, 0), 0);
    ck_assert_int_eq(backlog_copy(b, start - 1, out, sizeof(out)), -1);
    append(50);
    ck_assert_int_eq(backlog_copy(b, start + 49, out, sizeof(out)), -1);
    ck_assert_int_eq(backlog_copy(b, start + 50, out, sizeof(out)), sizeof(out));
}

/* ---- what may be continued --------------------------------------------------------------- */

/* What is expected of an offset below the end of the model. */
static enum backlog_answer expected(uint64_t offset)
{
    if (offset == model.end) {
        return BACKLOG_CONTINUES;
    }
    if (offset < backlog_start(b)) {
        return BACKLOG_TOO_OLD;
    }
    return model.is_boundary[offset] ? BACKLOG_CONTINUES : BACKLOG_NO_BLOCK;
}

static void check_answers(void)
{
    const struct replid id = id_now();
    struct replid other = replid_draw();

    for (uint64_t offset = 0; offset <= model.end; offset++) {
        ck_assert(backlog_may_continue(b, &id, offset) == expected(offset));
    }
    for (uint64_t more = 1; more < 100; more++) {
        ck_assert(backlog_may_continue(b, &id, model.end + more) == BACKLOG_TOO_NEW);
    }
    ck_assert_int_eq(backlog_may_continue(b, &other, model.end), BACKLOG_OTHER_ID);
    ck_assert_int_eq(backlog_may_continue(b, &(struct replid){{0}}, model.end),
                     BACKLOG_OTHER_ID);
}

TEST(only_a_block_may_be_continued)
{
    check_answers();
    append(100);
    check_answers();
    for (unsigned i = 0; model.end < 4 * RING_BYTES; i++) {
        append(SNAP_BLOCK_BYTES + i * 7 % 400);
    }
    check_answers();
}

/* A value may contain what looks like a block that begins there. */
TEST(what_looks_like_a_block_is_none)
{
    const struct replid id = id_now();
    const struct replid none = {{0}};
    char block[400];
    const struct snap_block head = {.kind = SNAP_ITEMS, .raw = 352, .stored = 352};
    const struct snap_block inner = {.kind = SNAP_ITEMS, .raw = 10, .stored = 10};

    memset(block, 'x', sizeof(block));
    frame_seal(block + 100, &inner, &none, 100);
    frame_seal(block + 200, &inner, &id, 201);
    backlog_append(b, &head, block);
    note_appended(block, sizeof(block));
    ck_assert_uint_ne(frame_length(block + 100, 100), 0);
    check_answers();
}

TEST(the_end_may_be_continued_without_anything_in_the_ring)
{
    const struct replid id = id_now();

    ck_assert_int_eq(backlog_may_continue(b, &id, 0), BACKLOG_CONTINUES);
    append(100);
    append(100);
    backlog_release(b);
    ck_assert_uint_eq(backlog_bytes(b), 0);
    ck_assert_int_eq(backlog_may_continue(b, &id, 100), BACKLOG_TOO_OLD);
    ck_assert_int_eq(backlog_may_continue(b, &id, 200), BACKLOG_CONTINUES);
    append(100);
    ck_assert_int_eq(backlog_may_continue(b, &id, 200), BACKLOG_TOO_OLD);
    ck_assert_int_eq(backlog_may_continue(b, &id, 300), BACKLOG_CONTINUES);
    ck_assert_uint_eq(backlog_start(b), 300);
    ck_assert(backlog_reserve(b, 2 * RING_BYTES));
    ck_assert_int_eq(atomic_load(&budget.used_bytes), 2 * RING_BYTES);
    append(100);
    ck_assert_int_eq(backlog_may_continue(b, &id, 200), BACKLOG_TOO_OLD);
    ck_assert_int_eq(backlog_may_continue(b, &id, 300), BACKLOG_CONTINUES);
    check_copy(300, 100);
}

TEST(a_gap_ends_what_came_before_and_its_end)
{
    const struct replid id = id_now();
    char out[100];

    append(100);
    append(100);
    backlog_gap(b);
    ck_assert_uint_eq(backlog_end(b), 201);
    for (uint64_t offset = 0; offset <= 200; offset++) {
        ck_assert_int_eq(backlog_may_continue(b, &id, offset), BACKLOG_TOO_OLD);
        ck_assert_int_eq(backlog_copy(b, offset, out, sizeof(out)), -1);
    }
    ck_assert_int_eq(backlog_may_continue(b, &id, 201), BACKLOG_CONTINUES);
    ck_assert_int_eq(backlog_may_continue(b, &id, 202), BACKLOG_TOO_NEW);
    model.end = 201;
    append(100);
    ck_assert_int_eq(backlog_may_continue(b, &id, 200), BACKLOG_TOO_OLD);
    ck_assert_int_eq(backlog_may_continue(b, &id, 201), BACKLOG_CONTINUES);
    ck_assert_int_eq(backlog_may_continue(b, &id, 301), BACKLOG_CONTINUES);
    check_copy(201, 100);
}

/* ---- names ------------------------------------------------------------------------------- */

TEST(a_history_goes_on_where_it_was_taken_over)
{
    struct backlog_name name = {.id = replid_draw(),
                                .previous = replid_draw(),
                                .previous_end = 5000,
                                .epoch = 7,
                                .offset = 123456};
    struct backlog_name now;

    append(100);
    backlog_take_over(b, &name);
    backlog_get_name(b, &now);
    ck_assert(replid_equal(&now.id, &name.id) && replid_equal(&now.previous, &name.previous));
    ck_assert_uint_eq(now.previous_end, 5000);
    ck_assert_uint_eq(now.epoch, 7);
    ck_assert_uint_eq(now.offset, 123456);
    ck_assert_int_eq(backlog_may_continue(b, &name.id, 123456), BACKLOG_CONTINUES);
    ck_assert_int_eq(backlog_may_continue(b, &name.id, 123455), BACKLOG_TOO_OLD);
    ck_assert_int_eq(backlog_may_continue(b, &name.id, 123457), BACKLOG_TOO_NEW);
    ck_assert_int_eq(backlog_may_continue(b, &name.previous, 5000), BACKLOG_TOO_OLD);
    ck_assert_int_eq(backlog_may_continue(b, &name.previous, 5001), BACKLOG_TOO_NEW);
    model.end = 123456;
    append(100);
    check_copy(123456, 100);
    ck_assert_int_eq(backlog_may_continue(b, &name.id, 123456), BACKLOG_CONTINUES);
    /* Back to smaller offsets, as when an empty server is followed. */
    name.offset = 10;
    backlog_take_over(b, &name);
    ck_assert_uint_eq(backlog_start(b), 10);
    model.end = 10;
    append(100);
    check_copy(10, 100);
    ck_assert_int_eq(backlog_may_continue(b, &name.id, 123456), BACKLOG_TOO_NEW);
}

static ssize_t read_stream(void *arg, void *out, size_t n, uint64_t offset)
{
    return backlog_copy(arg, offset, out, n);
}

/* Promoted at 300: blocks up to there are continued under the id before, and no others. */
TEST(a_promotion_ends_the_id_before)
{
    const struct replid before = id_now();
    const struct replid after = replid_draw();
    const uint64_t id_end = 300 + FRAME_ID_LENGTH;
    char block[FRAME_ID_LENGTH];
    struct snap_opener opener;
    struct snap_fault fault;
    struct snap_reader r;
    struct snap_block head;
    struct span content;
    struct backlog_name now;
    struct replid next;
    uint64_t epoch;

    for (unsigned i = 0; i < 3; i++) {
        append(100);
    }
    backlog_promote(b, &after, 12345);
    ck_assert_int_eq(backlog_copy(b, 300, block, sizeof(block)), sizeof(block));
    note_appended(block, sizeof(block));
    append(100);
    for (uint64_t offset = 0; offset <= 300; offset++) {
        bool is_block = offset % 100 == 0;

        ck_assert_int_eq(backlog_may_continue(b, &before, offset),
                         is_block ? BACKLOG_CONTINUES : BACKLOG_NO_BLOCK);
        ck_assert_int_eq(backlog_may_continue(b, &after, offset), BACKLOG_NO_BLOCK);
    }
    for (uint64_t offset = 301; offset <= id_end + 100; offset++) {
        bool is_block = offset == id_end || offset == id_end + 100;

        ck_assert_int_eq(backlog_may_continue(b, &before, offset), BACKLOG_TOO_NEW);
        ck_assert_int_eq(backlog_may_continue(b, &after, offset),
                         is_block ? BACKLOG_CONTINUES : BACKLOG_NO_BLOCK);
    }
    backlog_get_name(b, &now);
    ck_assert(replid_equal(&now.id, &after) && replid_equal(&now.previous, &before));
    ck_assert_uint_eq(now.previous_end, 300);
    ck_assert_uint_eq(now.epoch, 2);
    /* A reader that continues learns of it, and takes the next block under the new id only. */
    ck_assert(snap_opener_init(&opener));
    frame_reader_begin(&r, read_stream, b, 300);
    ck_assert_int_eq(frame_reader_next(&r, &before, &head, &fault), SNAP_NEXT_BLOCK);
    ck_assert_int_eq(head.kind, FRAME_ID);
    ck_assert_int_eq(head.unix_ms, 12345);
    ck_assert(snap_block_open(&r, &head, &opener, &content, &fault));
    ck_assert(frame_id_of(content, &next, &epoch));
    ck_assert(replid_equal(&next, &after));
    ck_assert_uint_eq(epoch, 2);
    ck_assert_int_eq(frame_reader_next(&r, &before, &head, &fault), SNAP_NEXT_BLOCK);
    ck_assert(!snap_block_open(&r, &head, &opener, &content, &fault));
    ck_assert_int_eq(fault.kind, SNAP_FAULT_SUM);
    r.offset = id_end;
    ck_assert_int_eq(frame_reader_next(&r, &after, &head, &fault), SNAP_NEXT_BLOCK);
    ck_assert(snap_block_open(&r, &head, &opener, &content, &fault));
    ck_assert_uint_eq(content.len, 100 - SNAP_BLOCK_BYTES);
    snap_opener_fini(&opener);
}

/* A replica's backlog has the same bytes, and follows promotions. */
TEST(a_copy_has_the_same_bytes_and_names)
{
    const struct replid next = replid_draw();
    char block[RING_BYTES];
    char out[RING_BYTES];
    struct backlog *copy = backlog_create(&budget);
    struct backlog_name name;
    struct backlog_name copied;

    ck_assert(backlog_reserve(copy, RING_BYTES));
    append(500);
    backlog_get_name(b, &name);
    backlog_take_over(copy, &name);
    append(100);
    append(201);
    backlog_promote(b, &next, 1);
    model.end = backlog_end(b);
    append(77);
    while (backlog_end(copy) != backlog_end(b)) {
        uint64_t offset = backlog_end(copy);
        ptrdiff_t n = backlog_copy(b, offset, block, sizeof(block));

        ck_assert_int_ge(n, SNAP_BLOCK_BYTES);
        size_t length = frame_length(block, offset);
        ck_assert_uint_ne(length, 0);
        ck_assert(!backlog_append_copy(copy, block, length - 1));
        ck_assert(n == (ptrdiff_t)length || !backlog_append_copy(copy, block, length + 1));
        block[length - 1] ^= 1;
        ck_assert(!backlog_append_copy(copy, block, length));
        block[length - 1] ^= 1;
        ck_assert_uint_eq(backlog_end(copy), offset);
        ck_assert(backlog_append_copy(copy, block, length));
        ck_assert(!backlog_append_copy(copy, block, length)); /* it belongs where it was */
    }
    ck_assert_int_eq(backlog_copy(b, name.offset, block, sizeof(block)),
                     (ptrdiff_t)(backlog_end(b) - name.offset));
    ck_assert_int_eq(backlog_copy(copy, name.offset, out, sizeof(out)),
                     (ptrdiff_t)(backlog_end(b) - name.offset));
    ck_assert_mem_eq(out, block, backlog_end(b) - name.offset);
    ck_assert_int_eq(backlog_may_continue(copy, &name.id, 0), BACKLOG_TOO_OLD);
    backlog_get_name(b, &name);
    backlog_get_name(copy, &copied);
    ck_assert(replid_equal(&name.id, &copied.id) && replid_equal(&name.id, &next));
    ck_assert(replid_equal(&name.previous, &copied.previous));
    ck_assert_uint_eq(name.previous_end, copied.previous_end);
    ck_assert_uint_eq(name.epoch, copied.epoch);
    backlog_destroy(&copy);
}

TEST(each_answer_has_a_text)
{
    for (int answer = BACKLOG_CONTINUES; answer <= BACKLOG_BUSY; answer++) {
        ck_assert_uint_gt(strlen(backlog_answer_text((enum backlog_answer)answer)), 0);
    }
}

/* ---- several threads --------------------------------------------------------------------- */

#define READERS  3u
#define OVERRUNS 60u

static _Atomic unsigned reading;
static _Atomic uint64_t bytes_read;

/*
 * From the end on, block by block; then the same blocks again until they are gone, at any
 * moment of which they are as they were.
 */
static void *read_until_overrun(void *arg)
{
    const struct replid id = id_now();
    char first[RING_BYTES];
    char again[RING_BYTES];

    for (unsigned i = 0; i < OVERRUNS; i++) {
        uint64_t offset = backlog_end(b);
        size_t have = 0;
        ptrdiff_t n;

        while (have < RING_BYTES / 2) {
            n = backlog_copy(b, offset + have, first + have, SNAP_BLOCK_BYTES);
            if (n == 0) {
                (void)sched_yield();
                continue;
            }
            if (n < 0) {
                break;
            }
            size_t length = frame_length(first + have, offset + have);

            must(n == SNAP_BLOCK_BYTES && length != 0 && length <= 600);
            n = backlog_copy(b, offset + have, first + have, length);
            if (n < 0) {
                break;
            }
            must(frame_is_good(first + have, (size_t)n, &id, offset + have));
            have += length;
        }
        while (have != 0 && (n = backlog_copy(b, offset, again, have)) >= 0) {
            must(n == (ptrdiff_t)have && memcmp(first, again, have) == 0);
            atomic_fetch_add(&bytes_read, have);
        }
    }
    atomic_fetch_sub(&reading, 1);
    return NULL;
}

TEST(no_bytes_are_taken_for_good_that_are_not)
{
    struct rng rng;
    pthread_t threads[READERS];

    rng_init(&rng, rng_seed());
    atomic_store(&reading, READERS);
    atomic_store(&bytes_read, 0);
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_until_overrun, NULL), 0);
    }
    while (atomic_load(&reading) != 0) {
        const uint32_t n = (uint32_t)rng_below(&rng, 500);
        const struct snap_block head = {.kind = SNAP_ITEMS, .raw = n, .stored = n};
        char block[600];

        memset(block, (int)n, sizeof(block));
        backlog_append(b, &head, block);
        if (atomic_load(&bytes_read) == 0) {
            (void)usleep(100); /* at full speed they may be overrun each time */
        } else if (n % 8 == 0) {
            (void)sched_yield();
        }
    }
    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_gt(atomic_load(&bytes_read), 0);
}
