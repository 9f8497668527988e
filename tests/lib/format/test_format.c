/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * encode, decode, scan, fault: what was written comes back, and whatever was damaged is found
 * before anything of it is given out.
 */
#include "lib/base/hash.h"
#include "lib/base/load.h"
#include "lib/base/mem.h"
#include "lib/format/scan.h"
#include "lib/memory/item.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"
#include "tests/lib/format/files.h"

#define NOW 1700000000123

/* What a scan gave out: a sum over the items in any order, and how many they are. */
struct taken {
    uint64_t items, sum;
    uint64_t blocks;
    int64_t flush_at;
    char prefix[ITEM_KEY_MAX];
    size_t prefix_len;
    uint64_t prefix_after; /* items before the prefix */
    struct buf value;      /* in parts */
    struct snap_item item;
    char key[256];
    unsigned dropped;
    uint64_t item_limit; /* stop after this number; 0: never */
};

static uint64_t item_sum(const struct snap_item *it, struct span value)
{
    uint64_t n[5] = {it->marks, it->heat, it->client_flags, (uint64_t)it->cas,
                     (uint64_t)it->deadline};
    uint64_t sum = hash_key(it->idle_s, n, sizeof(n));

    sum = hash_key(sum, it->key.ptr, it->key.len);
    return hash_key(sum, value.ptr, value.len);
}

static bool on_item(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct taken *t = arg;

    ck_assert(b->kind == SNAP_ITEMS);
    t->items++;
    t->sum += item_sum(it, it->value);
    return t->item_limit == 0 || t->items < t->item_limit;
}

static bool on_value_begin(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct taken *t = arg;

    ck_assert(b->kind == SNAP_VALUE);
    t->item = *it;
    memcpy(t->key, it->key.ptr, it->key.len);
    t->item.key.ptr = t->key;
    buf_clear(&t->value);
    return buf_append(&t->value, it->value.ptr, it->value.len);
}

static bool on_value_part(void *arg, struct span bytes)
{
    struct taken *t = arg;

    return buf_append(&t->value, bytes.ptr, bytes.len);
}

static bool on_value_end(void *arg)
{
    struct taken *t = arg;

    ck_assert(buf_len(&t->value) == t->item.value_len);
    t->items++;
    t->sum += item_sum(&t->item, buf_span(&t->value));
    return true;
}

static void on_value_drop(void *arg)
{
    struct taken *t = arg;

    t->dropped++;
}

static bool on_flush(void *arg, int64_t at)
{
    struct taken *t = arg;

    t->flush_at = at;
    return true;
}

static bool on_prefix(void *arg, struct span prefix)
{
    struct taken *t = arg;

    ck_assert(prefix.len <= sizeof(t->prefix));
    memcpy(t->prefix, prefix.ptr, prefix.len);
    t->prefix_len = prefix.len;
    t->prefix_after = t->items;
    return true;
}

static void on_block(void *arg, const struct snap_block *b)
{
    struct taken *t = arg;

    t->blocks++;
}

/* Scan the bytes. True: they are whole. */
static bool scan_bytes(struct span file, struct taken *t, struct snap_fault *fault)
{
    const struct scan_sink sink = {
        .arg = t,
        .item = on_item,
        .value_begin = on_value_begin,
        .value_part = on_value_part,
        .value_end = on_value_end,
        .value_drop = on_value_drop,
        .flush = on_flush,
        .prefix = on_prefix,
        .block = on_block,
    };
    struct snap_opener o;
    struct scan s;
    bool is_whole = false;

    ck_assert(snap_opener_init(&o));
    if (scan_init(&s, file_read, &file)) {
        scan_run(&s, &o, &sink);
        is_whole = s.is_whole;
    }
    *fault = s.fault;
    ck_assert(is_whole ? fault->kind == SNAP_FINE : true);
    scan_fini(&s);
    snap_opener_fini(&o);
    buf_fini(&t->value);
    return is_whole;
}

/* A value of this size, repeating so that it can be compressed, or not. */
static void fill(struct rng *r, char *out, size_t n, bool is_random)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = is_random ? (char)rng_next(r) : (char)('a' + i % 7);
    }
}

static struct snap_item draw_item(struct rng *r, char *key, char *value, size_t value_max)
{
    struct snap_item it = {
        .marks = (uint8_t)rng_below(r, 4),
        .heat = (uint8_t)rng_next(r),
        .client_flags = (uint32_t)rng_next(r),
        .cas = rng_next(r),
        .idle_s = (uint32_t)rng_next(r),
        .deadline = rng_below(r, 2) == 0 ? SNAP_DEADLINE_NEVER : (int64_t)rng_next(r),
        .key = span_of(key, 1 + rng_below(r, 250)),
        .value = span_of(value, rng_below(r, value_max + 1)),
    };

    fill(r, key, it.key.len, true);
    fill(r, value, it.value.len, rng_below(r, 2) == 0);
    it.value_len = (uint32_t)it.value.len;
    return it;
}

/* Put an item, in parts if it is one of the long ones. */
static void put(struct snap_encoder *e, struct rng *r, const struct snap_item *it)
{
    if (it->key.len + it->value.len <= SNAP_RAW_MAX - SNAP_ITEM_BYTES) {
        if (!snap_put_item(e, it)) {
            ck_assert(snap_encoder_send(e, NOW));
            ck_assert(snap_put_item(e, it));
        }
        return;
    }
    ck_assert(snap_value_begin(e, it, NOW));
    for (size_t at = 0; at < it->value.len;) {
        size_t n = 1 + rng_below(r, 300000);

        n = n < it->value.len - at ? n : it->value.len - at;
        ck_assert(snap_value_part(e, span_of(it->value.ptr + at, n), NOW));
        at += n;
    }
    ck_assert(snap_value_end(e, NOW));
}

#define LONGEST ((size_t)1 << 20)

/* A file with items at random; returns what a scan has to give out. */
static struct taken make(struct buf *file, struct rng *r, unsigned items, size_t value_max,
                         bool is_packed, bool has_flush)
{
    struct snap_header h = {.unix_ms = NOW, .items = items, .bytes = 17, .chain = 5, .log = 6};
    struct taken t = {0};
    struct snap_encoder e;
    char *value = malloc(LONGEST);
    char key[256];

    *file = (struct buf){0};
    ck_assert(snap_encoder_begin(&e, file_append, file, &h, is_packed));
    if (has_flush) {
        ck_assert(snap_put_flush(&e, NOW + 5000, NOW));
        t.flush_at = NOW + 5000;
    }
    for (unsigned i = 0; i < items; i++) {
        struct snap_item it = draw_item(r, key, value, value_max);

        put(&e, r, &it);
        t.items++;
        t.sum += item_sum(&it, it.value);
        if (rng_below(r, 10) == 0) {
            ck_assert(snap_encoder_send(&e, NOW));
        }
    }
    ck_assert(snap_encoder_end(&e, NOW));
    ck_assert_uint_eq(e.offset, buf_len(file));
    snap_encoder_fini(&e);
    free(value);
    return t;
}

TEST_LOOP(what_is_written_comes_back, 24)
{
    static const size_t value_max[] = {0, 100, 3000, LONGEST};
    struct taken got = {0};
    struct snap_fault fault;
    struct buf file;
    struct rng r;

    rng_init(&r, rng_seed() + (uint64_t)_i);
    struct taken want = make(&file, &r, _i < 4 ? (unsigned)_i : 30, value_max[_i % 4],
                             pack_is_there() && _i % 8 >= 4, _i % 3 == 0);
    bool is_whole = scan_bytes(buf_span(&file), &got, &fault);
    ck_assert_int_eq(fault.kind, SNAP_FINE);
    ck_assert(is_whole);
    ck_assert_uint_eq(got.items, want.items);
    ck_assert_uint_eq(got.sum, want.sum);
    ck_assert_int_eq(got.flush_at, want.flush_at);
    buf_fini(&file);
}

TEST(a_packed_file_is_smaller)
{
    struct taken got = {0};
    struct snap_fault fault;
    struct buf plain;
    struct buf packed;
    struct rng r;

    if (!pack_is_there()) {
        return;
    }
    rng_init(&r, 1);
    make(&plain, &r, 300, 900, false, false);
    rng_init(&r, 1);
    make(&packed, &r, 300, 900, true, false);
    ck_assert_uint_lt(buf_len(&packed), buf_len(&plain) * 9 / 10);
    ck_assert(scan_bytes(buf_span(&packed), &got, &fault));
    buf_fini(&plain);
    buf_fini(&packed);
}

/* A scan of damaged bytes gives out whole blocks of the file and finds a fault. */
static void check_damaged(struct span file, const struct taken *whole)
{
    struct taken got = {0};
    struct snap_fault fault;
    char text[SNAP_FAULT_TEXT_MAX];

    ck_assert(!scan_bytes(file, &got, &fault));
    ck_assert(fault.kind != SNAP_FINE);
    ck_assert(got.items <= whole->items);
    ck_assert(got.items == 0 || got.items < whole->items || got.sum == whole->sum);
    ck_assert(strlen(snap_fault_text(&fault, text)) > 5);
}

TEST_LOOP(a_file_that_is_cut_at_any_byte_is_found_out, 2)
{
    struct buf file;
    struct rng r;

    if (_i == 1 && !pack_is_there()) {
        return;
    }
    rng_init(&r, rng_seed());
    struct taken whole = make(&file, &r, 20, 60, _i == 1, true);
    for (size_t n = 0; n < buf_len(&file); n++) {
        char *copy = malloc(n + 1);

        memcpy(copy, buf_begin(&file), n);
        check_damaged(span_of(copy, n), &whole);
        free(copy);
    }
    buf_fini(&file);
}

TEST_LOOP(any_byte_that_is_flipped_is_found, 4)
{
    struct buf file;
    struct rng r;

    if (_i % 2 == 1 && !pack_is_there()) {
        return;
    }
    rng_init(&r, rng_seed());
    struct taken whole = make(&file, &r, 20, 60, _i % 2 == 1, true);
    for (size_t at = 0; at < buf_len(&file); at++) {
        char was = buf_begin(&file)[at];

        buf_begin(&file)[at] = (char)(was ^ (_i < 2 ? 0xff : 1 << at % 8));
        check_damaged(buf_span(&file), &whole);
        buf_begin(&file)[at] = was;
    }
    buf_fini(&file);
}

TEST(a_value_in_parts_that_is_cut_or_damaged_is_dropped)
{
    struct taken whole;
    struct buf file;
    struct rng r;

    rng_init(&r, 3);
    do {
        whole = make(&file, &r, 1, LONGEST, false, false);
        if (buf_len(&file) < 600000) {
            buf_fini(&file);
        }
    } while (buf_len(&file) < 600000);
    for (size_t n = 1; n < buf_len(&file); n += 9973) {
        check_damaged(span_of(buf_begin(&file), n), &whole);
        buf_begin(&file)[n] ^= 8;
        check_damaged(buf_span(&file), &whole);
        buf_begin(&file)[n] ^= 8;
    }
    buf_fini(&file);
}

/* The text for these bytes. */
static const char *text_for(struct span file)
{
    static char text[SNAP_FAULT_TEXT_MAX];
    struct taken got = {0};
    struct snap_fault fault;

    ck_assert(!scan_bytes(file, &got, &fault));
    return snap_fault_text(&fault, text);
}

TEST(faults_are_named)
{
    char expected[SNAP_FAULT_TEXT_MAX];
    struct snap_header h = {.unix_ms = NOW, .version = 3, .least = 3};
    char header[SNAP_HEADER_BYTES];
    struct buf file;
    struct rng r;

    ck_assert_str_eq(text_for(span_str("REDIS0010")), "is a Redis RDB file");
    ck_assert_str_eq(text_for(span_str("PK\3\4 and so on")), "is not a snapshot of mayfly");
    ck_assert_str_eq(text_for(span_str("")), "is empty");
    ck_assert_str_eq(text_for(span_str("MAYFLYS1abc")), "ends within its header");
    snap_header_put(header, &h);
    ck_assert_str_eq(text_for(span_of(header, sizeof(header))), "version 3, this reads 1");
    header[20] ^= 1;
    ck_assert_str_eq(text_for(span_of(header, sizeof(header))), "header: checksum differs");
    h = (struct snap_header){.unix_ms = NOW};
    snap_header_put(header, &h);
    ck_assert_str_eq(text_for(span_of(header, sizeof(header))), "version 0, this reads 1");

    rng_init(&r, 5);
    make(&file, &r, 3, 50, false, true);
    size_t end = buf_len(&file) - SNAP_BLOCK_BYTES - SNAP_END_BYTES;
    /* The flush is block 0, the items block 1, the end block 2. */
    buf_end(&file)[-1] ^= 1;
    snprintf(expected, sizeof(expected), "block 2 at %zu: checksum differs", end);
    ck_assert_str_eq(text_for(buf_span(&file)), expected);
    buf_end(&file)[-1] ^= 1;
    snprintf(expected, sizeof(expected), "block 2 at %zu: the file ends here", end);
    ck_assert_str_eq(text_for(span_of(buf_begin(&file), end)), expected);
    buf_begin(&file)[end + 4] = 99;
    snprintf(expected, sizeof(expected), "block 2 at %zu: unknown kind 99", end);
    ck_assert_str_eq(text_for(buf_span(&file)), expected);
    buf_begin(&file)[end + 4] = SNAP_END;
    ck_assert(buf_append(&file, "x", 1));
    snprintf(expected, sizeof(expected), "block 2 at %zu: something follows the end", end);
    ck_assert_str_eq(text_for(buf_span(&file)), expected);
    buf_fini(&file);
}

/* A block of a kind that nobody knows, where the END is, and the END behind it. */
static void insert_unknown(struct buf *file, uint8_t flags, uint64_t sum)
{
    struct snap_block b = {.kind = 77, .flags = flags, .raw = 3, .stored = 3, .number = 1};
    char out[SNAP_BLOCK_BYTES + SNAP_END_BYTES];
    char *p = out + SNAP_BLOCK_BYTES;

    file->end -= sizeof(out);
    memcpy(p, "???", 3);
    snap_block_put(out, &b, sum, p);
    ck_assert(buf_append(file, out, SNAP_BLOCK_BYTES + 3));
    b = (struct snap_block){.kind = SNAP_END, .raw = 24, .stored = 24, .number = 2};
    store_le64(p, 3);
    store_le64(p + 8, 2);
    store_le64(p + 16, buf_len(file));
    snap_block_put(out, &b, sum, p);
    ck_assert(buf_append(file, out, sizeof(out)));
}

TEST(an_unknown_block_is_passed_over_if_it_is_optional)
{
    struct taken got = {0};
    struct snap_fault fault;
    struct buf file;
    struct rng r;
    uint64_t sum;

    rng_init(&r, 6);
    do {
        make(&file, &r, 3, 50, false, false);
        sum = load_le64(buf_begin(&file) + 56);
        if (load_le32(buf_begin(&file) + SNAP_HEADER_BYTES + 16) != 3) {
            buf_fini(&file);
        }
    } while (buf_len(&file) == 0);
    insert_unknown(&file, SNAP_OPTIONAL, sum);
    ck_assert(scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_uint_eq(got.items, 3);
    ck_assert_uint_eq(got.blocks, 2);
    file.end -= SNAP_BLOCK_BYTES + 3;
    insert_unknown(&file, 0, sum);
    ck_assert(!scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_int_eq(fault.kind, SNAP_FAULT_KIND);
    buf_fini(&file);
}

/* A block of this file in the place of the same block of another one. */
TEST(a_block_of_another_file_is_not_taken)
{
    struct taken got = {0};
    struct snap_fault fault;
    struct snap_header h = {.unix_ms = NOW + 1};
    struct buf file;
    struct rng r;

    rng_init(&r, 7);
    make(&file, &r, 3, 50, false, false);
    h.version = SNAP_VERSION;
    h.least = SNAP_VERSION_FIRST;
    snap_header_put(buf_begin(&file), &h);
    ck_assert(!scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_int_eq(fault.kind, SNAP_FAULT_SUM);
    ck_assert_uint_eq(got.items, 0);
    buf_fini(&file);
}

TEST(a_sink_may_have_enough)
{
    struct taken got = {.item_limit = 2};
    struct snap_fault fault;
    struct buf file;
    struct rng r;

    rng_init(&r, 8);
    make(&file, &r, 10, 50, false, false);
    ck_assert(!scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_int_eq(fault.kind, SNAP_FINE);
    ck_assert_uint_eq(got.items, 2);
    buf_fini(&file);
}

static bool write_some(void *arg, const void *bytes, size_t n)
{
    int *left = arg;

    (void)bytes, (void)n;
    return (*left)-- > 0;
}

TEST_LOOP(a_failed_write_is_the_end, 3)
{
    struct snap_header h = {.unix_ms = NOW};
    struct snap_item it = {.key = span_str("k"), .value = span_str("v"), .value_len = 1};
    struct snap_encoder e;
    int left = _i;

    ck_assert_int_eq(snap_encoder_begin(&e, write_some, &left, &h, false), _i > 0);
    if (_i > 0) {
        ck_assert(snap_put_item(&e, &it));
        ck_assert_int_eq(snap_encoder_send(&e, NOW), _i > 1);
        ck_assert(!snap_encoder_end(&e, NOW));
    }
    snap_encoder_fini(&e);
    /* Nothing was tried after the first failure. */
    ck_assert_int_eq(left, -1);
}

/* ---- what no encoder writes -------------------------------------------------------------- */

/*
 * A file, or a log, of one block, sealed as it should be, with this content. Returns what is
 * found.
 */
static enum snap_fault_kind fault_in(uint32_t flags, struct snap_block b, struct span content)
{
    struct snap_header h = {.unix_ms = NOW, .version = 1, .least = 1, .flags = flags};
    char header[SNAP_HEADER_BYTES];
    char block[SNAP_BLOCK_BYTES];
    struct snap_fault fault;
    struct taken got = {0};
    struct buf file = {0};

    snap_header_put(header, &h);
    b.stored = (uint32_t)content.len;
    snap_block_put(block, &b, h.sum, content.ptr);
    ck_assert(buf_append(&file, header, sizeof(header)));
    ck_assert(buf_append(&file, block, sizeof(block)));
    ck_assert(buf_append(&file, content.ptr, content.len));
    ck_assert(!scan_bytes(buf_span(&file), &got, &fault) || fault.kind == SNAP_FINE);
    buf_fini(&file);
    return fault.kind;
}

static enum snap_fault_kind fault_of(struct snap_block b, struct span content)
{
    return fault_in(0, b, content);
}

TEST(fields_that_contradict_each_other_are_found)
{
    static const char zeros[256];
    const struct span eight = {zeros, 8};
    const struct span end = {zeros, SNAP_END_BYTES};
    struct snap_block b = {.kind = SNAP_FLUSH, .raw = 8};

    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_CUT); /* there is no END */
    b.raw = 9;
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS);
    b.raw = SNAP_RAW_MAX + 1;
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS);
    b = (struct snap_block){.kind = SNAP_FLUSH, .raw = 8, .flags = SNAP_PACKED};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS); /* packed is shorter */
    b = (struct snap_block){.kind = SNAP_FLUSH, .raw = 8, .flags = 0x80};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS);
    b = (struct snap_block){.kind = SNAP_FLUSH, .raw = 8, .number = 1};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS);
    b = (struct snap_block){.kind = SNAP_FLUSH, .raw = 8, .items = 1};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS);
    b = (struct snap_block){.kind = SNAP_ITEMS, .raw = 66, .items = 3};
    ck_assert_int_eq(fault_of(b, span_of(zeros, 66)), SNAP_FAULT_FIELDS);
    b = (struct snap_block){.kind = SNAP_VALUE, .raw = 8, .items = 2};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_FIELDS);
    b = (struct snap_block){.kind = SNAP_KEYS, .raw = 8, .items = 1};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_KIND); /* only in a log */
    b = (struct snap_block){.kind = SNAP_DUE, .raw = 8};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_KIND); /* likewise */
    b = (struct snap_block){.kind = SNAP_PREFIX, .raw = 8};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_KIND); /* likewise */
    b = (struct snap_block){.kind = SNAP_END, .raw = SNAP_END_BYTES, .flags = SNAP_OPTIONAL};
    ck_assert_int_eq(fault_of(b, end), SNAP_FAULT_FIELDS);
    /* A part that continues nothing. */
    b = (struct snap_block){.kind = SNAP_VALUE, .raw = 8};
    ck_assert_int_eq(fault_of(b, eight), SNAP_FAULT_VALUE);
}

/* A prefix is as long as a key may be, and is no item. A log that is whole ends anywhere. */
TEST(malformed_prefixes_are_found)
{
    static const char zeros[256];
    static const struct {
        uint32_t raw, items;
        enum snap_fault_kind want;
    } cases[] = {
        {1, 0, SNAP_FAULT_CUT},     {ITEM_KEY_MAX, 0, SNAP_FAULT_CUT},
        {0, 0, SNAP_FAULT_CONTENT}, {ITEM_KEY_MAX + 1, 0, SNAP_FAULT_CONTENT},
        {1, 1, SNAP_FAULT_FIELDS},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct snap_block b = {
            .kind = SNAP_PREFIX, .raw = cases[i].raw, .items = cases[i].items};

        ck_assert_int_eq(fault_in(SNAP_IS_LOG, b, span_of(zeros, cases[i].raw)), cases[i].want);
    }
}

/* In its place, between the items of before and of after it. */
TEST_LOOP(a_prefix_comes_back_in_its_place, 3)
{
    static const size_t lens[] = {1, 100, ITEM_KEY_MAX};
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG};
    const struct snap_item it = {.key = span_str("k"), .value = span_str("v"), .value_len = 1};
    char text[ITEM_KEY_MAX];
    struct taken got = {0};
    struct snap_fault fault;
    struct snap_encoder e;
    struct buf file = {0};

    memset(text, 'p', sizeof(text));
    ck_assert(snap_encoder_begin(&e, file_append, &file, &h, pack_is_there()));
    ck_assert(snap_put_item(&e, &it));
    ck_assert(snap_put_prefix(&e, span_of(text, lens[_i]), NOW));
    ck_assert(snap_put_item(&e, &it));
    ck_assert(snap_encoder_send(&e, NOW));
    snap_encoder_fini(&e);
    ck_assert(!scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_int_eq(fault.kind, SNAP_FAULT_CUT); /* a log has no END */
    ck_assert_uint_eq(fault.offset, buf_len(&file));
    ck_assert_uint_eq(got.items, 2);
    ck_assert_uint_eq(got.prefix_len, lens[_i]);
    ck_assert_uint_eq(got.prefix_after, 1);
    ck_assert_int_eq(memcmp(got.prefix, text, lens[_i]), 0);
    buf_fini(&file);
}

/* END counts items and blocks, and tells where it is. */
TEST_LOOP(totals_that_differ_are_found, 4)
{
    struct snap_block b = {.kind = SNAP_END, .raw = SNAP_END_BYTES};
    char end[SNAP_END_BYTES];

    store_le64(end, _i == 1);
    store_le64(end + 8, _i == 2);
    store_le64(end + 16, SNAP_HEADER_BYTES + (_i == 3));
    ck_assert_int_eq(fault_of(b, span_of(end, sizeof(end))),
                     _i == 0 ? SNAP_FINE : SNAP_FAULT_TOTALS);
}

/* Items with marks that a snapshot does not have, without a key, or longer than their block. */
TEST(malformed_items_are_found)
{
    struct snap_block b = {.kind = SNAP_ITEMS, .raw = 40, .items = 1};
    char content[40] = {0};
    const struct span all = {content, sizeof(content)};

    content[0] = 8; /* bytes of the key */
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CUT);
    content[1] = SNAP_MARKS;
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CUT);
    content[1] = SNAP_GONE;
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CONTENT);
    content[1] = (char)0x80;
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CONTENT);
    content[1] = 0;
    content[0] = 0;
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CONTENT);
    content[0] = 9;
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CONTENT);
    content[0] = 7; /* a byte is left */
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CONTENT);
    content[0] = 8;
    store_le32(content + 16, 1); /* bytes of the value */
    ck_assert_int_eq(fault_of(b, all), SNAP_FAULT_CONTENT);
}

/* A part continues the block just before it, as the headers of both tell. */
TEST(items_end_a_value)
{
    struct snap_header h = {.unix_ms = NOW, .version = 1, .least = 1};
    const struct snap_block blocks[] = {
        {.kind = SNAP_VALUE, .items = 1, .number = 0, .raw = 40, .stored = 40},
        {.kind = SNAP_VALUE, .items = 0, .number = 1, .raw = 40, .stored = 40},
        {.kind = SNAP_ITEMS, .items = 1, .number = 2, .raw = 40, .stored = 40},
        {.kind = SNAP_VALUE, .items = 0, .number = 3, .raw = 40, .stored = 40},
    };
    char content[40] = {8};
    char header[SNAP_HEADER_BYTES];
    char block[SNAP_BLOCK_BYTES];
    struct snap_fault fault;
    struct snap_reader r;
    struct snap_block b;
    struct buf file = {0};

    snap_header_put(header, &h);
    ck_assert(buf_append(&file, header, sizeof(header)));
    for (int i = 0; i < 4; i++) {
        snap_block_put(block, &blocks[i], h.sum, content);
        ck_assert(buf_append(&file, block, sizeof(block)));
        ck_assert(buf_append(&file, content, sizeof(content)));
    }
    struct span all = buf_span(&file);
    ck_assert(snap_reader_begin(&r, file_read, &all, &fault));
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(snap_reader_next(&r, &b, &fault), SNAP_NEXT_BLOCK);
    }
    ck_assert_int_eq(snap_reader_next(&r, &b, &fault), SNAP_NEXT_FAULT);
    ck_assert_int_eq(fault.kind, SNAP_FAULT_VALUE);
    ck_assert_uint_eq(fault.block, 3);
    buf_fini(&file);
}

/* Values that fill their last block to the byte, or nearly: no block is empty. */
TEST_LOOP(a_value_that_fills_its_blocks_comes_back, 3)
{
    const size_t first = SNAP_RAW_MAX - SNAP_PART_BYTES - SNAP_ITEM_BYTES - 1;
    const size_t len = first + SNAP_RAW_MAX - SNAP_PART_BYTES + (size_t)_i - 1;
    struct snap_header h = {.unix_ms = NOW, .items = 1};
    char *value = calloc(1, len);
    struct snap_item it = {.deadline = SNAP_DEADLINE_NEVER,
                           .key = span_str("a"),
                           .value = span_of(value, len),
                           .value_len = (uint32_t)len};
    struct taken got = {0};
    struct snap_fault fault;
    struct snap_encoder e;
    struct buf file = {0};
    struct rng r;

    rng_init(&r, 7);
    ck_assert(snap_encoder_begin(&e, file_append, &file, &h, false));
    put(&e, &r, &it);
    ck_assert(snap_encoder_end(&e, NOW));
    ck_assert(scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_uint_eq(got.items, 1);
    ck_assert_uint_eq(got.sum, item_sum(&it, it.value));
    ck_assert_uint_eq(got.blocks, _i < 2 ? 2 : 3);
    buf_fini(&file);
    snap_encoder_fini(&e);
    free(value);
}

/* A value of which nothing is out yet leaves nothing when it is cut. */
TEST(a_value_that_is_cut_at_once_is_not_in_a_file)
{
    struct snap_header h = {.unix_ms = NOW, .items = 1};
    const struct snap_item large = {
        .deadline = SNAP_DEADLINE_NEVER, .key = span_str("large"), .value_len = 600000};
    const struct snap_item small = {.deadline = SNAP_DEADLINE_NEVER,
                                    .key = span_str("small"),
                                    .value = span_str("x"),
                                    .value_len = 1};
    struct taken got = {0};
    struct snap_fault fault;
    struct snap_encoder e;
    struct buf file = {0};

    ck_assert(snap_encoder_begin(&e, file_append, &file, &h, false));
    ck_assert(snap_value_begin(&e, &large, NOW));
    ck_assert(snap_value_part(&e, span_str("part"), NOW));
    ck_assert(snap_value_cut(&e, NOW));
    ck_assert(snap_put_item(&e, &small));
    ck_assert(snap_encoder_end(&e, NOW));
    ck_assert(scan_bytes(buf_span(&file), &got, &fault));
    ck_assert_uint_eq(got.items, 1);
    ck_assert_uint_eq(got.blocks, 1);
    ck_assert_uint_eq(got.dropped, 0);
    buf_fini(&file);
    snap_encoder_fini(&e);
}
