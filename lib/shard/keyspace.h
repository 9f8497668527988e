/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on items by key: filling a block, linking it under its key, unlinking and killing
 * it. They keep counters, deadlines and large values consistent.
 */
#ifndef MAYFLY_LIB_SHARD_KEYSPACE_H
#define MAYFLY_LIB_SHARD_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "lib/memory/chunks.h"
#include "lib/shard/shard.h"

/*
 * Make sure that linking an item cannot fail. False: there is no room now. Context: in shard.
 */
static inline bool keyspace_reserve(struct shard *s, bool has_ttl)
{
    shard_must_be_entered(s);
    return (!has_ttl || wheel_reserve(s->wheel)) && table_has_room(&s->table);
}

/*
 * Link a filled block as the item of its key, which must be absent. There must be room
 * (keyspace_reserve()). Context: in shard.
 */
void keyspace_insert(struct shard *s, uint64_t hash, handle_t h);

/* Link a filled block in place of the item in a slot, which is killed. Context: in shard. */
void keyspace_replace(struct shard *s, handle_t h, _Atomic handle_t *slot,
                      enum death_reason reason);

/*
 * Link a filled block in place of the item in a slot, as the same item: this is not counted as
 * a store, and a large value is not moved. Context: in shard.
 */
void keyspace_renew(struct shard *s, handle_t h, _Atomic handle_t *slot);

/*
 * Link a filled block in place of the large item in a slot. The new item has the segments of
 * the old one and more (chunks_extend()). Context: in shard.
 */
void keyspace_extend(struct shard *s, uint64_t hash, handle_t h, _Atomic handle_t *slot,
                     const struct growth by[RUN_ENDS]);

/* Unlink the item in a slot and kill its block. Context: in shard. */
void keyspace_unlink(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                     enum death_reason reason);

/* The same if the key has moved to another shard. Context: in shard. */
void keyspace_unlink_copy(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                          enum death_reason reason);

/*
 * Link block h in this shard in place of the item in a slot of the shard `from`, of which it is
 * a copy; the item is not large. This does not count as a store. There must be room
 * (keyspace_reserve()). Readers look in `from` first. is_emptied: the segment of the old block
 * is about to be emptied. Context: in both shards.
 */
void keyspace_take_over(struct shard *s, uint64_t hash, handle_t h, struct shard *from,
                        _Atomic handle_t *slot, bool is_emptied);

/*
 * keyspace_unlink() for an item past its deadline (keyspace_expire()), or for one that is
 * evicted (keyspace_evict()). Counts it and notifies the observer. how: the kind of expiry.
 * Context: in shard.
 */
void keyspace_expire(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                     enum shard_event_kind how, msec_t now);
void keyspace_evict(struct shard *s, uint64_t hash, _Atomic handle_t *slot, msec_t now);

/*
 * The same for an item whose prefix was flushed. No record is written to the ring of changes:
 * that of the command suffices. Context: in shard.
 */
void keyspace_flush(struct shard *s, uint64_t hash, _Atomic handle_t *slot, msec_t now);

/*
 * Change or remove the deadline of an item; it must have room for it (item_can_have()). False:
 * no memory. Context: in shard.
 */
bool keyspace_set_deadline(struct shard *s, handle_t h, msec_t deadline);

/*
 * Update next_due of the shard. Call it after every change of the wheel. Context: in shard.
 */
void keyspace_note_due(struct shard *s);

/* The slot and the hash of a linked item. Context: in shard. */
static inline _Atomic handle_t *keyspace_slot_of(struct shard *s, handle_t h, uint64_t *hash)
{
    _Atomic handle_t *slot;

    shard_must_be_entered(s);
    *hash = shard_hash(s, shard_item(s, h));
    slot = table_slot_of(&s->table, *hash, h);
    must(slot != NULL);
    return slot;
}

/* Draw another block of CAS values. Context: in shard. */
void keyspace_draw_cas(struct shard *s);

/* The CAS value that was drawn last. Context: in shard. */
static inline uint64_t keyspace_last_cas(const struct shard *s)
{
    shard_must_be_entered(s);
    return s->cas_next - 1;
}

/*
 * Draw the next CAS value; unique in the process. It fits an item that is not wide
 * (ITEM_CAS_DRAWN_MAX). Context: in shard.
 */
static inline uint64_t keyspace_next_cas(struct shard *s)
{
    shard_must_be_entered(s);
    if (MF_UNLIKELY(s->cas_next == s->cas_end)) {
        keyspace_draw_cas(s);
    }
    return s->cas_next++;
}

/* Bytes before the key of an item. */
static inline size_t keyspace_header_bytes(bool has_ttl, bool is_wide)
{
    return sizeof(struct item) + (has_ttl ? ITEM_TTL_BYTES : 0) +
           (is_wide ? ITEM_WIDE_BYTES : 0);
}

/*
 * Units of a block with a key of this length and this many bytes after it. is_wide:
 * item_needs_wide(), or large. Context: any thread.
 */
static inline uint32_t keyspace_units(size_t key_len, size_t value_bytes, bool has_ttl,
                                      bool is_wide)
{
    size_t n = keyspace_header_bytes(has_ttl, is_wide) + key_len + value_bytes;

    return (uint32_t)((n + ITEM_UNIT - 1) / ITEM_UNIT);
}

/*
 * Fill the header and the key of a new block, which is not linked and not in the wheel yet. The
 * cas is the next one. Without is_wide, flags and deadline must fit the header, and the value
 * is in the block. Context: in shard.
 */
static inline struct item *keyspace_fill(struct shard *s, handle_t h, uint32_t units,
                                         struct span key, uint32_t flags, msec_t deadline,
                                         bool has_ttl, bool is_wide, uint32_t value_len,
                                         msec_t now)
{
    struct item *it = shard_item(s, h);
    uint32_t now_s = (uint32_t)((uint64_t)now / 1000);
    uint64_t cas = keyspace_next_cas(s);
    uint16_t shape = (uint16_t)units;
    char *p = (char *)(it + 1);

    shard_must_be_entered(s);
    debug_must(cas <= ITEM_NARROW_CAS_MAX);
    it->cas_len = cas << LEN_BITS | (value_len & LEN_MASK);
    atomic_store_explicit(&it->used,
                          now_s << USED_CONST_BITS | (flags << USED_CAS_BITS & USED_CONST) |
                              (uint32_t)(cas >> CAS_LOW_BITS),
                          memory_order_relaxed);
    it->key_len = (uint8_t)key.len;
    atomic_store_explicit(&it->heat, 0, memory_order_relaxed);
    if (has_ttl) {
        if (is_wide) {
            deadline = deadline_kept(deadline);
        }
        item_init_ttl(it, deadline);
        shape |= SHAPE_TTL;
        p += ITEM_TTL_BYTES;
    }
    if (MF_UNLIKELY(is_wide)) {
        *(struct item_wide *)(void *)p = (struct item_wide){
            .client_flags = flags,
            .len_high = (uint16_t)(value_len >> LEN_BITS),
            .far_large = (uint8_t)((has_ttl ? deadline_far(deadline) : 0) << WIDE_FAR_SHIFT)};
        shape |= SHAPE_WIDE;
        p += ITEM_WIDE_BYTES;
    }
    atomic_store_explicit(&it->shape, shape, memory_order_relaxed);
    span_copy_short(p, key.ptr, key.len);
    return it;
}

#endif
