/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes of a prefix: from the reply of the command on, every item stored before the command
 * whose key begins with the prefix is invisible. Items stored afterwards stay.
 *
 * A prefix is in force from the command until a walk has unlinked the flushed items. Meanwhile
 * lookups must distinguish items stored before the command from items stored since. Items have
 * no time of storage (and clients may choose the cas), so their range of the index decides:
 *
 *     The index is divided into ranges of hashes. A shard records for each range the newest
 *     command of which it is *clean*: no item flushed by this command or an earlier one is left
 *     in the range. A writer that looks up a key with a prefix in force first cleans the range
 *     of the key, if necessary. So an item that it finds was stored after the command, and an
 *     item that it links is in a clean range.
 *
 * So the range alone tells a reader whether an item with such a prefix is flushed: in a range
 * that is not clean, it was stored before the command. The reader checks the range before it
 * searches the index: an item found in a range that was clean by then was stored since.
 *
 * While any prefix is in force in a shard, its gate is shut (shard.h): every lookup then takes
 * the slow path, which compares prefixes. Otherwise prefixes cost lookups nothing.
 *
 * Commands have increasing numbers. In each shard a command comes into force under the lock,
 * with a record in the ring of changes. Items stored there before that, under the lock, are
 * flushed; others are not.
 */
#ifndef MAYFLY_LIB_SHARD_PREFIX_H
#define MAYFLY_LIB_SHARD_PREFIX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/context.h"
#include "lib/base/reclaim.h"
#include "lib/base/span.h"
#include "lib/memory/item.h"
#include "lib/shard/shard.h"

struct prefix {
    uint64_t id;    /* the number of the command */
    uint64_t begin; /* the first eight bytes of the text, padded with zeros */
    uint64_t mask;  /* all ones in the bytes of `begin` that are text */
    uint32_t len;
    char text[ITEM_KEY_MAX];
};

/* Fill it in. Context: any thread. */
void prefix_init(struct prefix *p, uint64_t id, struct span text);

/* The prefixes in force, in the order of their numbers. [const] once published in the group. */
struct prefixes {
    struct retired retired;
    uint32_t count;
    struct prefix at[];
};

/* The prefixes in force; NULL: none. Context: read side. */
static inline const struct prefixes *prefixes_of(const struct shard_group *g)
{
    must_be_reading();
    return atomic_load_explicit(&g->prefixes, memory_order_acquire);
}

/*
 * For each range, the newest command of which it is clean; see prefix_range_clean(), which also
 * considers shard_prefix_clean(). A range has all hashes with the same low bits of
 * table_home(): in an array of any size, its buckets are adjacent in the order of table_walk().
 */
struct prefix_marks {
    struct retired retired;
    struct budget *budget; /* [borrowed] */
    uint64_t bytes;        /* counted in it */
    uint64_t mask;         /* ranges - 1 */
    /* [atomic] written under the lock (release) */
    _Atomic uint64_t range[];
};

/* Release at once. Accepts NULL. Context: no other thread uses it. */
void prefix_marks_destroy(struct prefix_marks *m);

/*
 * Number of ranges for an index of this size; 0: m, if it is not NULL, has enough. Context: any
 * thread.
 */
uint64_t prefix_ranges(const struct prefix_marks *m, uint64_t buckets);

/*
 * Create marks for ranges that are clean of no command. They are charged to the budget, and are
 * released by retiring them. NULL: no memory. Context: any thread, outside a shard.
 */
struct prefix_marks *prefix_marks_create(struct budget *budget, uint64_t ranges);

/* Copy the marks of larger ranges to the ranges that they consist of. Context: in shard. */
void prefix_marks_copy(struct prefix_marks *m, const struct prefix_marks *from);

/* The marks; NULL: no prefix is in force here. Context: read side, or in shard. */
static inline struct prefix_marks *prefix_marks_of(const struct shard *s)
{
    return atomic_load_explicit(&s->prefix_marks, memory_order_acquire);
}

static inline uint64_t prefix_range_of(const struct prefix_marks *m, uint64_t hash)
{
    return table_home(hash, m->mask);
}

/* The newest command of which the whole shard is clean. Context: any thread. */
static inline uint64_t shard_prefix_clean(const struct shard *s)
{
    return atomic_load_explicit(&s->prefix_clean, memory_order_acquire);
}

/* The newest command of which a range is clean. */
static inline uint64_t prefix_range_clean(const struct shard *s, const struct prefix_marks *m,
                                          uint64_t range)
{
    uint64_t all = shard_prefix_clean(s);
    uint64_t one = atomic_load_explicit(&m->range[range], memory_order_acquire);

    return one > all ? one : all;
}

/*
 * Does a prefix in force hide an item of this key here? Call it before the index is searched.
 * Context: read side.
 */
bool shard_hides_slowly(const struct shard *s, uint64_t hash, const char *key, size_t key_len);

static inline bool shard_has_prefixes(const struct shard *s)
{
    return MF_UNLIKELY(prefix_marks_of(s) != NULL);
}

static inline bool shard_hides(const struct shard *s, uint64_t hash, const char *key,
                               size_t key_len)
{
    return shard_has_prefixes(s) && shard_hides_slowly(s, hash, key, key_len);
}

/*
 * The item of a key here, unless a prefix in force has flushed it; NULL: none. Context: read
 * side.
 */
const struct item *shard_find_unhidden(const struct shard *s, const char *key, size_t key_len);

/* Does the key of an item begin with one of these prefixes? Context: read side. */
bool prefixes_have(const struct prefixes *all, const struct item *it);

/* Is a prefix of this key in force in any shard? Context: read side. */
bool shard_is_being_flushed(const struct shard *s, struct span key);

/*
 * The number of the newest command that is, or was, in force here. Context: in shard, or one
 * flush command at a time.
 */
static inline uint64_t shard_prefix_newest(const struct shard *s)
{
    return atomic_load_explicit(&s->prefix_id, memory_order_acquire);
}

/*
 * Mark a new, empty shard as if these commands had been carried out. Context: the shard is not
 * in use yet.
 */
void shard_prefix_follow(struct shard *s, uint64_t id);

/* All items were flushed, including those of flushed prefixes. Context: in shard. */
void shard_prefix_forget(struct shard *s);

/* Is the maximum number of prefixes in force? Context: any thread, outside a section. */
bool shard_prefixes_are_full(const struct shard *s);

/* May flushed items of prefixes still be linked? Context: any thread. */
static inline bool shard_prefix_goes_on(const struct shard *s)
{
    return shard_prefix_clean(s) != shard_prefix_newest(s);
}

#endif
