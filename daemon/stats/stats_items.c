/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats items` and `stats slabs`. There are no size classes here: all items are shown in class
 * 1, whose pages are segments and whose chunk size is the mean size of an item, so that tools
 * that compute fill and waste from these numbers get sensible results. An empty cache shows no
 * class.
 */
#include "daemon/stats/stats_general.h"

#include "daemon/base/slab_class.h"
#include "daemon/stats/stats_sum.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"

#define CLASS_ITEMS "items:" SLAB_CLASS_OURS_TEXT ":"
#define CLASS_SLABS SLAB_CLASS_OURS_TEXT ":"

struct row {
    const char *name; /* NULL: the counter's own */
    enum counter id;  /* CTR_COUNT: always 0 */
};

#define C(id)                                                                                  \
    {                                                                                          \
        NULL, CTR_##id                                                                         \
    }
#define AS(name, id)                                                                           \
    {                                                                                          \
        name, CTR_##id                                                                         \
    }
#define ZERO(name)                                                                             \
    {                                                                                          \
        name, CTR_COUNT                                                                        \
    }

/* The lines after the age, in memcached's order. */
static const struct row item_rows[] = {
    AS("mem_requested", item_bytes),
    AS("evicted", evictions),
    C(evicted_ttl),
    ZERO("evicted_time"),
    C(outofmemory),
    ZERO("tailrepairs"),
    C(reclaimed),
    C(expired_unfetched),
    C(evicted_unfetched),
    C(evicted_active),
    AS("crawler_reclaimed", expired_active),
    C(expire_checked),
    ZERO("lrutail_reflocked"),
    ZERO("moves_to_cold"),
    C(moves_to_main),
    C(moves_within),
    C(direct_reclaims),
    ZERO("hits_to_hot"),
    ZERO("hits_to_warm"),
    AS("hits_to_cold", get_hits),
    ZERO("hits_to_temp"),
};

static const struct row slab_rows[] = {
    C(get_hits),  C(cmd_set),  C(delete_hits), C(incr_hits),
    C(decr_hits), C(cas_hits), C(cas_badval),  C(touch_hits),
};

static void put_rows(struct stats_out *o, const struct row *rows, size_t count,
                     const uint64_t *sum)
{
    size_t i;

    for (i = 0; i < count; i++) {
        const struct row *r = &rows[i];

        stats_put_u64(o, r->name != NULL ? r->name : counter_rows[r->id].line,
                      r->id != CTR_COUNT ? sum[r->id] : 0);
    }
}

void stats_items(struct worker *w, struct stats_out *o)
{
    msec_t now = worker_now(w);
    uint64_t sum[CTR_COUNT];
    struct shard_info info;
    uint32_t now_s = (uint32_t)(now / 1000);

    must_be_worker(w);
    stats_sum(w->crew, sum);
    stats_sum_shards(w->crew, now, &info);
    if (info.items == 0) {
        return;
    }
    o->prefix = CLASS_ITEMS;
    stats_put_u64(o, "number", info.items);
    stats_put_u64(o, "number_hot", 0);
    stats_put_u64(o, "number_warm", 0);
    stats_put_u64(o, "number_cold", info.items);
    stats_put_u64(o, "age_hot", 0);
    stats_put_u64(o, "age_warm", 0);
    stats_put_u64(o, "age",
                  info.oldest_access_s != 0 && info.oldest_access_s < now_s
                      ? now_s - info.oldest_access_s
                      : 0);
    put_rows(o, item_rows, sizeof(item_rows) / sizeof(item_rows[0]), sum);
    o->prefix = "";
}

void stats_slabs(struct worker *w, struct stats_out *o)
{
    uint64_t sum[CTR_COUNT];
    struct shard_info info;

    must_be_worker(w);
    stats_sum(w->crew, sum);
    stats_sum_shards(w->crew, worker_now(w), &info);
    /* As in memcached, a class that has had items and is empty now is still shown. */
    if (info.items > 0 || info.segments_used > 0) {
        uint64_t items = info.items > 0 ? info.items : 1;
        uint64_t mean = (info.item_bytes + items - 1) / items;
        uint64_t pages = info.segments_used > 0 ? info.segments_used : 1;
        uint64_t total;

        /* Whole units, as blocks are. */
        mean = (mean + ITEM_UNIT - 1) / ITEM_UNIT * ITEM_UNIT;
        mean = mean > 0 ? mean : ITEM_UNIT;
        total = pages * info.segment_bytes / mean;
        total = total > info.items ? total : info.items;
        o->prefix = CLASS_SLABS;
        stats_put_u64(o, "chunk_size", mean);
        stats_put_u64(o, "chunks_per_page", info.segment_bytes / mean);
        stats_put_u64(o, "total_pages", pages);
        stats_put_u64(o, "total_chunks", total);
        stats_put_u64(o, "used_chunks", info.items);
        stats_put_u64(o, "free_chunks", total - info.items);
        stats_put_u64(o, "free_chunks_end", 0);
        put_rows(o, slab_rows, sizeof(slab_rows) / sizeof(slab_rows[0]), sum);
        o->prefix = "";
    }
    stats_put_u64(o, "active_slabs", info.items > 0 || info.segments_used > 0 ? 1 : 0);
    stats_put_u64(o, "total_malloced", info.resident_bytes);
}
