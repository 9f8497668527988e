/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The changes of a shard, as records in a ring. Sinks read them: threads that keep a copy of
 * the shard's items, in a file or elsewhere. A record names a changed key, but not its new
 * state. A sink looks the key up and takes its current state. So neither the order of records
 * of different keys nor the number of records of one key matters.
 *
 * A record is written after the change, under the shard's lock. So a sink that opens its
 * section after it has loaded `published` finds at least that change.
 *
 * Writing never waits for readers. A reader copies a record, or uses it in place, and then
 * checks whether the writer has overwritten it meanwhile (an overrun). After an overrun the
 * reader has missed changes and must restart with a full copy.
 *
 * Positions count the bytes ever written; they never wrap.
 */
#ifndef MAYFLY_LIB_SHARD_CHANGES_H
#define MAYFLY_LIB_SHARD_CHANGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/rcu.h"
#include "lib/base/span.h"
#include "lib/memory/item.h"

struct budget;

enum change_kind {
    CHANGE_PUT,    /* the key has a new value, or its item a new deadline, cas or marks */
    CHANGE_DROP,   /* the key was removed */
    CHANGE_FLUSH,  /* all items were removed */
    CHANGE_LATER,  /* all items will be removed at the time `at` */
    CHANGE_PREFIX, /* all keys with a prefix were removed */
};

/* A copy of one record. */
struct change {
    enum change_kind kind;
    uint8_t key_len;
    uint64_t id; /* PUT, DROP: hash of the key; FLUSH, LATER, PREFIX: number of the command */
    msec_t at;   /* LATER: the time of the flush */
    char key[(ITEM_KEY_MAX + 7) / 8 * 8]; /* in whole words; PREFIX: the prefix */
};

/*
 * Where sinks sleep; one for all rings of an engine. A writer that finds the flag set clears it
 * and wakes them.
 */
struct changes_bell {
    /* [atomic] */
    _Atomic uint32_t is_awaited; /* a sink sleeps, or is about to */
    _Atomic uint32_t rings;      /* the futex word */
};

struct changes {
    /* [const] */
    _Atomic uint64_t *words;   /* [atomic] each written with release, read with acquire */
    uint64_t bytes;            /* of the ring; a power of two */
    struct budget *budget;     /* [borrowed] */
    struct changes_bell *bell; /* [borrowed] */
    uint64_t flushed_before;   /* no records of flushes up to this, as the shard is newer */
    uint64_t prefix_before;    /* the same for flushes of a prefix */
    /* [atomic] in a cache line that readers read and writers write anyway */
    _Atomic uint64_t begun MF_LINE_ALIGNED; /* words before this may have been overwritten */
    _Atomic uint64_t published;             /* records before this are complete (release) */
    _Atomic uint64_t expired;               /* items that expired without a record (release) */
    /* [lock] */
    uint64_t end;            /* `published`, for the holder of the lock */
    uint32_t expiry_readers; /* sinks that want a record of each item that expires */
};

/* Smallest size of a ring in bytes; many times the longest record. */
#define CHANGES_BYTES_MIN 4096u

/*
 * Create a ring of `bytes` bytes, rounded up to a power of two and charged to the budget. NULL
 * if the system has no memory. Context: any thread, outside a shard.
 */
struct changes *changes_create(uint64_t bytes, struct budget *budget,
                               struct changes_bell *bell);

/* Release; takes the address and nulls it; accepts NULL. Context: no other thread uses it. */
void changes_destroy(struct changes **c);

/* Write a record of a key; id: see struct change. Context: in shard. */
void changes_put(struct changes *c, enum change_kind kind, uint64_t id, const char *key,
                 size_t key_len);

/*
 * The item of a key has expired: write CHANGE_DROP if a reader wants that, else only count it.
 * Deadlines are absolute, so a sink that knows the time can infer the expiry. Context: in
 * shard.
 */
void changes_put_expiry(struct changes *c, uint64_t hash, const char *key, size_t key_len);

/* Write CHANGE_PREFIX. Context: in shard. */
void changes_put_prefix(struct changes *c, uint64_t id, struct span prefix);

/*
 * Number of items that expired without a record. Their deadlines are earlier than any time that
 * the clock shows after this call. Context: any thread.
 */
static inline uint64_t changes_expired(const struct changes *c)
{
    return atomic_load_explicit(&c->expired, memory_order_acquire);
}

/* Write CHANGE_FLUSH, or CHANGE_LATER. Context: in shard. */
void changes_put_flush(struct changes *c, enum change_kind kind, uint64_t id, msec_t at);

/*
 * The position before which records are complete. A section opened after this call sees the
 * changes that these records stand for. Context: any thread, outside a section.
 */
static inline uint64_t changes_published(const struct changes *c)
{
    return atomic_load_explicit(&c->published, memory_order_acquire);
}

/*
 * Copy the record at *pos, which is before `published`, and move *pos to the next one. False if
 * it has been overwritten. Context: any thread.
 */
bool changes_get(const struct changes *c, uint64_t *pos, struct change *out);

/*
 * Number of records that the calling thread has written for commands. While there are rings, it
 * grows whenever a command changes an item, so a caller can tell whether one did. Expired and
 * evicted items are not counted, nor are flushes, which request a log ticket themselves.
 * Context: any thread.
 */
uint64_t changes_made(void);

/* Count the record that was just written. Context: in shard. */
void changes_count_made(void);

/* ---- reading in place -------------------------------------------------------------------- */

/*
 * The header word of a record:
 *
 *     bits 0..15   bytes of the record
 *     bits 16..23  kind
 *     bits 24..31  bytes of the key
 */
#define CHANGE_KIND_SHIFT    16
#define CHANGE_KEY_LEN_SHIFT 24

/*
 * A record that is read without a copy may be overwritten meanwhile. The data is valid only if
 * changes_has() confirms it afterwards. Context: any thread.
 */
struct change_head {
    enum change_kind kind;
    uint8_t key_len;
    uint64_t id; /* as in struct change */
};

/* The word at a position, and the words of the record that begins there. */
static inline _Atomic uint64_t *changes_words(const struct changes *c, uint64_t pos)
{
    return &c->words[(pos & (c->bytes - 1)) / sizeof(*c->words)];
}

static inline uint64_t changes_word(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_acquire);
}

static inline bool changes_has(const struct changes *c, uint64_t pos)
{
    return atomic_load_explicit(&c->begun, memory_order_relaxed) <= pos + c->bytes;
}

static inline struct change_head changes_head(const struct changes *c, uint64_t pos)
{
    const _Atomic uint64_t *at = changes_words(c, pos);
    const uint64_t head = changes_word(at);

    return (struct change_head){(enum change_kind)(head >> CHANGE_KIND_SHIFT & UINT8_MAX),
                                (uint8_t)(head >> CHANGE_KEY_LEN_SHIFT), changes_word(at + 1)};
}

/* Bytes of a PUT or DROP with a key of this length. */
static inline uint64_t changes_bytes(size_t key_len)
{
    return (2 + (key_len + sizeof(uint64_t) - 1) / sizeof(uint64_t)) * sizeof(uint64_t);
}

/* The last n bytes of a key, fewer than a word, in the form of the last word of a record. */
static inline uint64_t changes_key_rest(const char *p, size_t n, size_t key_len)
{
    uint64_t word = 0;

    if (MF_LIKELY(key_len >= sizeof(word))) {
        memcpy(&word, p + n - sizeof(word), sizeof(word));
        return word >> (sizeof(word) - n) * 8;
    }
    for (size_t i = 0; i < n; i++) {
        word |= (uint64_t)(uint8_t)p[i] << i * 8;
    }
    return word;
}

/* Does the PUT or DROP at pos, with a key of this length, name this key? */
static inline bool changes_key_is(const struct changes *c, uint64_t pos, const char *key,
                                  size_t key_len)
{
    const _Atomic uint64_t *at = changes_words(c, pos) + 2;
    size_t left = key_len;
    uint64_t word;

    for (; left >= sizeof(word); left -= sizeof(word), key += sizeof(word)) {
        memcpy(&word, key, sizeof(word));
        if (word != changes_word(at++)) {
            return false;
        }
    }
    return left == 0 || changes_key_rest(key, left, key_len) == changes_word(at);
}

/* Prefetch the record at pos, which will be read soon. */
static inline void changes_prefetch(const struct changes *c, uint64_t pos)
{
    __builtin_prefetch((const void *)changes_words(c, pos));
}

/* ---- sleeping ---------------------------------------------------------------------------- */

/*
 * Sleep until a record is written or an expiry counted, bell_ring() is called, or the timeout
 * has passed. `rings` is the result of bell_listen(); between the two calls the caller checks
 * whether there is work. Context: registered thread, outside a section.
 */
uint32_t bell_listen(struct changes_bell *b);
void bell_sleep(struct changes_bell *b, uint32_t rings, usec_t max_us);

/* Wake sleeping threads. Context: any thread, also in shard. */
void bell_ring(struct changes_bell *b);

#endif
