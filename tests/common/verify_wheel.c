/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full check of a timing wheel: see verify.h.
 */
#include "lib/expiry/wheel_shape.h"
#include "tests/common/verify.h"

/* The deadlines that a bucket may hold, both included. */
struct range {
    msec_t first;
    msec_t last;
};

static struct range range_of(const struct wheel *w, unsigned id)
{
    struct range r = {INT64_MIN, MSEC_NEVER - 1};

    if (id == WHEEL_DUE || wheel_is_due(w, id)) {
        r.last = w->tick - 1;
    } else if (id < WHEEL_RINGS) {
        unsigned l = WHEEL_LEVELS - 1;

        while (id < wheel_levels[l].first) {
            l--;
        }
        r.first = wheel_bucket_start(w, l, id);
        r.last = r.first + ((msec_t)1 << wheel_levels[l].shift) - 1;
        if (r.last < w->tick) {
            r.last = r.first - 1; /* it should be marked as due: no deadline fits */
        }
    } else if (id == w->far) {
        r.first = w->horizon[WHEEL_LEVELS - 1];
    } else {
        r.first = w->pace[WHEEL_LEVELS].start;
    }
    return r;
}

/* Is one slab consistent? Adds its nodes in use to *used. */
static bool verify_slab(const struct wheel_pool *p, uint32_t slab, uint32_t *used)
{
    const struct wheel_slab *s = wheel_slab_at(p, slab);
    uint32_t unused = 0;
    uint32_t listed = 0;

    if (s->fresh < 1 || s->fresh > SLAB_NODES) {
        return false;
    }
    for (uint32_t i = 1; i < s->fresh; i++) {
        unused += p->slabs[slab][i].bucket == NODE_UNUSED;
    }
    for (uint32_t n = s->free_list; n && listed <= unused; n = wheel_node_at(p, n)->next) {
        if (n / SLAB_NODES != slab) {
            return false;
        }
        listed++;
    }
    *used += s->used;
    return listed == unused && s->used == s->fresh - 1 - unused;
}

/* Do the slabs agree with the totals of the pool? */
static bool verify_pool(const struct wheel_pool *p)
{
    uint32_t slabs = 0;
    uint32_t used = 0;
    uint32_t with_room = 0;
    uint32_t listed = 0;

    for (uint32_t i = 0; i < p->capacity; i++) {
        if (!p->slabs[i]) {
            continue;
        }
        slabs++;
        with_room += i != p->victim && wheel_slab_at(p, i)->used < SLAB_USABLE;
        if (!verify_slab(p, i, &used)) {
            return false;
        }
    }
    for (uint32_t i = p->partial; i != SLABS_MAX && listed <= with_room;
         i = wheel_slab_at(p, i)->next) {
        if (i == p->victim || wheel_slab_at(p, i)->used == SLAB_USABLE) {
            return false;
        }
        listed++;
    }
    return slabs == p->slab_count && used == p->used && listed == with_room;
}

/* What the items of a bucket say. */
struct bucket_sum {
    uint32_t count;
    uint64_t bytes;
    __int128 deadlines;
};

static bool verify_item(const struct wheel *w, uint32_t pos, struct range r,
                        struct bucket_sum *sum)
{
    const struct item *it = item_at(w->base, *wheel_handle_at(&w->pool, pos));

    if (!item_has_ttl(it) || item_node(it) != pos / NODE_WORDS) {
        return false;
    }
    sum->bytes += item_bytes(it);
    sum->deadlines += wheel_summand(item_deadline(it));
    return item_deadline(it) >= r.first && item_deadline(it) <= r.last;
}

static bool verify_bucket(const struct wheel *w, unsigned id, struct bucket_sum *sum,
                          uint32_t *nodes)
{
    const struct wheel_bucket *b = &w->bucket[id];
    struct range r = range_of(w, id);
    uint32_t above = 0;

    *sum = (struct bucket_sum){0};
    for (uint32_t pos = b->top; pos;) {
        uint32_t number = pos / NODE_WORDS;
        const struct wheel_node *n = wheel_node_at(&w->pool, number);

        if (n->bucket != id || n->prev != above || pos % NODE_WORDS < NODE_WORD_FIRST) {
            return false;
        }
        for (; pos / NODE_WORDS == number && pos % NODE_WORDS >= NODE_WORD_FIRST; pos--) {
            if (!verify_item(w, pos, r, sum) || ++sum->count > b->count) {
                return false;
            }
        }
        ++*nodes;
        above = number;
        pos = n->next ? n->next * NODE_WORDS + NODE_WORD_LAST : 0;
    }
    return sum->count == b->count &&
           ((w->occupied[id / 64] >> (id % 64) & 1) != 0) == (b->count != 0) &&
           (b->count != 0 || (b->bytes == 0 && b->top == 0));
}

static bool verify_bitmaps(const struct wheel *w)
{
    for (unsigned word = 0; word < WHEEL_BITMAP; word++) {
        if ((w->due_words >> word & 1) != (w->due[word] != 0) ||
            (w->due[word] & ~w->occupied[word]) ||
            (w->occupied_words >> word & 1) != (w->occupied[word] != 0)) {
            return false;
        }
    }
    return true;
}

bool wheel_verify(const struct wheel *w)
{
    uint64_t count = 0;
    uint64_t due_keys = 0;
    uint64_t due_bytes = 0;
    __int128 deadlines = 0;
    uint32_t nodes = 0;

    wheel_must_be_entered(w);
    for (unsigned id = 0; id < WHEEL_BUCKETS; id++) {
        struct bucket_sum sum;

        if (!verify_bucket(w, id, &sum, &nodes)) {
            return false;
        }
        count += w->bucket[id].count;
        if (wheel_is_due(w, id)) {
            due_keys += w->bucket[id].count;
            due_bytes += sum.bytes;
        } else if (sum.bytes != w->bucket[id].bytes) {
            return false;
        }
        deadlines += sum.deadlines;
        if (id == WHEEL_DUE && sum.deadlines != w->due_deadlines) {
            return false;
        }
    }
    return count == wheel_size(w) && due_keys == w->due_keys && due_bytes == w->due_bytes &&
           deadlines == w->deadlines && nodes == w->pool.used && count <= w->pool.room &&
           verify_bitmaps(w) && verify_pool(&w->pool);
}
