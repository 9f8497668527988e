/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings of changes: see changes.h.
 *
 * A record is a header word, then the id, for FLUSH, LATER and PREFIX the instant, and then the
 * key or the prefix, filled up with zeros to whole words.
 *
 * A record is in one piece in memory. One that begins near the end of the ring continues past
 * it, where there is room for the longest. The words at the beginning that have the same
 * positions are not used in that round.
 *
 * All words are written with release and read with acquire. So a reader that was given a word
 * of a later round sees `begun` as it was before that word was written, and knows. On x86 both
 * are plain moves.
 */
#include "lib/shard/changes.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/context.h"
#include "lib/base/mem.h"

#define WORD       sizeof(uint64_t)
#define RECORD_MAX (3 * WORD + (ITEM_KEY_MAX + WORD - 1) / WORD * WORD)
#define US_PER_SEC 1000000
#define NS_PER_US  1000

_Static_assert(RECORD_MAX * 8 <= CHANGES_BYTES_MIN, "many records fit");

/* Bytes in memory of a ring of this size. */
static uint64_t with_last_record(uint64_t size)
{
    return size + RECORD_MAX;
}

struct changes *changes_create(uint64_t bytes, struct budget *budget, struct changes_bell *bell)
{
    struct changes *c = mem_alloc_aligned(sizeof(*c), MF_LINE_BYTES);
    uint64_t size = CHANGES_BYTES_MIN;

    if (c == NULL) {
        return NULL;
    }
    while (size < bytes) {
        size *= 2;
    }
    memset(c, 0, sizeof(*c));
    c->words = mem_map(with_last_record(size),
                       size >= MEM_HUGE_BYTES ? MEM_PAGES_HUGE : MEM_PAGES_SMALL);
    if (c->words == NULL) {
        mem_free(c);
        return NULL;
    }
    mem_touch((void *)c->words,
              with_last_record(size)); /* nobody waits for the system in the shard */
    c->bytes = size;
    c->budget = budget;
    c->bell = bell;
    budget_add(budget, (int64_t)size);
    return c;
}

void changes_destroy(struct changes **cp)
{
    struct changes *c = *cp;

    if (c != NULL) {
        budget_add(c->budget, -(int64_t)c->bytes);
        mem_unmap((void *)c->words, with_last_record(c->bytes));
        mem_free(c);
        *cp = NULL;
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Returns where the next word goes. */
static inline _Atomic uint64_t *put_word(_Atomic uint64_t *at, uint64_t word)
{
    atomic_store_explicit(at, word, memory_order_release);
    return at + 1;
}

static inline uint64_t header(enum change_kind kind, size_t bytes, size_t key_len)
{
    return bytes | (uint64_t)kind << CHANGE_KIND_SHIFT |
           (uint64_t)key_len << CHANGE_KEY_LEN_SHIFT;
}

/* Begin a record of `bytes` bytes. Returns where its words go. */
static inline _Atomic uint64_t *begin(struct changes *c, size_t bytes)
{
    /* The stores to the words, which release, come after this one. */
    atomic_store_explicit(&c->begun, c->end + bytes, memory_order_relaxed);
    return changes_words(c, c->end);
}

static _Thread_local uint64_t made;

uint64_t changes_made(void)
{
    return made;
}

void changes_count_made(void)
{
    made++;
}

/* Something was published. */
static inline void wake_readers(struct changes *c)
{
    /* Either this thread sees that somebody sleeps, or that one has seen what is new. */
    rcu_fence_light();
    if (MF_UNLIKELY(atomic_load_explicit(&c->bell->is_awaited, memory_order_relaxed) != 0)) {
        bell_ring(c->bell);
    }
}

/* The record, of `bytes` bytes, is whole. */
static inline void publish(struct changes *c, size_t bytes)
{
    c->end += bytes;
    atomic_store_explicit(&c->published, c->end, memory_order_release);
    wake_readers(c);
}

static inline uint64_t load_word(const char *p)
{
    uint64_t word;

    memcpy(&word, p, WORD);
    return word;
}

static inline void put_key(_Atomic uint64_t *at, const char *key, size_t key_len)
{
    size_t left = key_len;

    for (; left >= WORD; left -= WORD, key += WORD) {
        at = put_word(at, load_word(key));
    }
    if (left != 0) {
        put_word(at, changes_key_rest(key, left, key_len));
    }
}

void changes_put(struct changes *c, enum change_kind kind, uint64_t id, const char *key,
                 size_t key_len)
{
    size_t bytes = changes_bytes(key_len);
    _Atomic uint64_t *at = begin(c, bytes);

    must(key_len != 0 && key_len <= ITEM_KEY_MAX && kind <= CHANGE_DROP);
    __builtin_prefetch((const char *)changes_words(c, c->end + bytes) + MF_LINE_BYTES, 1);
    at = put_word(at, header(kind, bytes, key_len));
    at = put_word(at, id);
    put_key(at, key, key_len);
    publish(c, bytes);
}

void changes_put_expiry(struct changes *c, uint64_t hash, const char *key, size_t key_len)
{
    if (c->expiry_readers != 0) {
        changes_put(c, CHANGE_DROP, hash, key, key_len);
        return;
    }
    atomic_store_explicit(&c->expired,
                          atomic_load_explicit(&c->expired, memory_order_relaxed) + 1,
                          memory_order_release);
    wake_readers(c);
}

void changes_put_flush(struct changes *c, enum change_kind kind, uint64_t id, msec_t at)
{
    size_t bytes = 3 * WORD;
    _Atomic uint64_t *to = begin(c, bytes);

    debug_must(kind == CHANGE_FLUSH || kind == CHANGE_LATER);
    to = put_word(to, header(kind, bytes, 0));
    to = put_word(to, id);
    put_word(to, (uint64_t)at);
    publish(c, bytes);
}

void changes_put_prefix(struct changes *c, uint64_t id, struct span prefix)
{
    size_t bytes = (3 + (prefix.len + WORD - 1) / WORD) * WORD;
    _Atomic uint64_t *to = begin(c, bytes);

    must(prefix.len != 0 && prefix.len <= ITEM_KEY_MAX);
    to = put_word(to, header(CHANGE_PREFIX, bytes, prefix.len));
    to = put_word(to, id);
    to = put_word(to, 0);
    put_key(to, prefix.ptr, prefix.len);
    publish(c, bytes);
}

/* ---- reading ----------------------------------------------------------------------------- */

bool changes_get(const struct changes *c, uint64_t *pos, struct change *out)
{
    const _Atomic uint64_t *const from = changes_words(c, *pos);
    const _Atomic uint64_t *at = from;
    const uint64_t head = changes_word(at++);
    const enum change_kind kind = (enum change_kind)(head >> CHANGE_KIND_SHIFT & UINT8_MAX);
    const uint8_t key_len = (uint8_t)(head >> CHANGE_KEY_LEN_SHIFT);

    out->kind = kind;
    out->key_len = key_len;
    out->id = changes_word(at++);
    out->at = kind > CHANGE_DROP ? (msec_t)changes_word(at++) : 0;
    /* Of a record that was overwritten, any word may have come. */
    for (size_t n = 0; n < key_len && n < sizeof(out->key); n += WORD) {
        uint64_t word = changes_word(at++);

        memcpy(out->key + n, &word, WORD);
    }
    if (!changes_has(c, *pos)) {
        return false;
    }
    must((uint64_t)(at - from) * WORD == (head & ((1u << CHANGE_KIND_SHIFT) - 1)));
    *pos += (uint64_t)(at - from) * WORD;
    return true;
}

/* ---- sleeping ---------------------------------------------------------------------------- */

uint32_t bell_listen(struct changes_bell *b)
{
    uint32_t rings = atomic_load_explicit(&b->rings, memory_order_acquire);

    must_not_be_reading();
    atomic_store_explicit(&b->is_awaited, 1, memory_order_relaxed);
    rcu_fence_heavy();
    return rings;
}

void bell_sleep(struct changes_bell *b, uint32_t rings, usec_t max_us)
{
    struct timespec ts = {.tv_sec = (time_t)(max_us / US_PER_SEC),
                          .tv_nsec = (long)(max_us % US_PER_SEC * NS_PER_US)};

    must_not_be_reading();
    /* Woken, timed out, changed word, or a signal: in any case the caller looks again. */
    (void)syscall(SYS_futex, &b->rings, FUTEX_WAIT_PRIVATE, rings, &ts, NULL, 0);
}

void bell_ring(struct changes_bell *b)
{
    atomic_store_explicit(&b->is_awaited, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&b->rings, 1, memory_order_release);
    (void)syscall(SYS_futex, &b->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
