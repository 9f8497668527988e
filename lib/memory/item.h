/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block: a run of bytes in a segment. A header of 24 bytes (36 with a deadline), then the
 * key, then the value; its size is a multiple of 8 bytes. It is named by a 32-bit handle: its
 * offset in the shard's range divided by 8; 0 is none.
 *
 *     0        8      12           16         20       21    22
 *     | cas    | flags | value_len | access_s | key_len | heat | shape |
 *     [ deadline 8 | wheel position 4  ]            when shape has TTL
 *     key, value (LARGE: struct large, 4-aligned, instead of the value)
 *
 * Key and value bytes never change after the item was linked. heat and access_s are written by
 * readers without a lock; heat is a byte of its own, so a lost update touches nothing else.
 * shape and the deadline are written under the shard's lock.
 */
#ifndef MAYFLY_LIB_MEMORY_ITEM_H
#define MAYFLY_LIB_MEMORY_ITEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/span.h"

#define ITEM_UNIT     8u    /* bytes in a unit of size and of handles */
#define ITEM_KEY_MAX  250u  /* bytes of the longest key */
#define ITEM_SIZE_MAX 2047u /* units of the largest block */

/*
 * shape: size in units in the low 11 bits, marks above. The two at the top mean one thing in a
 * block that is live and another in one that is not: use the predicates below to read them.
 */
#define SHAPE_SIZE  0x07ffu
#define SHAPE_OFF   0x0800u /* not live: neither an item nor a piece */
#define SHAPE_LARGE 0x1000u /* the value is in segments and pieces: struct large */
#define SHAPE_TTL   0x2000u /* has the deadline fields */
#define SHAPE_TOP   0xc000u /* the two that follow */
/* Off, with neither of the two: dead, that is unlinked or never an item. */
#define SHAPE_HOLE  0x4000u /* off: dead and listed for reuse */
#define SHAPE_LOOSE 0x8000u /* off: being filled outside the lock, kept from the cursor */
#define SHAPE_STALE 0x4000u /* live: invalidated; whoever fetches it next is to renew it */
#define SHAPE_WON   0x8000u /* live: a client was told to renew it */

/*
 * heat: how often it was fetched lately (low two bits), what the eviction policy noted when it
 * judged the item, and that it did, and whether it was ever fetched. While the lfu policies are
 * at work, the low six bits hold a counter instead: see heat.h.
 */
#define HEAT_COUNT        0x03u
#define HEAT_CREDIT       0x1cu
#define HEAT_CREDIT_SHIFT 2u
#define HEAT_CREDIT_MAX   (HEAT_CREDIT >> HEAT_CREDIT_SHIFT)
#define HEAT_SIX          0x3fu
#define HEAT_JUDGED       0x40u
#define HEAT_FETCHED      0x80u
#define HEAT_MAX          3u

/* What a new block of the same key takes over. */
#define HEAT_USE (HEAT_SIX | HEAT_JUDGED)

typedef uint32_t handle_t;

struct item {
    uint64_t cas;              /* [const]; in a piece: its number; in a hole: list links */
    uint32_t client_flags;     /* [const]; in a piece: see piece_owner() [lock] */
    uint32_t value_len;        /* [const] bytes of the value (of a piece: of the piece) */
    _Atomic uint32_t access_s; /* [atomic] second of the last access */
    uint8_t key_len;           /* [const] 0: not an item but a piece or a remnant */
    _Atomic uint8_t heat;      /* [atomic] readers' byte */
    _Atomic uint16_t shape;    /* [atomic] written under the lock */
};

/* After the header when shape has TTL. */
struct item_ttl {
    _Atomic msec_t deadline;    /* [atomic] written under the lock; MSEC_NEVER: none any more */
    _Atomic uint32_t wheel_pos; /* [lock] where it stands in the shard's wheel; 0: nowhere */
};
#define ITEM_TTL_BYTES 12u /* not sizeof: the key follows directly */

_Static_assert(sizeof(struct item) == 24, "the header is 24 bytes");

static inline struct item *item_at(char *base, handle_t h)
{
    return (struct item *)(void *)(base + (uint64_t)h * ITEM_UNIT);
}

static inline uint16_t item_shape(const struct item *it)
{
    return atomic_load_explicit(&it->shape, memory_order_relaxed);
}

static inline bool shape_is_live(uint16_t shape)
{
    return (shape & SHAPE_OFF) == 0;
}

/* A hole is dead as well. */
static inline bool shape_is_dead(uint16_t shape)
{
    return (shape & SHAPE_OFF) != 0 && (shape & SHAPE_TOP) != SHAPE_LOOSE;
}

static inline bool shape_is_hole(uint16_t shape)
{
    return (shape & (SHAPE_OFF | SHAPE_HOLE)) == (SHAPE_OFF | SHAPE_HOLE);
}

static inline bool shape_is_loose(uint16_t shape)
{
    return (shape & (SHAPE_OFF | SHAPE_LOOSE)) == (SHAPE_OFF | SHAPE_LOOSE);
}

/* SHAPE_STALE and SHAPE_WON of a live block; none of one that is off. */
static inline uint16_t shape_marks(uint16_t shape)
{
    return shape_is_live(shape) ? shape & SHAPE_TOP : 0;
}

static inline bool item_is_live(const struct item *it)
{
    return shape_is_live(item_shape(it));
}

/* Invalidated. An item that was unlinked meanwhile has no marks. Context: read side. */
static inline bool item_is_stale(const struct item *it)
{
    return (item_shape(it) & (SHAPE_OFF | SHAPE_STALE)) == SHAPE_STALE;
}

/* A client was told to renew it. Context: read side. */
static inline bool item_is_won(const struct item *it)
{
    return (item_shape(it) & (SHAPE_OFF | SHAPE_WON)) == SHAPE_WON;
}

/* Stale, and no client was told yet: whoever fetches it wins. */
static inline bool shape_is_winnable(uint16_t shape)
{
    return (shape & (SHAPE_OFF | SHAPE_TOP)) == SHAPE_STALE;
}

static inline uint32_t item_units(const struct item *it)
{
    return item_shape(it) & SHAPE_SIZE;
}

static inline uint32_t item_bytes(const struct item *it)
{
    return item_units(it) * ITEM_UNIT;
}

static inline struct item_ttl *item_ttl(const struct item *it)
{
    return (struct item_ttl *)(void *)(uintptr_t)(it + 1);
}

static inline bool item_has_ttl(const struct item *it)
{
    return (item_shape(it) & SHAPE_TTL) != 0;
}

/* Bytes of header, key and value, as dumps and sizes show them. */
static inline size_t item_size(const struct item *it)
{
    return sizeof(*it) + (item_has_ttl(it) ? ITEM_TTL_BYTES : 0) + it->key_len + it->value_len;
}

static inline bool item_is_large(const struct item *it)
{
    return (item_shape(it) & SHAPE_LARGE) != 0;
}

/* Bytes of an item with all of its value. */
static inline uint64_t item_all_bytes(const struct item *it)
{
    return item_bytes(it) + (item_is_large(it) ? (uint64_t)it->value_len : 0);
}

static inline const char *item_key(const struct item *it)
{
    return (const char *)(it + 1) + (item_has_ttl(it) ? ITEM_TTL_BYTES : 0);
}

/* The value of an item that is not large. */
static inline const char *item_value(const struct item *it)
{
    return item_key(it) + it->key_len;
}

static inline msec_t item_deadline(const struct item *it)
{
    return item_has_ttl(it)
               ? atomic_load_explicit(&item_ttl(it)->deadline, memory_order_relaxed)
               : MSEC_NEVER;
}

/* The one predicate of expiry: due at or after the deadline. */
static inline bool item_is_due(const struct item *it, msec_t now)
{
    return item_has_ttl(it) &&
           now >= atomic_load_explicit(&item_ttl(it)->deadline, memory_order_relaxed);
}

static inline bool item_was_fetched(const struct item *it)
{
    return (atomic_load_explicit(&it->heat, memory_order_relaxed) & HEAT_FETCHED) != 0;
}

/* Put marks on a live block that has none of them. Context: in shard. */
static inline void item_mark(struct item *it, uint16_t marks)
{
    atomic_store_explicit(&it->shape, item_shape(it) | marks, memory_order_relaxed);
}

/* A new block of the same item takes over how the old one was used. Context: in shard. */
static inline void item_copy_use(const struct item *from, struct item *to)
{
    atomic_store_explicit(&to->heat, atomic_load_explicit(&from->heat, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->access_s,
                          atomic_load_explicit(&from->access_s, memory_order_relaxed),
                          memory_order_relaxed);
}

/* A piece of a large value: the block that holds struct large. Context: in shard. */
static inline handle_t piece_owner(const struct item *piece)
{
    return piece->client_flags;
}

static inline void piece_set_owner(struct item *piece, handle_t owner)
{
    piece->client_flags = owner;
}

/* Its number among the pieces of its value. */
static inline uint64_t piece_number(const struct item *piece)
{
    return piece->cas;
}

static inline void piece_set_number(struct item *piece, uint64_t number)
{
    piece->cas = number;
}

#endif
