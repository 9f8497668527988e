/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats bigkeys`. The message visits each worker, which walks over its home shards in
 * slices and keeps the largest items that the walk has visited. At the end they are looked up
 * again: removed items are omitted, and the others are shown with their present size.
 */
#include "daemon/stats/stats_parts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/rcu.h"
#include "lib/shard/position.h"
#include "lib/store/find.h"
#include "proto/encode.h"

/* Items that are kept; fewer may be left at the end. */
#define KEPT 24u

/* Items that are shown. */
#define SHOWN 20u

struct big_item {
    size_t bytes; /* from the walk, then from the lookup; 0: removed */
    size_t value_bytes;
    uint8_t key_len;
    char key[ITEM_KEY_MAX];
};

struct big_gather {
    struct stats_gather gather; /* must be first */
    struct position at;         /* in the home shards of the worker that is visited */
    uint32_t used;
    struct big_item items[KEPT]; /* the largest first */
};

static struct big_gather *big_of(struct stats_gather *g)
{
    return (struct big_gather *)(void *)g;
}

static bool has_key(const struct big_item *b, const struct item *it)
{
    return b->key_len == it->key_len && memcmp(b->key, item_key(it), it->key_len) == 0;
}

/* The walk has met an item; the same one perhaps twice. */
static void meet(void *arg, const struct shard *s, const struct item *it)
{
    struct big_gather *b = arg;
    size_t bytes = item_size(it);
    uint32_t at = b->used;

    (void)s;
    if (b->used == KEPT && bytes <= b->items[KEPT - 1].bytes) {
        return;
    }
    for (uint32_t i = 0; i < b->used; i++) {
        if (has_key(&b->items[i], it)) {
            return;
        }
    }
    while (at > 0 && b->items[at - 1].bytes < bytes) {
        at--;
    }
    b->used += b->used < KEPT;
    memmove(&b->items[at + 1], &b->items[at], (b->used - at - 1) * sizeof(b->items[0]));
    b->items[at].bytes = bytes;
    b->items[at].key_len = it->key_len;
    memcpy(b->items[at].key, item_key(it), it->key_len);
}

/*
 * The shard that is walked next; NULL: none. Shards are assigned to workers by number here,
 * because their home workers may change meanwhile.
 */
static struct shard *next_shard(const struct big_gather *b, const struct worker *w)
{
    const uint64_t number = w->id + (uint64_t)b->at.shard * b->gather.workers;

    return number < w->engine->shard_count ? w->engine->shards[number] : NULL;
}

static bool visit(struct stats_gather *g, struct worker *w)
{
    struct big_gather *b = big_of(g);
    msec_t now = worker_now(w);
    bool pauses = false;
    struct shard *s = NULL;

    must_be_worker(w);
    must_not_be_reading();
    if (g->next == 0 && b->at.shard == 0 && b->at.cursor == 0) {
        ctr_add(&w->counters, CTR_size_walks, 1);
    }
    rcu_begin();
    while ((s = next_shard(b, w)) != NULL && !pauses) {
        for (unsigned n = 0; n < STEPS_A_LOOK && (s = next_shard(b, w)) != NULL; n++) {
            position_step(&b->at, s, now, meet, b);
        }
        pauses = stats_gather_pauses(g, w);
    }
    rcu_end();
    if (s != NULL) {
        return false;
    }
    b->at.shard = 0;
    return true;
}

/* Look up their present sizes. */
static void look_up(struct big_gather *b, struct worker *w)
{
    struct engine *e = w->engine;
    msec_t now = worker_now(w);

    rcu_begin();
    const struct route *route = router_read(&e->router);
    for (uint32_t i = 0; i < b->used; i++) {
        struct big_item *item = &b->items[i];
        uint64_t hash = engine_hash(e, item->key, item->key_len);
        struct found f = engine_find(route, hash, item->key, item->key_len, now);

        item->bytes = f.item != NULL ? item_size(f.item) : 0;
        item->value_bytes = f.item != NULL ? item_len(f.item) : 0;
    }
    rcu_end();
}

static int by_size(const void *a, const void *b)
{
    const struct big_item *x = a;
    const struct big_item *y = b;

    return x->bytes < y->bytes ? 1 : -(x->bytes > y->bytes);
}

static enum gather_end finish(struct stats_gather *g)
{
    struct big_gather *b = big_of(g);

    look_up(b, g->asker);
    qsort(b->items, b->used, sizeof(b->items[0]), by_size);
    for (uint32_t i = 0; i < b->used && i < SHOWN && b->items[i].bytes > 0; i++) {
        const struct big_item *item = &b->items[i];
        char key[ENCODE_URI_BYTES(ITEM_KEY_MAX) + 1];

        key[encode_uri(key, span_of(item->key, item->key_len))] = '\0';
        stats_prefix(&g->out, "%u:", (unsigned)i + 1);
        stats_put_text(&g->out, "key", key);
        stats_put_u64(&g->out, "value_bytes", item->value_bytes);
        stats_put_u64(&g->out, "item_bytes", item->bytes);
    }
    return GATHER_DONE;
}

const struct gather_kind gather_bigkeys = {
    .size = sizeof(struct big_gather), .visit = visit, .finish = finish};
