/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examine, report: what is in a file is counted, each damage is found, and so is what a load
 * would bring back of it.
 */
#include "ctl/examine.h"

#include "lib/base/mem.h"
#include "lib/format/encode.h"
#include "lib/format/pack.h"
#include "tests/common/unit.h"
#include "tests/lib/format/files.h"

#define NOW  1700000000123
#define LONG 300000u

static struct snap_item item(const char *key, int64_t deadline, struct span value)
{
    return (struct snap_item){.cas = 1,
                              .deadline = deadline,
                              .key = span_str(key),
                              .value = value,
                              .value_len = (uint32_t)value.len};
}

/*
 * A file with a flush to come (block 0), three blocks of 10 items (1 to 3), one of which is due
 * and one has no deadline in each, a value in parts, perhaps one that is cut, and the END.
 */
static void make(struct buf *file, bool is_packed, bool has_large)
{
    struct snap_header h = {.unix_ms = NOW - 60000, .items = 30};
    char *large = mem_zalloc(LONG);
    struct snap_encoder e;
    struct snap_item it;

    *file = (struct buf){0};
    ck_assert(snap_encoder_begin(&e, file_append, file, &h, is_packed));
    ck_assert(snap_put_flush(&e, NOW + 5000, NOW));
    for (unsigned i = 0; i < 30; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        it = item(key,
                  i % 10 == 0   ? NOW
                  : i % 10 == 1 ? SNAP_DEADLINE_NEVER
                                : NOW + 1,
                  span_str("value value value value"));
        ck_assert(snap_put_item(&e, &it));
        if (i % 10 == 9) {
            ck_assert(snap_encoder_send(&e, NOW - 59000));
        }
    }
    for (unsigned cut = 0; has_large && cut < 2; cut++) {
        it = item("large", SNAP_DEADLINE_NEVER, span_of(NULL, 0));
        it.value_len = LONG;
        ck_assert(snap_value_begin(&e, &it, NOW));
        ck_assert(snap_value_part(&e, span_of(large, 200000), NOW));
        if (cut == 1) {
            ck_assert(snap_value_part(&e, span_of(large, 80000), NOW));
            ck_assert(snap_value_cut(&e, NOW));
        } else {
            ck_assert(snap_value_part(&e, span_of(large, LONG - 200000), NOW));
            ck_assert(snap_value_end(&e, NOW));
        }
    }
    ck_assert(snap_encoder_end(&e, NOW));
    snap_encoder_fini(&e);
    mem_free(large);
}

static enum check_verdict examine_span(struct examined *x, struct span bytes)
{
    ck_assert(examine(x, file_read, &bytes, NOW));
    return examine_verdict(x);
}

TEST_LOOP(what_is_in_a_file_is_counted, 2)
{
    bool is_packed = _i == 1 && pack_is_there();
    struct examined x;
    struct buf file;

    make(&file, is_packed, true);
    ck_assert_int_eq(examine_span(&x, buf_span(&file)), VERDICT_WHOLE);
    ck_assert_uint_eq(x.bytes, buf_len(&file));
    ck_assert_uint_eq(x.items, 31);
    ck_assert_uint_eq(x.expired, 3);
    ck_assert_uint_eq(x.forever, 4);
    ck_assert_uint_eq(x.in_parts, 1);
    ck_assert_uint_eq(x.cut, 1);
    ck_assert_uint_eq(x.value_bytes, 30 * 23 + LONG);
    ck_assert_uint_eq(x.blocks[SNAP_FLUSH], 1);
    ck_assert_uint_eq(x.blocks[SNAP_ITEMS], 3);
    ck_assert_uint_eq(x.blocks[SNAP_END], 1);
    ck_assert_uint_ge(x.blocks[SNAP_VALUE], 3);
    ck_assert_int_eq(x.flush_at, NOW + 5000);
    ck_assert_int_eq(x.last_unix_ms, NOW);
    ck_assert_int_eq(x.packed != 0, is_packed);
    ck_assert_uint_eq(examine_salvage(&x, NOW), 28);
    ck_assert_uint_eq(examine_salvage(&x, NOW + 5000), 0); /* flushed */
    buf_fini(&file);
}

/* What was found of the first n bytes, or of all with one of them changed. */
static void check_damaged(struct span bytes, const struct examined *whole)
{
    struct examined x;
    enum check_verdict v = examine_span(&x, bytes);

    ck_assert_int_ne(v, VERDICT_WHOLE);
    ck_assert_int_ne(x.fault.kind, SNAP_FINE);
    ck_assert_uint_le(x.items, whole->items);
    ck_assert_uint_eq(x.items % 10, 0); /* whole blocks of them */
    ck_assert_uint_le(x.bytes, bytes.len);
    ck_assert_uint_eq(x.blocks[SNAP_END], 0);
    if (bytes.len >= SNAP_HEADER_BYTES && x.has_header) {
        ck_assert_int_eq(v, VERDICT_DAMAGED);
    }
}

TEST_LOOP(each_byte_that_is_missing_or_flipped_is_found, 2)
{
    struct examined whole;
    struct buf file;

    make(&file, _i == 1 && pack_is_there(), false);
    ck_assert_int_eq(examine_span(&whole, buf_span(&file)), VERDICT_WHOLE);
    for (size_t n = 0; n < buf_len(&file); n++) {
        check_damaged(span_of(buf_begin(&file), n), &whole);
        for (unsigned bit = 0; bit < 8; bit++) {
            buf_begin(&file)[n] ^= (char)(1u << bit);
            check_damaged(buf_span(&file), &whole);
            buf_begin(&file)[n] ^= (char)(1u << bit);
        }
    }
    buf_fini(&file);
}

TEST(damage_within_a_value_is_not_taken_for_one_that_was_left_out)
{
    struct examined x;
    struct buf file;

    make(&file, false, true);
    buf_begin(&file)[buf_len(&file) / 2] ^= 1;
    ck_assert_int_eq(examine_span(&x, buf_span(&file)), VERDICT_DAMAGED);
    ck_assert_uint_eq(x.items, 30);
    ck_assert_uint_eq(x.cut, 0);
    buf_fini(&file);
}

/* ---- logs -------------------------------------------------------------------------------- */

/* A log of 3 blocks of 5 keys; *ends: where each ends, and the header. */
static void make_log(struct buf *file, size_t ends[4])
{
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = 77, .log = 12};
    struct snap_encoder e;

    *file = (struct buf){0};
    ck_assert(snap_encoder_begin(&e, file_append, file, &h, false));
    ends[0] = buf_len(file);
    for (unsigned i = 1; i <= 3; i++) {
        for (uint64_t hash = 1; hash <= 5; hash++) {
            ck_assert(snap_put_key(&e, hash, NOW));
        }
        ck_assert(snap_encoder_send(&e, NOW));
        ends[i] = buf_len(file);
    }
    snap_encoder_fini(&e);
}

TEST(what_a_log_says_of_expiry_is_shown)
{
    struct snap_header h = {.unix_ms = NOW, .flags = SNAP_IS_LOG, .chain = 77, .log = 12};
    struct snap_encoder e;
    struct examined x;
    struct buf file = {0};
    char text[4096];
    FILE *out = fmemopen(text, sizeof(text), "w");

    ck_assert(snap_encoder_begin(&e, file_append, &file, &h, false));
    ck_assert(snap_put_key(&e, 1, NOW));
    ck_assert(snap_put_due(&e, NOW + 1000, NOW + 1000));
    ck_assert(snap_put_due(&e, NOW + 500, NOW + 2000));
    snap_encoder_fini(&e);
    ck_assert_int_eq(examine_span(&x, buf_span(&file)), VERDICT_WHOLE);
    ck_assert_uint_eq(x.blocks[SNAP_KEYS], 1);
    ck_assert_uint_eq(x.blocks[SNAP_DUE], 2);
    ck_assert_int_eq(x.due_unix_ms, NOW + 1000);
    ck_assert_int_eq(x.last_unix_ms, NOW + 2000);
    report_text(out, "log", &x, NOW, true);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_ptr_nonnull(strstr(text, "2 of expiry"));
    ck_assert_ptr_nonnull(
        strstr(text, "expired      items due by 2023-11-14 22:13:21 UTC are removed"));
    for (size_t n = SNAP_HEADER_BYTES; n < buf_len(&file); n++) {
        buf_begin(&file)[n] ^= 4;
        ck_assert_int_eq(examine_span(&x, buf_span(&file)), VERDICT_DAMAGED);
        buf_begin(&file)[n] ^= 4;
    }
    buf_fini(&file);
}

TEST(a_log_is_whole_where_a_block_ends)
{
    struct examined x;
    struct buf file;
    size_t ends[4];

    make_log(&file, ends);
    for (size_t n = SNAP_HEADER_BYTES; n <= buf_len(&file); n++) {
        bool is_end = n == ends[0] || n == ends[1] || n == ends[2] || n == ends[3];
        enum check_verdict v = examine_span(&x, span_of(buf_begin(&file), n));

        ck_assert(examine_is_log(&x));
        ck_assert_int_eq(v, is_end ? VERDICT_WHOLE : VERDICT_DAMAGED);
    }
    ck_assert_uint_eq(x.keys, 15);
    ck_assert_uint_eq(x.header.log, 12);
    for (size_t n = SNAP_HEADER_BYTES; n < buf_len(&file); n++) {
        buf_begin(&file)[n] ^= 4;
        ck_assert_int_eq(examine_span(&x, buf_span(&file)), VERDICT_DAMAGED);
        buf_begin(&file)[n] ^= 4;
    }
    buf_fini(&file);
}

/* ---- in words ---------------------------------------------------------------------------- */

static char *said(struct span bytes, bool is_json)
{
    static char text[8192];
    FILE *out = fmemopen(text, sizeof(text), "w");
    struct examined x;
    struct json j;

    examine_span(&x, bytes);
    if (is_json) {
        json_init(&j, out);
        report_json(&j, "a\nb", &x, NOW);
    } else {
        report_text(out, "a\nb", &x, NOW, true);
    }
    fclose(out);
    return text;
}

static void check_says(const char *text, const char *what)
{
    ck_assert_msg(strstr(text, what) != NULL, "no '%s' in:\n%s", what, text);
}

TEST(a_whole_file_is_described)
{
    struct buf file;

    make(&file, false, true);
    const char *text = said(buf_span(&file), false);
    check_says(text, "a\\nb: whole\n");
    check_says(text, "made         2023-11-14 22:12:20 UTC, 1 min ago, within 1 min");
    check_says(text, ": 3 of items, 4 of large values, 1 of flushes, the end\n");
    check_says(text, "31: 3 expired by now, 4 without a deadline, 1 in parts\n");
    check_says(text, "omitted      1 large");
    check_says(text, "compression  none");
    check_says(text, "everything will be flushed 2023-11-14 22:13:25 UTC");
    text = said(buf_span(&file), true);
    check_says(text, "\"verdict\": \"whole\"");
    check_says(text, "\"fault\": null");
    check_says(text, "\"items_salvaged\": 28");
    check_says(text, "\"flush_unix_ms\": 1700000005123");
    buf_fini(&file);
}

TEST(damage_is_named_with_what_is_left)
{
    struct examined x;
    char expected[80];
    struct buf file;

    make(&file, false, false);
    examine_span(&x, buf_span(&file));
    /* The end, and before it the third block of items. */
    size_t at = buf_len(&file) - SNAP_BLOCK_BYTES - SNAP_END_BYTES - 3;
    buf_begin(&file)[at] ^= 1;
    examine_span(&x, buf_span(&file));
    snprintf(expected, sizeof(expected), "a\\nb: block 3 at %llu: checksum differs\n",
             (unsigned long long)x.fault.offset);
    check_says(said(buf_span(&file), false), expected);
    check_says(said(buf_span(&file), false), "load=salvage recovers the 18 items before");
    check_says(said(buf_span(&file), true), "\"fault_block\": 3");
    buf_fini(&file);
}

TEST(files_of_others_are_named)
{
    struct snap_header h = {.unix_ms = NOW, .version = 3, .least = 3};
    char header[SNAP_HEADER_BYTES];
    struct examined x;

    ck_assert_int_eq(examine_span(&x, span_str("")), VERDICT_OTHER);
    check_says(said(span_str(""), false), ": is empty\n");
    ck_assert_int_eq(examine_span(&x, span_str("REDIS0011")), VERDICT_OTHER);
    check_says(said(span_str("REDIS0011"), false), ": is a Redis RDB file\n");
    snap_header_put(header, &h);
    ck_assert_int_eq(examine_span(&x, span_of(header, sizeof(header))), VERDICT_OTHER);
    check_says(said(span_of(header, sizeof(header)), false), ": version 3, this reads 1\n");
}
