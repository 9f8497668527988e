/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes of a prefix in one shard: see prefix.h.
 */
#include "lib/shard/prefix.h"

#include <string.h>

#include "lib/base/context.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

/* Buckets of a range when its marks are made, and at most before there are more of them. */
#define RANGE_BUCKETS     8u
#define RANGE_BUCKETS_MAX 64u

/* Ranges of a shard. Many of a small index are cheap, and writers may meet any. */
#define RANGES_MIN 16u
#define RANGES_MAX (1u << 16)

void prefix_marks_destroy(struct prefix_marks *m)
{
    if (m != NULL) {
        budget_add(m->budget, -(int64_t)m->bytes);
        mem_free(m);
    }
}

static void release_marks(struct retired *r)
{
    prefix_marks_destroy((struct prefix_marks *)(void *)r);
}

uint64_t prefix_ranges(const struct prefix_marks *m, uint64_t buckets)
{
    uint64_t ranges = RANGES_MIN;

    while (ranges < RANGES_MAX && ranges * RANGE_BUCKETS < buckets) {
        ranges *= 2;
    }
    return m != NULL && (m->mask + 1) * (RANGE_BUCKETS_MAX / RANGE_BUCKETS) >= ranges ? 0
                                                                                      : ranges;
}

struct prefix_marks *prefix_marks_create(struct budget *budget, uint64_t ranges)
{
    const size_t bytes = sizeof(struct prefix_marks) + ranges * sizeof(uint64_t);
    struct prefix_marks *m = mem_zalloc(bytes);

    if (m != NULL) {
        m->retired.fn = release_marks;
        m->budget = budget;
        m->bytes = bytes;
        m->mask = ranges - 1;
        budget_add(budget, (int64_t)bytes);
    }
    return m;
}

void prefix_marks_copy(struct prefix_marks *m, const struct prefix_marks *from)
{
    for (uint64_t i = 0; i <= m->mask; i++) {
        uint64_t clean =
            atomic_load_explicit(&from->range[i & from->mask], memory_order_relaxed);

        atomic_store_explicit(&m->range[i], clean, memory_order_relaxed);
    }
}

/* The first bytes of a text, and zeros if it is shorter. */
static uint64_t begin_of(const char *text, size_t len)
{
    uint64_t begin = 0;

    memcpy(&begin, text, len < sizeof(begin) ? len : sizeof(begin));
    return begin;
}

void prefix_init(struct prefix *p, uint64_t id, struct span text)
{
    char mask[sizeof(p->mask)] = {0};

    must(text.len <= sizeof(p->text));
    memset(mask, 0xff, text.len < sizeof(mask) ? text.len : sizeof(mask));
    memcpy(&p->mask, mask, sizeof(mask));
    memcpy(p->text, text.ptr, text.len);
    p->id = id;
    p->begin = begin_of(text.ptr, text.len);
    p->len = (uint32_t)text.len;
}

/* `begin` has the first bytes of the key. They rule out most prefixes of a set. */
static bool has_prefix(const struct prefix *p, uint64_t begin, const char *key, size_t key_len)
{
    return (begin & p->mask) == p->begin && p->len <= key_len &&
           memcmp(p->text, key, p->len) == 0;
}

/* The newest command, up to this one, that flushed what had this key; 0: none. */
static uint64_t newest_of(const struct prefixes *all, uint64_t upto, const char *key,
                          size_t key_len)
{
    const uint64_t begin = begin_of(key, key_len);

    for (uint32_t i = all != NULL ? all->count : 0; i > 0; i--) {
        const struct prefix *p = &all->at[i - 1];

        if (has_prefix(p, begin, key, key_len) && p->id <= upto) {
            return p->id;
        }
    }
    return 0;
}

bool shard_hides_slowly(const struct shard *s, uint64_t hash, const char *key, size_t key_len)
{
    const struct prefix_marks *m = prefix_marks_of(s);

    must_be_reading();
    if (m == NULL) {
        return false;
    }
    uint64_t id = newest_of(prefixes_of(s->group), shard_prefix_newest(s), key, key_len);
    return id > prefix_range_clean(s, m, prefix_range_of(m, hash));
}

const struct item *shard_find_unhidden(const struct shard *s, const char *key, size_t key_len)
{
    const uint64_t hash = hash_key(s->seed, key, key_len);

    return shard_hides(s, hash, key, key_len)
               ? NULL
               : table_find(&s->table, s->memory.arena.base, hash, key, key_len);
}

bool prefixes_have(const struct prefixes *all, const struct item *it)
{
    return newest_of(all, UINT64_MAX, item_key(it), it->key_len) != 0;
}

bool shard_is_being_flushed(const struct shard *s, struct span key)
{
    return newest_of(prefixes_of(s->group), UINT64_MAX, key.ptr, key.len) != 0;
}

bool shard_prefixes_are_full(const struct shard *s)
{
    rcu_begin();
    const struct prefixes *all = prefixes_of(s->group);
    bool are_full =
        all != NULL && all->count >= engine_option(s->group->options, flush_prefix_max);
    rcu_end();
    return are_full;
}

void shard_prefix_follow(struct shard *s, uint64_t id)
{
    atomic_store_explicit(&s->prefix_id, id, memory_order_relaxed);
    atomic_store_explicit(&s->prefix_clean, id, memory_order_relaxed);
}

void shard_prefix_forget(struct shard *s)
{
    shard_must_be_entered(s);
    atomic_store_explicit(&s->prefix_clean, shard_prefix_newest(s), memory_order_release);
    s->prefix_goal = 0;
}
