/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings of changes: see changes.h.
 *
 * A record is a header word, then for PUT and META the cas, for FLUSH, LATER and PREFIX the id
 * and the instant, and then the key or the prefix, filled up with zeros to whole words:
 *
 *     bits 0..15   bytes of the record
 *     bits 16..23  kind
 *     bits 24..31  bytes of the key
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

#define WORD          sizeof(uint64_t)
#define KIND_SHIFT    16
#define KEY_LEN_SHIFT 24
#define RECORD_MAX    (3 * WORD + (ITEM_KEY_MAX + WORD - 1) / WORD * WORD)
#define US_PER_SEC    1000000
#define NS_PER_US     1000

_Static_assert(RECORD_MAX * 8 <= CHANGES_BYTES_MIN, "many records fit");

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
    c->words = mem_map(size, size >= MEM_HUGE_BYTES ? MEM_PAGES_HUGE : MEM_PAGES_SMALL);
    if (c->words == NULL) {
        mem_free(c);
        return NULL;
    }
    mem_touch((void *)c->words, size); /* nobody waits for the system in the shard */
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
        mem_unmap((void *)c->words, c->bytes);
        mem_free(c);
        *cp = NULL;
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

static inline _Atomic uint64_t *word_at(const struct changes *c, uint64_t pos)
{
    return &c->words[(pos & (c->bytes - 1)) / WORD];
}

static inline uint64_t put_word(struct changes *c, uint64_t pos, uint64_t word)
{
    atomic_store_explicit(word_at(c, pos), word, memory_order_release);
    return pos + WORD;
}

static inline uint64_t header(enum change_kind kind, size_t bytes, size_t key_len)
{
    return bytes | (uint64_t)kind << KIND_SHIFT | (uint64_t)key_len << KEY_LEN_SHIFT;
}

/* Begin a record of `bytes` bytes. */
static inline uint64_t begin(struct changes *c, size_t bytes)
{
    /* The stores to the words, which release, come after this one. */
    atomic_store_explicit(&c->begun, c->end + bytes, memory_order_relaxed);
    return c->end;
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

/* The record is whole, up to pos. */
static inline void publish(struct changes *c, uint64_t pos)
{
    c->end = pos;
    atomic_store_explicit(&c->published, pos, memory_order_release);
    wake_readers(c);
}

static inline uint64_t load_word(const char *p)
{
    uint64_t word;

    memcpy(&word, p, WORD);
    return word;
}

/* The last bytes of a key, fewer than a word. */
static inline uint64_t key_rest(const char *p, size_t n, size_t key_len)
{
    uint64_t word = 0;

    if (key_len >= WORD) {
        return load_word(p + n - WORD) >> (WORD - n) * CHAR_BIT;
    }
    for (size_t i = 0; i < n; i++) {
        word |= (uint64_t)(uint8_t)p[i] << i * CHAR_BIT;
    }
    return word;
}

static inline uint64_t put_key(struct changes *c, uint64_t pos, const char *key, size_t key_len)
{
    size_t left = key_len;

    for (; left >= WORD; left -= WORD, key += WORD) {
        pos = put_word(c, pos, load_word(key));
    }
    return left != 0 ? put_word(c, pos, key_rest(key, left, key_len)) : pos;
}

void changes_put(struct changes *c, enum change_kind kind, uint64_t cas, const char *key,
                 size_t key_len)
{
    size_t words = (key_len + WORD - 1) / WORD;
    size_t bytes = (words + 1 + (kind != CHANGE_DROP)) * WORD;
    uint64_t pos = begin(c, bytes);

    must(key_len != 0 && key_len <= ITEM_KEY_MAX && kind <= CHANGE_DROP);
    __builtin_prefetch((const char *)word_at(c, pos + bytes) + MF_LINE_BYTES, 1);
    pos = put_word(c, pos, header(kind, bytes, key_len));
    if (kind != CHANGE_DROP) {
        pos = put_word(c, pos, cas);
    }
    publish(c, put_key(c, pos, key, key_len));
}

void changes_put_expiry(struct changes *c, const char *key, size_t key_len)
{
    if (c->expiry_readers != 0) {
        changes_put(c, CHANGE_DROP, 0, key, key_len);
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
    uint64_t pos = begin(c, bytes);

    debug_must(kind == CHANGE_FLUSH || kind == CHANGE_LATER);
    pos = put_word(c, pos, header(kind, bytes, 0));
    pos = put_word(c, pos, id);
    pos = put_word(c, pos, (uint64_t)at);
    publish(c, pos);
}

void changes_put_prefix(struct changes *c, uint64_t id, struct span prefix)
{
    size_t bytes = (3 + (prefix.len + WORD - 1) / WORD) * WORD;
    uint64_t pos = begin(c, bytes);

    must(prefix.len != 0 && prefix.len <= ITEM_KEY_MAX);
    pos = put_word(c, pos, header(CHANGE_PREFIX, bytes, prefix.len));
    pos = put_word(c, pos, id);
    pos = put_word(c, pos, 0);
    publish(c, put_key(c, pos, prefix.ptr, prefix.len));
}

/* ---- reading ----------------------------------------------------------------------------- */

static inline uint64_t get_word(const struct changes *c, uint64_t pos)
{
    return atomic_load_explicit(word_at(c, pos), memory_order_acquire);
}

bool changes_get(const struct changes *c, uint64_t *pos, struct change *out)
{
    uint64_t at = *pos;
    uint64_t head = get_word(c, at);
    uint64_t bytes = head & ((1u << KIND_SHIFT) - 1);
    uint64_t first = 0;
    uint64_t second = 0;
    size_t n = 0;

    out->kind = (enum change_kind)(head >> KIND_SHIFT & UINT8_MAX);
    out->key_len = (uint8_t)(head >> KEY_LEN_SHIFT);
    /* Of a record that was overwritten, any word may have come. */
    if (bytes <= RECORD_MAX && out->key_len <= ITEM_KEY_MAX) {
        at += WORD;
        if (out->kind != CHANGE_DROP) {
            first = get_word(c, at);
            at += WORD;
        }
        if (out->kind > CHANGE_DROP) {
            second = get_word(c, at);
            at += WORD;
        }
        for (; n < out->key_len; n += WORD, at += WORD) {
            uint64_t word = get_word(c, at);

            memcpy(out->key + n, &word, WORD);
        }
    }
    if (atomic_load_explicit(&c->begun, memory_order_relaxed) > *pos + c->bytes) {
        return false;
    }
    must(at == *pos + bytes);
    out->cas = first;
    out->at = (msec_t)second;
    *pos = at;
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
