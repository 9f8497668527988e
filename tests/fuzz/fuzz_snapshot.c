/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: snapshots, and logs of keys. The first byte says whether the sums are made right
 * first, so that what stands behind them is reached as well. What must hold for any input:
 *   - nothing outside the bytes is read, and every span that is given out lies in a block;
 *   - keys, prefixes and values are of the lengths that items may have;
 *   - a value in parts is given out whole, or dropped;
 *   - the scan says that all was there, or names a fault, not both.
 */
#include "tests/fuzz/fuzz.h"

#include "lib/base/hash.h"
#include "lib/base/load.h"
#include "lib/format/scan.h"
#include "lib/memory/item.h"
#include "tests/lib/format/files.h"

struct seen {
    const struct snap_opener *opener;
    uint64_t value_left; /* of a value in parts; UINT64_MAX: none is open */
    uint64_t items;      /* given out, or dropped */
};

static void check_lies_in(const struct seen *s, struct span part)
{
    bool is_stored = part.ptr >= s->opener->stored &&
                     part.ptr + part.len <= s->opener->stored + SNAP_RAW_MAX;
    bool is_raw =
        part.ptr >= s->opener->raw && part.ptr + part.len <= s->opener->raw + SNAP_RAW_MAX;

    require(is_stored || is_raw);
}

static void check_item(const struct seen *s, const struct snap_item *it)
{
    require(it->key.len >= 1 && it->key.len <= ITEM_KEY_MAX);
    check_lies_in(s, it->key);
    check_lies_in(s, it->value);
}

static bool on_item(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct seen *s = arg;

    require(b->kind == SNAP_ITEMS && it->value.len == it->value_len);
    check_item(s, it);
    s->items++;
    return true;
}

static bool on_value_begin(void *arg, const struct snap_block *b, const struct snap_item *it)
{
    struct seen *s = arg;

    require(b->kind == SNAP_VALUE && s->value_left == UINT64_MAX);
    require(it->value.len <= it->value_len);
    check_item(s, it);
    s->value_left = it->value_len - it->value.len;
    return true;
}

static bool on_value_part(void *arg, struct span bytes)
{
    struct seen *s = arg;

    check_lies_in(s, bytes);
    require(bytes.len <= s->value_left);
    s->value_left -= bytes.len;
    return true;
}

static bool on_value_end(void *arg)
{
    struct seen *s = arg;

    require(s->value_left == 0);
    s->value_left = UINT64_MAX;
    s->items++;
    return true;
}

static void on_value_drop(void *arg)
{
    struct seen *s = arg;

    require(s->value_left != UINT64_MAX);
    s->value_left = UINT64_MAX;
    s->items++;
}

static bool on_prefix(void *arg, struct span prefix)
{
    require(prefix.len >= 1 && prefix.len <= ITEM_KEY_MAX);
    check_lies_in(arg, prefix);
    return true;
}

/* Make all sums right, as far as the blocks' lengths lead. */
static void seal(char *p, size_t size)
{
    size_t at = SNAP_HEADER_BYTES;

    if (size < SNAP_HEADER_BYTES) {
        return;
    }
    uint64_t sum = hash_key(0, p, SNAP_SUMMED_HEADER);
    store_le64(p + SNAP_SUMMED_HEADER, sum);
    while (size - at >= SNAP_BLOCK_BYTES) {
        uint32_t stored = load_le32(p + at + 12);

        if (stored > size - at - SNAP_BLOCK_BYTES) {
            return;
        }
        store_le64(p + at + SNAP_SUMMED_BLOCK,
                   hash_key(hash_key(sum, p + at, SNAP_SUMMED_BLOCK), p + at + SNAP_BLOCK_BYTES,
                            stored));
        at += SNAP_BLOCK_BYTES + stored;
    }
}

/* The keys of a log: its blocks one after the other, as keychain.c reads them. */
static void read_log(struct span *file, struct snap_opener *o)
{
    struct snap_fault fault;
    struct snap_reader r;
    struct snap_block b;
    struct span content;
    uint64_t keys = 0;

    if (!snap_reader_begin(&r, file_read, file, &fault) ||
        (r.header.flags & SNAP_IS_LOG) == 0) {
        return;
    }
    while (snap_reader_next(&r, &b, &fault) == SNAP_NEXT_BLOCK &&
           snap_block_open(&r, &b, o, &content, &fault)) {
        require(b.kind != SNAP_END || (b.flags & SNAP_OPTIONAL) != 0);
        for (uint32_t i = 0; b.kind == SNAP_KEYS && i < b.items; i++) {
            keys += snap_key_of(content, i);
        }
    }
    require(keys != 1 || fault.kind != SNAP_FINE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen seen = {.value_left = UINT64_MAX};
    const struct scan_sink sink = {
        .arg = &seen,
        .item = on_item,
        .value_begin = on_value_begin,
        .value_part = on_value_part,
        .value_end = on_value_end,
        .value_drop = on_value_drop,
        .prefix = on_prefix,
    };
    char text[SNAP_FAULT_TEXT_MAX];
    struct snap_opener o;
    struct scan s;

    if (size == 0) {
        return 0;
    }
    char *copy = exact_copy(data + 1, size - 1);
    if (data[0] % 2 == 1) {
        seal(copy, size - 1);
    }
    struct span file = span_of(copy, size - 1);
    require(snap_opener_init(&o));
    seen.opener = &o;
    if (scan_init(&s, file_read, &file)) {
        scan_run(&s, &o, &sink);
        require(s.is_whole == (s.fault.kind == SNAP_FINE));
        require(!s.is_whole || seen.items == s.reader.items);
    }
    require(seen.value_left == UINT64_MAX);
    require(strlen(snap_fault_text(&s.fault, text)) < sizeof(text));
    scan_fini(&s);
    read_log(&file, &o);
    snap_opener_fini(&o);
    free(copy);
    return 0;
}
