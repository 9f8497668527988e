/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lookup of table.h, inlined into its callers, because a get spends most of its time in the
 * engine here.
 *
 * Shared words are read once each, with acquire. So a reader that misses a tag, a handle or a
 * count because a move cleared it will see the copy in the new array, which was stored before.
 */
#ifndef MAYFLY_LIB_INDEX_TABLE_INLINE_H
#define MAYFLY_LIB_INDEX_TABLE_INLINE_H

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/load.h"
#include "lib/base/lock.h"
#include "lib/base/rcu.h"
#include "lib/index/table.h"

#ifdef __SSE2__
#define TABLE_SSE2 1
#include <emmintrin.h>
#endif

#define TABLE_TAG_BITS   8u
#define TABLE_COUNT_ONE  (1ULL << 32) /* one in the overflow count of word 1 */
#define TABLE_SLOT_MASK  ((1u << TABLE_SLOTS) - 1)
#define TABLE_CACHE_LINE 64u

/* The tag of a hash: its low byte, but never 0, which means empty. */
static inline uint8_t table_tag(uint64_t hash)
{
    uint8_t tag = (uint8_t)hash;

    return (uint8_t)(tag + (tag == 0));
}

/* The home bucket of a hash in an array of mask + 1 buckets. */
static inline uint64_t table_home(uint64_t hash, uint64_t mask)
{
    return (hash >> TABLE_TAG_BITS) & mask;
}

/*
 * A bit for each byte of the word that is zero. This is exact: adding 0x7f to the low seven
 * bits sets bit 7 unless they are all zero, and carries nothing into the next byte. The product
 * then collects bit 7 of byte i in bit i of the top byte.
 */
static inline unsigned table_zero_bytes(uint64_t word)
{
    const uint64_t low7 = 0x7f7f7f7f7f7f7f7fULL;
    uint64_t zero = ~(((word & low7) + low7) | word | low7);

    return (unsigned)((zero * 0x0002040810204081ULL) >> 56);
}

/* table_match() for machines without SSE2. */
static inline unsigned table_match_portable(uint64_t word0, uint64_t word1, uint8_t tag)
{
    uint64_t tags = tag * 0x0101010101010101ULL;

    return (table_zero_bytes(word0 ^ tags) | table_zero_bytes(word1 ^ tags) << 8) &
           TABLE_SLOT_MASK;
}

/* A bit for each slot with this tag; tag 0 finds the empty slots. */
static inline unsigned table_match(uint64_t word0, uint64_t word1, uint8_t tag)
{
#ifdef TABLE_SSE2
    __m128i tags = _mm_set_epi64x((long long)word1, (long long)word0);
    __m128i same = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));

    return (unsigned)_mm_movemask_epi8(same) & TABLE_SLOT_MASK;
#else
    return table_match_portable(word0, word1, tag);
#endif
}

#ifdef TABLE_SSE2
/* A vector of all ones if 16 bytes are equal. */
static inline __m128i table_equal16(const char *a, const char *b)
{
    return _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)a),
                          _mm_loadu_si128((const __m128i *)(const void *)b));
}
#endif

/*
 * Are n bytes equal? For the length of keys, this is cheaper than a call of memcmp(). The last
 * load overlaps the one before it, so nothing beyond the n bytes is read.
 */
static inline bool table_bytes_are(const char *a, const char *b, size_t n)
{
#ifdef TABLE_SSE2
    if (MF_LIKELY(n >= 16)) {
        __m128i same = table_equal16(a + n - 16, b + n - 16);

        for (size_t i = 0; i < n - 16; i += 16) {
            same = _mm_and_si128(same, table_equal16(a + i, b + i));
        }
        return _mm_movemask_epi8(same) == 0xffff;
    }
#endif
    if (MF_UNLIKELY(n < 8)) {
        if (n >= 4) {
            return load_le32(a) == load_le32(b) && load_le32(a + n - 4) == load_le32(b + n - 4);
        }
        for (size_t i = 0; i < n; i++) {
            if (a[i] != b[i]) {
                return false;
            }
        }
        return true;
    }

    size_t last = n - 8;
    for (size_t i = 0; i < last; i += 8) {
        if (load_le64(a + i) != load_le64(b + i)) {
            return false;
        }
    }
    return load_le64(a + last) == load_le64(b + last);
}

static inline const struct item *table_item(const char *base, handle_t handle)
{
    return (const struct item *)(const void *)(base + (uint64_t)handle * ITEM_UNIT);
}

/*
 * The slot of a key in one bucket, or NULL. *handle is set to the handle that was compared. If
 * the result is NULL, *goes_on says whether any item has passed over this bucket.
 */
static MF_INLINE _Atomic handle_t *table_lookup_in(struct table_bucket *b, const char *base,
                                                   uint64_t hash, const char *key,
                                                   size_t key_len, handle_t *handle,
                                                   bool *goes_on)
{
    uint64_t word0 = atomic_load_explicit(&b->word[0], memory_order_acquire);
    uint64_t word1 = atomic_load_explicit(&b->word[1], memory_order_acquire);

    for (unsigned hits = table_match(word0, word1, table_tag(hash)); hits != 0;
         hits &= hits - 1) {
        _Atomic handle_t *slot = &b->slot[(unsigned)__builtin_ctz(hits)];
        handle_t h = atomic_load_explicit(slot, memory_order_acquire);
        const struct item *it = table_item(base, h);

        if (MF_LIKELY(h != 0) && MF_LIKELY(it->key_len == key_len) &&
            MF_LIKELY(table_bytes_are(item_key(it), key, key_len))) {
            *handle = h;
            return slot;
        }
    }
    *goes_on = word1 >= TABLE_COUNT_ONE;
    return NULL;
}

/*
 * The same in one array. Goes on to the next bucket while any item has passed over this one, at
 * most once around the array.
 */
static MF_INLINE _Atomic handle_t *table_lookup(struct table_bucket *buckets, uint64_t mask,
                                                const char *base, uint64_t hash,
                                                const char *key, size_t key_len,
                                                handle_t *handle)
{
    for (uint64_t at = hash >> TABLE_TAG_BITS, passed = 0;; at++) {
        bool goes_on;
        _Atomic handle_t *slot =
            table_lookup_in(&buckets[at & mask], base, hash, key, key_len, handle, &goes_on);

        if (slot != NULL || !goes_on || passed++ == mask) {
            return slot;
        }
    }
}

/* Debug builds: the caller holds the lock of the table, or may at least read it. */
#define table_must_be_entered(t) lock_must_guard((t)->lock)
#define table_must_be_readable(t)                                                              \
    debug_must((t)->lock == NULL || rcu_is_reading() || lock_is_held_here((t)->lock))

/*
 * The slot of a key in its home bucket, or NULL. *is_sure is false if the search must continue
 * elsewhere: the table is being resized, or items have passed over the bucket. Nearly all keys
 * are in their home bucket, so the rest of the search, which takes a loop and more registers,
 * is in a separate function.
 */
static MF_INLINE _Atomic handle_t *table_lookup_home(const struct table_view *v,
                                                     const char *base, uint64_t hash,
                                                     const char *key, size_t key_len,
                                                     handle_t *handle, bool *is_sure)
{
    _Atomic handle_t *slot;
    bool goes_on;

    if (MF_UNLIKELY(v->old != NULL)) {
        *is_sure = false;
        return NULL;
    }
    slot = table_lookup_in(&v->buckets[table_home(hash, v->mask)], base, hash, key, key_len,
                           handle, &goes_on);
    *is_sure = slot != NULL || MF_LIKELY(!goes_on);
    return slot;
}

/* table_find() after table_lookup_home() has set *is_sure to false. */
const struct item *table_find_slowly(const struct table_view *v, const char *base,
                                     uint64_t hash, const char *key, size_t key_len);

/* table_find() in the home bucket only; *is_sure as for table_lookup_home(). */
static MF_INLINE const struct item *table_find_home(const struct table *t, const char *base,
                                                    uint64_t hash, const char *key,
                                                    size_t key_len, bool *is_sure)
{
    handle_t h;

    table_must_be_readable(t);
    return table_lookup_home(atomic_load_explicit(&t->view, memory_order_acquire), base, hash,
                             key, key_len, &h, is_sure) != NULL
               ? table_item(base, h)
               : NULL;
}

static MF_INLINE const struct item *table_find(const struct table *t, const char *base,
                                               uint64_t hash, const char *key, size_t key_len)
{
    const struct table_view *v = atomic_load_explicit(&t->view, memory_order_acquire);
    bool is_sure;
    handle_t h;

    table_must_be_readable(t);
    if (table_lookup_home(v, base, hash, key, key_len, &h, &is_sure) != NULL) {
        return table_item(base, h);
    }
    return MF_LIKELY(is_sure) ? NULL : table_find_slowly(v, base, hash, key, key_len);
}

/* table_slot() after table_lookup_home() has set *is_sure to false. */
_Atomic handle_t *table_slot_slowly(const struct table_view *v, const char *base, uint64_t hash,
                                    const char *key, size_t key_len);

static inline _Atomic handle_t *table_slot(struct table *t, const char *base, uint64_t hash,
                                           const char *key, size_t key_len)
{
    const struct table_view *v = atomic_load_explicit(&t->view, memory_order_acquire);
    _Atomic handle_t *slot;
    bool is_sure;
    handle_t h;

    table_must_be_entered(t);
    slot = table_lookup_home(v, base, hash, key, key_len, &h, &is_sure);
    return MF_LIKELY(is_sure) ? slot : table_slot_slowly(v, base, hash, key, key_len);
}

static inline uint64_t table_buckets(const struct table *t)
{
    return atomic_load_explicit(&t->view, memory_order_acquire)->mask + 1;
}

static inline bool table_has_room(const struct table *t)
{
    const struct table_view *v = atomic_load_explicit(&t->view, memory_order_acquire);
    uint64_t slots = (v->mask + 1) * TABLE_SLOTS;

    table_must_be_entered(t);
    return t->count < slots - slots / 16;
}

static inline void table_prefetch_bucket(const struct table *t, uint64_t hash)
{
    const struct table_view *v = atomic_load_explicit(&t->view, memory_order_acquire);

    table_must_be_readable(t);
    __builtin_prefetch(&v->buckets[table_home(hash, v->mask)]);
    if (MF_UNLIKELY(v->old != NULL)) {
        __builtin_prefetch(&v->old[table_home(hash, v->old_mask)]);
    }
}

/* Prefetch the first item of the home bucket that has the tag, and return it; NULL: none. */
static inline const struct item *table_prefetch_in(const struct table_bucket *buckets,
                                                   uint64_t mask, const char *base,
                                                   uint64_t hash)
{
    const struct table_bucket *b = &buckets[table_home(hash, mask)];
    uint64_t word0 = atomic_load_explicit(&b->word[0], memory_order_acquire);
    uint64_t word1 = atomic_load_explicit(&b->word[1], memory_order_acquire);
    unsigned hits = table_match(word0, word1, table_tag(hash));

    if (hits == 0) {
        return NULL;
    }

    handle_t h =
        atomic_load_explicit(&b->slot[(unsigned)__builtin_ctz(hits)], memory_order_acquire);
    const struct item *it = table_item(base, h);

    /* Header, key and the first part of the value: most items reach into a second line. */
    __builtin_prefetch(it);
    __builtin_prefetch((const char *)it + TABLE_CACHE_LINE);
    return h != 0 ? it : NULL;
}

static inline const struct item *table_prefetch_item(const struct table *t, const char *base,
                                                     uint64_t hash)
{
    const struct table_view *v = atomic_load_explicit(&t->view, memory_order_acquire);

    table_must_be_readable(t);
    if (MF_UNLIKELY(v->old != NULL)) {
        const struct item *it = table_prefetch_in(v->old, v->old_mask, base, hash);

        if (it != NULL) {
            return it;
        }
    }
    return table_prefetch_in(v->buckets, v->mask, base, hash);
}

#endif
