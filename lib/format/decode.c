/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks to items: see decode.h.
 */
#include "lib/format/decode.h"

#include "lib/base/hash.h"
#include "lib/base/load.h"
#include "lib/base/mem.h"
#include "lib/memory/item.h"

struct snap_fault snap_fault_at(const struct snap_block *b, enum snap_fault_kind kind)
{
    return (struct snap_fault){kind, b->number, b->offset, b->kind};
}

/* Read n bytes, or up to the end. Returns how many, or a negative errno. */
static ssize_t read_all(const struct snap_reader *r, char *out, size_t n, uint64_t offset)
{
    size_t have = 0;

    while (have < n) {
        ssize_t got = r->read(r->arg, out + have, n - have, offset + have);

        if (got < 0) {
            return got;
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static bool begin_fails(struct snap_fault *fault, enum snap_fault_kind kind, uint64_t number)
{
    *fault = (struct snap_fault){.kind = kind, .number = number};
    return false;
}

static bool block_fails(struct snap_fault *fault, const struct snap_block *b,
                        enum snap_fault_kind kind)
{
    *fault = snap_fault_at(b, kind);
    return false;
}

/* Read all n bytes of a part of a block. False: *fault. */
static bool read_part(const struct snap_reader *r, const struct snap_block *b, char *out,
                      size_t n, uint64_t offset, struct snap_fault *fault)
{
    ssize_t got = read_all(r, out, n, offset);

    return got < 0            ? begin_fails(fault, SNAP_FAULT_READ, (uint64_t)-got)
           : got < (ssize_t)n ? block_fails(fault, b, SNAP_FAULT_CUT)
                              : true;
}

bool snap_reader_begin(struct snap_reader *r, snap_read_fn read, void *arg,
                       struct snap_fault *fault)
{
    struct snap_header *h = &r->header;
    char p[SNAP_HEADER_BYTES];

    *r = (struct snap_reader){.read = read, .arg = arg, .offset = SNAP_HEADER_BYTES};
    *fault = (struct snap_fault){.kind = SNAP_FINE};
    ssize_t n = read_all(r, p, sizeof(p), 0);
    if (n < 0) {
        return begin_fails(fault, SNAP_FAULT_READ, (uint64_t)-n);
    }
    if (n == 0) {
        return begin_fails(fault, SNAP_FAULT_EMPTY, 0);
    }
    if (n >= 5 && memcmp(p, "REDIS", 5) == 0) {
        return begin_fails(fault, SNAP_FAULT_RDB, 0);
    }
    if (n < 8 || memcmp(p, SNAP_MAGIC, 8) != 0) {
        return begin_fails(fault, SNAP_FAULT_FOREIGN, 0);
    }
    if (n < (ssize_t)sizeof(p)) {
        return begin_fails(fault, SNAP_FAULT_SHORT, 0);
    }
    h->version = load_le16(p + 8);
    h->least = load_le16(p + 10);
    h->flags = load_le32(p + 12);
    h->unix_ms = (int64_t)load_le64(p + 16);
    h->chain = load_le64(p + 24);
    h->log = load_le64(p + 32);
    h->items = load_le64(p + 40);
    h->bytes = load_le64(p + 48);
    h->sum = load_le64(p + 56);
    if (h->sum != hash_key(0, p, SNAP_SUMMED_HEADER)) {
        return begin_fails(fault, SNAP_FAULT_HEADER, 0);
    }
    if (h->version < SNAP_VERSION_FIRST || h->least > SNAP_VERSION) {
        return begin_fails(fault, SNAP_FAULT_VERSION, h->version);
    }
    return true;
}

/* Keys, what is due and prefixes are only in a log, and it has no END. */
static bool is_known(const struct snap_reader *r, uint8_t kind)
{
    bool is_log = (r->header.flags & SNAP_IS_LOG) != 0;

    return kind == SNAP_ITEMS || kind == SNAP_VALUE || kind == SNAP_FLUSH ||
           (is_log ? kind == SNAP_KEYS || kind == SNAP_DUE || kind == SNAP_PREFIX
                   : kind == SNAP_END);
}

/* Faults that are visible in a block's header alone. */
static enum snap_fault_kind judge(const struct snap_reader *r, const char *p,
                                  const struct snap_block *b)
{
    if (load_le32(p) != SNAP_BLOCK_MAGIC) {
        return SNAP_FAULT_MAGIC;
    }
    if (load_le16(p + 6) != 0 || (b->flags & ~SNAP_FLAGS) != 0 || b->raw > SNAP_RAW_MAX ||
        b->number != r->number ||
        ((b->flags & SNAP_PACKED) != 0 ? b->stored >= b->raw : b->stored != b->raw)) {
        return SNAP_FAULT_FIELDS;
    }
    if (!is_known(r, b->kind)) {
        return (b->flags & SNAP_OPTIONAL) != 0 ? SNAP_FINE : SNAP_FAULT_KIND;
    }
    if ((b->kind == SNAP_ITEMS && b->items > b->raw / (SNAP_ITEM_BYTES + 1)) ||
        (b->kind == SNAP_VALUE && b->items > 1) ||
        (b->kind == SNAP_KEYS && b->items != b->raw / SNAP_KEY_BYTES) ||
        ((b->kind == SNAP_FLUSH || b->kind == SNAP_DUE || b->kind == SNAP_PREFIX ||
          b->kind == SNAP_END) &&
         b->items != 0)) {
        return SNAP_FAULT_FIELDS;
    }
    return b->kind == SNAP_VALUE && b->items == 0 && !r->is_in_value ? SNAP_FAULT_VALUE
                                                                     : SNAP_FINE;
}

/* At END: do the totals agree, and is it the end? False: *fault. */
static bool is_good_end(struct snap_reader *r, const struct snap_block *b,
                        struct snap_fault *fault)
{
    char stored[SNAP_END_BYTES];

    if (b->flags != 0 || b->raw != SNAP_END_BYTES) {
        return block_fails(fault, b, SNAP_FAULT_FIELDS);
    }
    if (!read_part(r, b, stored, sizeof(stored), b->offset + SNAP_BLOCK_BYTES, fault)) {
        return false;
    }
    if (hash_key(b->seed, stored, sizeof(stored)) != b->sum) {
        return block_fails(fault, b, SNAP_FAULT_SUM);
    }
    if (load_le64(stored) != r->items || load_le64(stored + 8) != b->number ||
        load_le64(stored + 16) != b->offset) {
        return block_fails(fault, b, SNAP_FAULT_TOTALS);
    }
    ssize_t n = read_all(r, stored, 1, r->offset);
    return n < 0   ? begin_fails(fault, SNAP_FAULT_READ, (uint64_t)-n)
           : n > 0 ? block_fails(fault, b, SNAP_FAULT_AFTER)
                   : true;
}

bool snap_is_end_of_log(const struct snap_reader *r, const struct snap_fault *fault)
{
    char byte;

    return (r->header.flags & SNAP_IS_LOG) != 0 && fault->kind == SNAP_FAULT_CUT &&
           read_all(r, &byte, 1, fault->offset) == 0;
}

enum snap_next snap_reader_next(struct snap_reader *r, struct snap_block *b,
                                struct snap_fault *fault)
{
    char p[SNAP_BLOCK_BYTES];

    *b = (struct snap_block){.number = r->number, .offset = r->offset, .marks = SNAP_MARKS};
    if (!read_part(r, b, p, sizeof(p), r->offset, fault)) {
        return SNAP_NEXT_FAULT;
    }
    b->kind = (uint8_t)p[4];
    b->flags = (uint8_t)p[5];
    b->raw = load_le32(p + 8);
    b->stored = load_le32(p + 12);
    b->items = load_le32(p + 16);
    b->shard = load_le32(p + 20);
    b->unix_ms = (int64_t)load_le64(p + 24);
    b->number = load_le64(p + 32);
    b->sum = load_le64(p + 40);
    b->seed = hash_key(r->header.sum, p, SNAP_SUMMED_BLOCK);
    b->marks |= (r->header.flags & SNAP_IS_LOG) != 0 ? SNAP_GONE : 0;
    enum snap_fault_kind kind = judge(r, p, b);
    if (kind != SNAP_FINE) {
        b->number = r->number;
        *fault = snap_fault_at(b, kind);
        return SNAP_NEXT_FAULT;
    }
    r->offset += SNAP_BLOCK_BYTES + b->stored;
    r->number++;
    r->is_in_value = b->kind == SNAP_VALUE;
    if (b->kind == SNAP_END) {
        return is_good_end(r, b, fault) ? SNAP_NEXT_END : SNAP_NEXT_FAULT;
    }
    if (b->kind == SNAP_ITEMS || b->kind == SNAP_VALUE) {
        r->items += b->items;
    }
    return SNAP_NEXT_BLOCK;
}

bool snap_opener_init(struct snap_opener *o)
{
    *o = (struct snap_opener){
        .stored = mem_alloc(SNAP_RAW_MAX),
        .raw = mem_alloc(SNAP_RAW_MAX),
    };
    if (o->stored == NULL || o->raw == NULL) {
        snap_opener_fini(o);
        return false;
    }
    return true;
}

void snap_opener_fini(struct snap_opener *o)
{
    mem_free(o->stored);
    mem_free(o->raw);
    o->stored = NULL;
    o->raw = NULL;
    pack_destroy(&o->pack);
}

bool snap_block_open(const struct snap_reader *r, const struct snap_block *b,
                     struct snap_opener *o, struct span *content, struct snap_fault *fault)
{
    if (!read_part(r, b, o->stored, b->stored, b->offset + SNAP_BLOCK_BYTES, fault)) {
        return false;
    }
    if (hash_key(b->seed, o->stored, b->stored) != b->sum) {
        return block_fails(fault, b, SNAP_FAULT_SUM);
    }
    *content = span_of(o->stored, b->stored);
    if ((b->flags & SNAP_PACKED) == 0) {
        return true;
    }
    if (o->pack == NULL) {
        o->pack = pack_create();
    }
    if (o->pack == NULL || !pack_undo(o->pack, *content, o->raw, b->raw)) {
        return block_fails(fault, b, pack_is_there() ? SNAP_FAULT_UNPACK : SNAP_FAULT_PACKED);
    }
    *content = span_of(o->raw, b->raw);
    return true;
}

/* The item without its value, at the beginning of the bytes. */
static bool head_of(struct span *rest, uint8_t marks, struct snap_item *it)
{
    const char *p = rest->ptr;

    if (rest->len < SNAP_ITEM_BYTES) {
        return false;
    }
    size_t key_len = (uint8_t)p[0];
    it->marks = (uint8_t)p[1];
    it->heat = (uint8_t)p[2];
    it->client_flags = load_le32(p + 4);
    it->cas = load_le64(p + 8);
    it->value_len = load_le32(p + 16);
    it->idle_s = load_le32(p + 20);
    it->deadline = (int64_t)load_le64(p + 24);
    if (key_len == 0 || key_len > ITEM_KEY_MAX || (it->marks & ~marks) != 0 ||
        ((it->marks & SNAP_GONE) != 0 && it->value_len != 0) ||
        rest->len - SNAP_ITEM_BYTES < key_len) {
        return false;
    }
    it->key = span_of(p + SNAP_ITEM_BYTES, key_len);
    *rest = span_of(p + SNAP_ITEM_BYTES + key_len, rest->len - SNAP_ITEM_BYTES - key_len);
    return true;
}

bool snap_cursor_next(struct snap_cursor *c, struct snap_item *it)
{
    struct span rest = c->rest;

    if (c->items_left == 0 || !head_of(&rest, c->marks, it) || it->value_len > rest.len) {
        return false;
    }
    it->value = span_of(rest.ptr, it->value_len);
    c->rest = span_of(rest.ptr + it->value_len, rest.len - it->value_len);
    c->items_left--;
    return true;
}

bool snap_part_of(const struct snap_block *b, struct span content, uint32_t *at,
                  struct snap_item *it, struct span *bytes)
{
    if (content.len < SNAP_PART_BYTES || load_le32(content.ptr + 4) != 0) {
        return false;
    }
    *at = load_le32(content.ptr);
    struct span rest = span_of(content.ptr + SNAP_PART_BYTES, content.len - SNAP_PART_BYTES);
    if ((*at == 0) != (b->items == 1)) {
        return false;
    }
    if (*at == 0) {
        if (!head_of(&rest, SNAP_MARKS, it) || rest.len > it->value_len) {
            return false;
        }
        it->value = rest;
    }
    *bytes = rest;
    return true;
}

bool snap_instant_of(struct span content, int64_t *unix_ms)
{
    if (content.len != sizeof(uint64_t)) {
        return false;
    }
    *unix_ms = (int64_t)load_le64(content.ptr);
    return true;
}

bool snap_prefix_of(struct span content, struct span *prefix)
{
    *prefix = content;
    return content.len != 0 && content.len <= ITEM_KEY_MAX;
}

uint64_t snap_key_of(struct span content, uint32_t i)
{
    return load_le64(content.ptr + (size_t)i * SNAP_KEY_BYTES);
}
