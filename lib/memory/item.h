/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block: a run of bytes in a segment. A header of 16 bytes, then the key, then the value;
 * its size is a multiple of 8 bytes. It is named by a 32-bit handle: its offset in the shard's
 * range divided by 8; 0 is none.
 *
 *     0      4         5      6       8
 *     | used | key_len | heat | shape | cas_len |
 *     [ struct item_ttl, 8 bytes ]                  when shape has TTL
 *     [ struct item_wide, 8 bytes ]                 when shape has WIDE
 *     key, value (a large item: struct large, 4-aligned, instead of the value)
 *
 *     used:    22 bits: second of the last access; 2: client flags; 8: cas, upper bits
 *     cas_len: 50 bits: cas; 14: length of the value
 *
 * Nearly all items fit these fields. A wide item has further bits of flags, cas, length and
 * deadline.
 *
 * Key and value bytes never change after the item was linked. heat and used are written by
 * readers without a lock. Of used they change only the second, and heat is a byte of its own,
 * so a lost update touches nothing else. shape and the deadline are written under the shard's
 * lock.
 */
#ifndef MAYFLY_LIB_MEMORY_ITEM_H
#define MAYFLY_LIB_MEMORY_ITEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/span.h"

#define ITEM_UNIT     8u    /* bytes in a unit of size and of handles */
#define ITEM_KEY_MAX  250u  /* bytes of the longest key */
#define ITEM_SIZE_MAX 2047u /* units of the largest block */

/*
 * shape: size in units in the low 11 bits, marks above. The two top marks mean different things
 * in live blocks and in others: use the predicates below to read them.
 */
#define SHAPE_SIZE 0x07ffu
#define SHAPE_OFF  0x0800u /* not live: neither an item nor a piece */
#define SHAPE_WIDE 0x1000u /* has struct item_wide */
#define SHAPE_TTL  0x2000u /* has the deadline fields */
#define SHAPE_TOP  0xc000u /* the two that follow */
/* Off, with neither of the two: dead, that is, unlinked or never an item. */
#define SHAPE_HOLE  0x4000u /* off: dead and listed for reuse */
#define SHAPE_LOOSE 0x8000u /* off: being filled outside the lock, skipped by the cursor */
#define SHAPE_STALE 0x4000u /* live: invalidated; the next client that fetches it renews it */
#define SHAPE_WON   0x8000u /* live: a client was asked to renew it */

/*
 * heat: number of recent fetches (low two bits), the credit from the eviction policy's last
 * judgement, whether the policy has judged the item, and whether the item was ever fetched.
 * While an lfu policy is active, the low six bits hold a counter instead: see heat.h.
 */
#define HEAT_COUNT        0x03u
#define HEAT_CREDIT       0x1cu
#define HEAT_CREDIT_SHIFT 2u
#define HEAT_CREDIT_MAX   (HEAT_CREDIT >> HEAT_CREDIT_SHIFT)
#define HEAT_SIX          0x3fu
#define HEAT_JUDGED       0x40u
#define HEAT_FETCHED      0x80u
#define HEAT_MAX          3u

/* The part that a new block of the same key inherits. */
#define HEAT_USE (HEAT_SIX | HEAT_JUDGED)

typedef uint32_t handle_t;

struct item {
    _Atomic uint32_t used;  /* [atomic] readers write the second, the rest is [const] */
    uint8_t key_len;        /* [const] 0: not an item but a piece or a remnant */
    _Atomic uint8_t heat;   /* [atomic] readers' byte */
    _Atomic uint16_t shape; /* [atomic] written under the lock */
    uint64_t cas_len;       /* [const] in a hole: list links; of a piece: its number */
};

/* After the header when shape has TTL. */
struct item_ttl {
    /*
     * [atomic] written under the lock. 38 bits: the deadline, all ones: no deadline; 26 bits:
     * the node of the shard's wheel that it is in, 0: none
     */
    _Atomic uint64_t word;
};
#define ITEM_TTL_BYTES 8u

/* After both when shape has WIDE, as in each piece: fields that do not fit the header. */
struct item_wide {
    uint32_t client_flags; /* [const] all of them; of a piece: see piece_owner() [lock] */
    uint16_t len_high;     /* [const] the length of the value, from bit 14 on */
    uint8_t cas_high;      /* [const] the cas, from bit 58 on */
    uint8_t far_large;     /* [const] bits 1 to 7: the deadline, from bit 38 on; bit 0: the */
                           /* value is in segments and pieces, see struct large */
};
#define ITEM_WIDE_BYTES    8u
#define PIECE_HEADER_BYTES ((uint32_t)sizeof(struct item) + ITEM_WIDE_BYTES)

/* Fields of used and cas_len. */
#define USED_CAS_BITS   8u
#define USED_CAS        ((1u << USED_CAS_BITS) - 1)
#define USED_FLAGS_BITS 2u
#define USED_CONST_BITS (USED_CAS_BITS + USED_FLAGS_BITS)
#define USED_CONST      ((1u << USED_CONST_BITS) - 1)
#define LEN_BITS        14u
#define LEN_MASK        ((1u << LEN_BITS) - 1)
#define CAS_LOW_BITS    (64u - LEN_BITS)
#define CAS_BITS        (CAS_LOW_BITS + USED_CAS_BITS)

/* Fields of struct item_ttl. */
#define TTL_NODE_BITS     26u
#define TTL_NODE          ((1u << TTL_NODE_BITS) - 1)
#define DEADLINE_LOW_BITS (64u - TTL_NODE_BITS)
#define DEADLINE_LOW      ((INT64_C(1) << DEADLINE_LOW_BITS) - 1) /* 8.7 years in ms */
#define DEADLINE_HIGH     0x7fu
#define DEADLINE_MAX      ((msec_t)DEADLINE_HIGH << DEADLINE_LOW_BITS) /* 1106 years */

#define WIDE_LARGE     0x01u
#define WIDE_FAR_SHIFT 1u

#define ITEM_NARROW_FLAGS_MAX ((1u << USED_FLAGS_BITS) - 1)
#define ITEM_NARROW_CAS_MAX   ((UINT64_C(1) << CAS_BITS) - 1)

/*
 * An engine starts to draw cas values below this, whatever clocks and files say, so drawn
 * values always fit an item that is not wide. Larger values come only from clients that set the
 * cas themselves, and the engine does not continue from them.
 */
#define ITEM_CAS_DRAWN_MAX (UINT64_C(3) << (CAS_BITS - 2))

/* An engine that takes over another's memory continues its cas values, up to this. */
#define ITEM_CAS_GOES_ON_MAX (ITEM_NARROW_CAS_MAX - (UINT64_C(1) << (CAS_BITS - 3)))

/*
 * The second of the last access is known modulo 2^22 (48 days). It is interpreted as at most a
 * day ahead of the clock, and at most this many seconds in the past.
 */
#define ACCESS_AHEAD_S    (24u * 60 * 60)
#define ACCESS_MASK       (UINT32_MAX >> USED_CONST_BITS)
#define ACCESS_IDLE_MAX_S (ACCESS_MASK - ACCESS_AHEAD_S)

_Static_assert(sizeof(struct item) == 16, "the header is 16 bytes");
_Static_assert(sizeof(struct item_ttl) == ITEM_TTL_BYTES, "the next field follows directly");
_Static_assert(sizeof(struct item_wide) == ITEM_WIDE_BYTES, "it is written as it is");
_Static_assert(ITEM_SIZE_MAX *ITEM_UNIT < 1u << LEN_BITS, "any block's value has a length");

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

/* Was a client asked to renew it (flag W)? Context: read side. */
static inline bool item_is_won(const struct item *it)
{
    return (item_shape(it) & (SHAPE_OFF | SHAPE_WON)) == SHAPE_WON;
}

/* Stale, and no client was asked to renew it yet: the next client that fetches it is. */
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

static inline bool item_is_wide(const struct item *it)
{
    return (item_shape(it) & SHAPE_WIDE) != 0;
}

/*
 * Bytes of the header in a block of this shape: a byte of a table for each combination of WIDE
 * and TTL, so that a lookup takes neither branches nor sums.
 */
#define HEADER_BYTES                                                                           \
    (16u | (16u + ITEM_WIDE_BYTES) << 8 | (16u + ITEM_TTL_BYTES) << 16 |                       \
     (16u + ITEM_WIDE_BYTES + ITEM_TTL_BYTES) << 24)

static inline uint32_t shape_header_bytes(uint16_t shape)
{
    _Static_assert(SHAPE_WIDE == 1u << 12 && SHAPE_TTL == 1u << 13, "they choose the byte");
    return (HEADER_BYTES >> (shape / (SHAPE_WIDE / 8) & 24)) & 0xff;
}

/*
 * The functions named _by take the shape of the item, loaded once, so that a caller that reads
 * several fields checks it once.
 */

/* Of a wide item. */
static inline struct item_wide *item_wide_by(const struct item *it, uint16_t shape)
{
    return (struct item_wide *)(void *)((char *)(uintptr_t)(it + 1) +
                                        ((shape & SHAPE_TTL) != 0 ? ITEM_TTL_BYTES : 0));
}

static inline struct item_wide *item_wide(const struct item *it)
{
    return item_wide_by(it, item_shape(it));
}

static inline bool item_is_large_by(const struct item *it, uint16_t shape)
{
    return (shape & SHAPE_WIDE) != 0 && (item_wide_by(it, shape)->far_large & WIDE_LARGE) != 0;
}

static inline bool item_is_large(const struct item *it)
{
    return item_is_large_by(it, item_shape(it));
}

/* Of a wide item that is being filled. */
static inline void item_set_large(struct item *it)
{
    item_wide(it)->far_large |= WIDE_LARGE;
}

static inline uint32_t item_used(const struct item *it)
{
    return atomic_load_explicit(&it->used, memory_order_relaxed);
}

static inline uint32_t item_flags_by(const struct item *it, uint16_t shape)
{
    return (shape & SHAPE_WIDE) != 0
               ? item_wide_by(it, shape)->client_flags
               : (item_used(it) >> USED_CAS_BITS) & ((1u << USED_FLAGS_BITS) - 1);
}

static inline uint32_t item_flags(const struct item *it)
{
    return item_flags_by(it, item_shape(it));
}

static inline uint64_t item_cas_by(const struct item *it, uint16_t shape)
{
    return it->cas_len >> LEN_BITS | (uint64_t)(item_used(it) & USED_CAS) << CAS_LOW_BITS |
           ((shape & SHAPE_WIDE) != 0 ? (uint64_t)item_wide_by(it, shape)->cas_high << CAS_BITS
                                      : 0);
}

static inline uint64_t item_cas(const struct item *it)
{
    return item_cas_by(it, item_shape(it));
}

/* Bytes of the value of an item that is not large, or of a piece. */
static inline uint32_t item_block_len(const struct item *it)
{
    return (uint32_t)it->cas_len & LEN_MASK;
}

/* Bytes of the value. */
static inline uint32_t item_len_by(const struct item *it, uint16_t shape)
{
    return item_block_len(it) |
           ((shape & SHAPE_WIDE) != 0 ? (uint32_t)item_wide_by(it, shape)->len_high << LEN_BITS
                                      : 0);
}

static inline uint32_t item_len(const struct item *it)
{
    return item_len_by(it, item_shape(it));
}

/* The bits of a deadline that are in the wide header; not for MSEC_NEVER. */
static inline uint8_t deadline_far(msec_t deadline)
{
    return (uint8_t)((uint64_t)deadline >> DEADLINE_LOW_BITS & DEADLINE_HIGH);
}

/*
 * The deadline that a wide item stores for a requested one. It is the same, except that none is
 * negative or later than 1106 years. One millisecond in 8.7 years is stored as the next one,
 * because its bits mean MSEC_NEVER.
 */
static inline msec_t deadline_kept(msec_t deadline)
{
    if (deadline == MSEC_NEVER || deadline < 0) {
        return deadline < 0 ? 0 : deadline;
    }
    deadline += (deadline & DEADLINE_LOW) == DEADLINE_LOW;
    return deadline < DEADLINE_MAX ? deadline : DEADLINE_MAX;
}

/*
 * Does an item with these fields need a wide header? (Large items always do.) cas 0: the engine
 * will draw one. Negative deadlines need it too, so that only wide items need deadline_kept().
 */
static inline bool item_needs_wide(uint32_t flags, uint64_t cas, msec_t deadline)
{
    return flags > ITEM_NARROW_FLAGS_MAX || cas > ITEM_NARROW_CAS_MAX ||
           (deadline != MSEC_NEVER && (uint64_t)deadline >= (uint64_t)DEADLINE_LOW);
}

/* Set another cas in a block that no reader knows. A larger one needs a wide header. */
static inline void item_set_cas(struct item *it, uint64_t cas)
{
    debug_must(item_is_wide(it) || cas <= ITEM_NARROW_CAS_MAX);
    if (item_is_wide(it)) {
        item_wide(it)->cas_high = (uint8_t)(cas >> CAS_BITS);
    }
    it->cas_len = cas << LEN_BITS | item_block_len(it);
    atomic_store_explicit(
        &it->used, (item_used(it) & ~USED_CAS) | ((uint32_t)(cas >> CAS_LOW_BITS) & USED_CAS),
        memory_order_relaxed);
}

/* The second of the last access, as seen from this second; it may be later. */
static inline uint32_t used_access_s(uint32_t used, uint32_t now_s)
{
    uint32_t stored = used >> USED_CONST_BITS;

    return now_s + ACCESS_AHEAD_S - ((now_s + ACCESS_AHEAD_S - stored) & ACCESS_MASK);
}

/* Seconds since the last access. */
static inline uint32_t used_idle_s(uint32_t used, uint32_t now_s)
{
    uint32_t access_s = used_access_s(used, now_s);

    return now_s > access_s ? now_s - access_s : 0;
}

static inline uint32_t item_access_s(const struct item *it, uint32_t now_s)
{
    return used_access_s(item_used(it), now_s);
}

static inline uint32_t item_idle_s(const struct item *it, uint32_t now_s)
{
    return used_idle_s(item_used(it), now_s);
}

/* Record an access in this second. Context: read side, or in shard. */
static inline void item_set_access(struct item *it, uint32_t access_s)
{
    atomic_store_explicit(&it->used, access_s << USED_CONST_BITS | (item_used(it) & USED_CONST),
                          memory_order_relaxed);
}

/* Bytes of header, key and value, as shown by dumps and sizes. */
static inline size_t item_size(const struct item *it)
{
    return shape_header_bytes(item_shape(it)) + it->key_len + item_len(it);
}

/* Bytes of an item with all of its value. */
static inline uint64_t item_all_bytes(const struct item *it)
{
    return item_bytes(it) + (item_is_large(it) ? (uint64_t)item_len(it) : 0);
}

static inline const char *item_key_by(const struct item *it, uint16_t shape)
{
    return (const char *)it + shape_header_bytes(shape);
}

static inline const char *item_key(const struct item *it)
{
    return item_key_by(it, item_shape(it));
}

/* The value of an item that is not large. */
static inline const char *item_value(const struct item *it)
{
    return item_key(it) + it->key_len;
}

static inline uint64_t item_ttl_word(const struct item *it)
{
    return atomic_load_explicit(&item_ttl(it)->word, memory_order_relaxed);
}

/* Set the field of a block that is in no wheel. Upper bits of a deadline are in item_wide. */
static inline void item_init_ttl(struct item *it, msec_t deadline)
{
    atomic_store_explicit(&item_ttl(it)->word, (uint64_t)deadline << TTL_NODE_BITS,
                          memory_order_relaxed);
}

/* Can this block store another deadline? Upper bits are [const]. Context: in shard. */
static inline bool item_can_have(const struct item *it, msec_t deadline)
{
    uint8_t far = item_is_wide(it) ? item_wide(it)->far_large >> WIDE_FAR_SHIFT : 0;

    return item_has_ttl(it) &&
           (deadline == MSEC_NEVER || ((deadline >> DEADLINE_LOW_BITS) == far &&
                                       (deadline & DEADLINE_LOW) != DEADLINE_LOW));
}

/* Change the deadline to one that item_can_have(). Context: in shard. */
static inline void item_set_deadline(struct item *it, msec_t deadline)
{
    atomic_store_explicit(&item_ttl(it)->word,
                          (uint64_t)deadline << TTL_NODE_BITS | (item_ttl_word(it) & TTL_NODE),
                          memory_order_relaxed);
}

/* The node of the wheel that an item with TTL is in, or 0. Context: in shard. */
static inline uint32_t item_node(const struct item *it)
{
    return (uint32_t)item_ttl_word(it) & TTL_NODE;
}

static inline void item_set_node(struct item *it, uint32_t node)
{
    atomic_store_explicit(&item_ttl(it)->word, (item_ttl_word(it) & ~(uint64_t)TTL_NODE) | node,
                          memory_order_relaxed);
}

static inline msec_t item_deadline_by(const struct item *it, uint16_t shape)
{
    msec_t deadline;

    if ((shape & SHAPE_TTL) == 0) {
        return MSEC_NEVER;
    }
    deadline = (msec_t)(item_ttl_word(it) >> TTL_NODE_BITS);
    if (MF_UNLIKELY(deadline == DEADLINE_LOW)) {
        return MSEC_NEVER;
    }
    return (shape & SHAPE_WIDE) == 0
               ? deadline
               : deadline | (msec_t)(item_wide_by(it, shape)->far_large >> WIDE_FAR_SHIFT)
                                << DEADLINE_LOW_BITS;
}

static inline msec_t item_deadline(const struct item *it)
{
    return item_deadline_by(it, item_shape(it));
}

/*
 * The one predicate of expiry: due at or after the deadline. The lower bits alone are never
 * later than the deadline, and identify most items that are not due.
 */
static inline bool item_is_due(const struct item *it, msec_t now)
{
    return item_has_ttl(it) && now >= (msec_t)(item_ttl_word(it) >> TTL_NODE_BITS) &&
           now >= item_deadline(it);
}

static inline bool item_was_fetched(const struct item *it)
{
    return (atomic_load_explicit(&it->heat, memory_order_relaxed) & HEAT_FETCHED) != 0;
}

/* Set marks on a live block that has none of them. Context: in shard. */
static inline void item_mark(struct item *it, uint16_t marks)
{
    atomic_store_explicit(&it->shape, item_shape(it) | marks, memory_order_relaxed);
}

/* Copy the record of use to a new block of the same item. Context: in shard. */
static inline void item_copy_use(const struct item *from, struct item *to)
{
    atomic_store_explicit(&to->heat, atomic_load_explicit(&from->heat, memory_order_relaxed),
                          memory_order_relaxed);
    item_set_access(to, item_used(from) >> USED_CONST_BITS);
}

/* A piece of a large value: the block that holds struct large. Context: in shard. */
static inline handle_t piece_owner(const struct item *piece)
{
    return item_wide(piece)->client_flags;
}

static inline void piece_set_owner(struct item *piece, handle_t owner)
{
    item_wide(piece)->client_flags = owner;
}

/* Its number among the pieces of its value. */
static inline uint64_t piece_number(const struct item *piece)
{
    return item_cas(piece);
}

static inline char *piece_bytes(const struct item *piece)
{
    return (char *)(uintptr_t)piece + PIECE_HEADER_BYTES;
}

/* Fill the header of a loose block. Context: outside the shard, before a reader knows it. */
static inline void piece_fill(struct item *piece, handle_t owner, uint32_t number, uint32_t len)
{
    atomic_store_explicit(&piece->used, 0, memory_order_relaxed);
    piece->cas_len = (uint64_t)number << LEN_BITS | len;
    piece_set_owner(piece, owner);
}

#endif
