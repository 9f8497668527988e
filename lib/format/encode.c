/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items to blocks: see encode.h.
 */
#include "lib/format/encode.h"

#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/load.h"
#include "lib/base/mem.h"

void snap_header_put(char out[SNAP_HEADER_BYTES], struct snap_header *h)
{
    memcpy(out, SNAP_MAGIC, 8);
    store_le16(out + 8, h->version);
    store_le16(out + 10, h->least);
    store_le32(out + 12, h->flags);
    store_le64(out + 16, (uint64_t)h->unix_ms);
    store_le64(out + 24, h->chain);
    store_le64(out + 32, h->log);
    store_le64(out + 40, h->items);
    store_le64(out + 48, h->bytes);
    h->sum = hash_key(0, out, SNAP_SUMMED_HEADER);
    store_le64(out + 56, h->sum);
}

void snap_block_put(char out[SNAP_BLOCK_BYTES], const struct snap_block *b, uint64_t sum,
                    const char *stored)
{
    store_le32(out, SNAP_BLOCK_MAGIC);
    out[4] = (char)b->kind;
    out[5] = (char)b->flags;
    store_le16(out + 6, 0);
    store_le32(out + 8, b->raw);
    store_le32(out + 12, b->stored);
    store_le32(out + 16, b->items);
    store_le32(out + 20, b->shard);
    store_le64(out + 24, (uint64_t)b->unix_ms);
    store_le64(out + 32, b->number);
    store_le64(out + 40, hash_key(hash_key(sum, out, SNAP_SUMMED_BLOCK), stored, b->stored));
}

static bool put_bytes(struct snap_encoder *e, const void *bytes, size_t n)
{
    if (!e->is_broken && !e->write(e->arg, bytes, n)) {
        e->is_broken = true;
    }
    e->offset += n;
    return !e->is_broken;
}

bool snap_encoder_begin(struct snap_encoder *e, snap_write_fn write, void *arg,
                        struct snap_header *h, bool is_packed)
{
    char header[SNAP_HEADER_BYTES];

    *e = (struct snap_encoder){.write = write, .arg = arg};
    e->block = mem_alloc(SNAP_ROOM_BYTES);
    if (is_packed) {
        e->packed = mem_alloc(SNAP_ROOM_BYTES);
        e->pack = pack_create();
    }
    if (e->block == NULL || (is_packed && (e->packed == NULL || e->pack == NULL))) {
        snap_encoder_fini(e);
        return false;
    }
    h->version = SNAP_VERSION;
    h->least = SNAP_VERSION_FIRST;
    snap_header_put(header, h);
    e->sum = h->sum;
    e->is_log = (h->flags & SNAP_IS_LOG) != 0;
    if (!put_bytes(e, header, sizeof(header))) {
        snap_encoder_fini(e);
        return false;
    }
    return true;
}

void snap_filler_begin(struct snap_encoder *e, snap_take_fn take, void *arg, char *block)
{
    *e = (struct snap_encoder){.take = take, .arg = arg, .block = block, .is_log = true};
}

void snap_encoder_fini(struct snap_encoder *e)
{
    mem_free(e->block);
    mem_free(e->packed);
    e->block = NULL;
    e->packed = NULL;
    pack_destroy(&e->pack);
}

static void begin_block(struct snap_encoder *e)
{
    e->used = 0;
    e->items = 0;
    e->has_keys = false;
}

/* Number the block as the next one. Returns its length. */
static size_t seal(struct snap_encoder *e, const struct snap_block *b, char *block)
{
    struct snap_block numbered = *b;

    numbered.number = e->number++;
    snap_block_put(block, &numbered, e->sum, block + SNAP_BLOCK_BYTES);
    return SNAP_BLOCK_BYTES + b->stored;
}

bool snap_put_block(struct snap_encoder *e, const struct snap_block *b, char *block)
{
    return put_bytes(e, block, seal(e, b, block));
}

size_t snap_seal_padded(struct snap_encoder *e, const struct snap_block *b, char *block,
                        uint32_t more)
{
    const struct snap_block pad = {
        .kind = SNAP_PAD,
        .flags = SNAP_OPTIONAL,
        .raw = more - SNAP_BLOCK_BYTES,
        .stored = more - SNAP_BLOCK_BYTES,
        .unsynced = SNAP_UNSYNCED_MAX, /* unknown */
        .unix_ms = b->unix_ms,
    };
    size_t n = seal(e, b, block);

    memset(block + n + SNAP_BLOCK_BYTES, 0, pad.stored);
    return n + seal(e, &pad, block + n);
}

bool snap_put_sealed(struct snap_encoder *e, const char *blocks, size_t n)
{
    return put_bytes(e, blocks, n);
}

/* The bytes of the block go out as one of this kind. */
static bool send_as(struct snap_encoder *e, enum snap_kind kind, int64_t unix_ms)
{
    struct snap_block b = {
        .kind = (uint8_t)kind,
        .flags = kind == SNAP_DUE ? SNAP_OPTIONAL : 0,
        .raw = e->used,
        .stored = e->used,
        .items = e->items,
        .shard = e->shard,
        .unix_ms = unix_ms,
    };
    char *out = e->block;

    if (e->take != NULL) {
        e->block = e->take(e->arg, &b, kind == SNAP_VALUE && e->value_left != 0);
        begin_block(e);
        return true;
    }
    if (e->pack != NULL && e->used > SNAP_BLOCK_BYTES) {
        size_t n = pack_bytes(e->pack, span_of(e->block + SNAP_BLOCK_BYTES, e->used),
                              e->packed + SNAP_BLOCK_BYTES, e->used - 1);

        if (n != 0) {
            b.stored = (uint32_t)n;
            b.flags |= SNAP_PACKED;
            out = e->packed;
        }
    }
    e->all_items += e->items;
    begin_block(e);
    return snap_put_block(e, &b, out);
}

bool snap_encoder_send(struct snap_encoder *e, int64_t unix_ms)
{
    return e->used == 0 ? !e->is_broken
                        : send_as(e, e->has_keys ? SNAP_KEYS : SNAP_ITEMS, unix_ms);
}

void snap_put_more(struct snap_encoder *e, struct span part)
{
    must(part.len <= SNAP_RAW_MAX - e->used);
    memcpy(e->block + SNAP_BLOCK_BYTES + e->used, part.ptr, part.len);
    e->used += (uint32_t)part.len;
}

/* A block for the part of the value that begins at value_at; its first has the item. */
static void begin_part(struct snap_encoder *e)
{
    char *p = e->block + SNAP_BLOCK_BYTES;

    store_le32(p, e->value_at);
    store_le32(p + 4, 0);
    e->used = SNAP_PART_BYTES;
}

bool snap_value_begin(struct snap_encoder *e, const struct snap_item *it, int64_t unix_ms)
{
    snap_encoder_send(e, unix_ms);
    e->value_at = 0;
    e->value_left = it->value_len;
    begin_part(e);
    char *p = e->block + SNAP_BLOCK_BYTES + SNAP_PART_BYTES;
    snap_put_head(p, it);
    memcpy(p + SNAP_ITEM_BYTES, it->key.ptr, it->key.len);
    e->used += SNAP_ITEM_BYTES + (uint32_t)it->key.len;
    e->items = 1;
    return !e->is_broken;
}

bool snap_value_part(struct snap_encoder *e, struct span part, int64_t unix_ms)
{
    must(part.len <= e->value_left);
    while (part.len != 0) {
        uint32_t room = SNAP_RAW_MAX - e->used;
        uint32_t n = part.len < room ? (uint32_t)part.len : room;

        memcpy(e->block + SNAP_BLOCK_BYTES + e->used, part.ptr, n);
        e->used += n;
        e->value_at += n;
        e->value_left -= n;
        part = span_of(part.ptr + n, part.len - n);
        if (e->used == SNAP_RAW_MAX && e->value_left != 0) {
            send_as(e, SNAP_VALUE, unix_ms);
            begin_part(e);
        }
    }
    return !e->is_broken;
}

bool snap_value_end(struct snap_encoder *e, int64_t unix_ms)
{
    must(e->value_left == 0);
    return send_as(e, SNAP_VALUE, unix_ms);
}

bool snap_value_cut(struct snap_encoder *e, int64_t unix_ms)
{
    if (e->items != 0 && !e->is_log) {
        /* Nothing of the block was sent. */
        e->value_left = 0;
        e->items = 0;
        e->used = 0;
        return !e->is_broken;
    }
    if (e->items != 0) {
        send_as(e, SNAP_VALUE, unix_ms); /* so that a log takes the state before it away */
    }
    e->value_left = 0;
    char *p = e->block + SNAP_BLOCK_BYTES;
    store_le32(p, SNAP_PART_CUT);
    store_le32(p + 4, 0);
    e->used = SNAP_PART_BYTES;
    return send_as(e, SNAP_VALUE, unix_ms);
}

/* Send the current block, then a block of these bytes. */
static bool put_alone(struct snap_encoder *e, enum snap_kind kind, struct span bytes,
                      int64_t unix_ms)
{
    snap_encoder_send(e, unix_ms);
    snap_put_more(e, bytes);
    return send_as(e, kind, unix_ms);
}

static bool put_instant(struct snap_encoder *e, enum snap_kind kind, int64_t instant,
                        int64_t unix_ms)
{
    char bytes[8];

    store_le64(bytes, (uint64_t)instant);
    return put_alone(e, kind, span_of(bytes, sizeof(bytes)), unix_ms);
}

bool snap_put_flush(struct snap_encoder *e, int64_t at_unix_ms, int64_t unix_ms)
{
    return put_instant(e, SNAP_FLUSH, at_unix_ms, unix_ms);
}

bool snap_put_prefix(struct snap_encoder *e, struct span prefix, int64_t unix_ms)
{
    return put_alone(e, SNAP_PREFIX, prefix, unix_ms);
}

bool snap_put_due(struct snap_encoder *e, int64_t due_unix_ms, int64_t unix_ms)
{
    return put_instant(e, SNAP_DUE, due_unix_ms, unix_ms);
}

bool snap_put_key(struct snap_encoder *e, uint64_t hash, int64_t unix_ms)
{
    if (e->used != 0 && (!e->has_keys || e->used > SNAP_RAW_MAX - SNAP_KEY_BYTES)) {
        snap_encoder_send(e, unix_ms);
    }
    e->has_keys = true;
    store_le64(e->block + SNAP_BLOCK_BYTES + e->used, hash);
    e->used += SNAP_KEY_BYTES;
    e->items++;
    return !e->is_broken;
}

bool snap_encoder_end(struct snap_encoder *e, int64_t unix_ms)
{
    char *p = e->block + SNAP_BLOCK_BYTES;

    snap_encoder_send(e, unix_ms);
    store_le64(p, e->all_items);
    store_le64(p + 8, e->number);
    store_le64(p + 16, e->offset);
    e->used = SNAP_END_BYTES;
    return send_as(e, SNAP_END, unix_ms);
}
