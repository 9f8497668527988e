/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * S3-FIFO (J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), as a
 * policy of evict.h. New keys begin in small. A key goes to main if it was fetched while it was
 * in small, or if it comes back while the ghost remembers it.
 */
#include "lib/memory/evict.h"

#include <stddef.h>

#include "lib/base/check.h"
#include "lib/memory/chains.h"
#include "lib/memory/ghost.h"
#include "lib/memory/memory.h"

/* Small is evicted from while it holds more than this share of what is held. */
#define SMALL_PCT 10

/*
 * A chain of fewer segments is not rich, whatever its share: what was stored last would be
 * evicted at once in a shard that has only a few.
 */
#define RICH_SEGMENTS 2

/*
 * Passes over main keep at most this share of what they scanned. Without a cap, a cache in
 * which everything is hot makes one put copy megabytes before it finds a victim.
 */
#define KEEP_PCT   80
#define KEEP_FIRST 16384 /* bytes that are kept before the share counts */

/* ---- the segment to empty ---------------------------------------------------------------- */

/* Does a chain hold more than its least share? Whole segments of large values count as well. */
static bool is_rich(const struct memory *m, enum chain_id id)
{
    uint64_t held = (uint64_t)m->arena.held << m->arena.shift;
    uint64_t bytes = m->blocks.chain[id].bytes;

    return bytes * 100 > held * SMALL_PCT && bytes >> m->arena.shift >= RICH_SEGMENTS;
}

/*
 * The oldest segment of a chain. Many large values have their heads in one segment, so a rich
 * chain may have nothing but its open one.
 */
static segment_t oldest_of_rich(struct memory *m, enum chain_id id)
{
    segment_t n = chains_oldest(m, id);

    return n != 0 || !is_rich(m, id) ? n : chains_seal_open(m, id);
}

static segment_t s3fifo_pick(struct memory *m)
{
    enum chain_id first = is_rich(m, CHAIN_SMALL) ? CHAIN_SMALL : CHAIN_MAIN;
    enum chain_id second = first == CHAIN_SMALL ? CHAIN_MAIN : CHAIN_SMALL;
    segment_t n;

    memory_must_be_entered(m);
    n = oldest_of_rich(m, first);
    if (n == 0) {
        n = oldest_of_rich(m, second);
    }
    if (n == 0) {
        n = chains_seal_open(m, first);
    }
    return n != 0 ? n : chains_seal_open(m, second);
}

/* ---- verdicts ---------------------------------------------------------------------------- */

static enum verdict s3fifo_judge(const struct evict_pass *pass, const struct item *it)
{
    uint8_t heat = atomic_load_explicit(&it->heat, memory_order_relaxed) & HEAT_COUNT;

    if (heat == 0) {
        return pass->is_young ? VERDICT_YOUNG : VERDICT_EVICT;
    }
    if (pass->chain == CHAIN_SMALL) {
        return VERDICT_PROMOTE;
    }

    bool fits = (pass->kept + item_bytes(it)) * 100 <=
                pass->scanned * KEEP_PCT + (uint64_t)KEEP_FIRST * 100;

    return fits ? VERDICT_KEEP : VERDICT_EVICT;
}

/* ---- the past: a ghost of the small chain ------------------------------------------------ */

static void *s3fifo_past_create(uint64_t items, struct budget *budget)
{
    struct ghost *g = mem_zalloc(sizeof(*g));

    if (g != NULL && !ghost_create(g, items, budget)) {
        mem_free(g);
        g = NULL;
    }
    return g;
}

static void s3fifo_past_destroy(void *past, struct budget *budget)
{
    ghost_destroy(past, budget);
    mem_free(past);
}

static uint64_t s3fifo_past_capacity(const void *past)
{
    return ghost_capacity(past);
}

static uint64_t s3fifo_past_bytes(const void *past)
{
    const struct ghost *g = past;

    return g->count * sizeof(struct ghost_bucket);
}

static void s3fifo_past_add(void *past, enum chain_id chain, uint64_t hash)
{
    if (chain == CHAIN_SMALL) {
        ghost_add(past, hash);
    }
}

static enum chain_id s3fifo_past_chain(void *past, uint64_t hash)
{
    return ghost_take(past, hash) ? CHAIN_MAIN : CHAIN_SMALL;
}

static void s3fifo_past_prefetch(const void *past, enum chain_id chain, uint64_t hash)
{
    if (chain == CHAIN_SMALL) {
        ghost_prefetch(past, hash);
    }
}

const struct evict_policy evict_s3fifo = {
    .name = "s3fifo",
    .pick = s3fifo_pick,
    .judge = s3fifo_judge,
    .past_create = s3fifo_past_create,
    .past_destroy = s3fifo_past_destroy,
    .past_capacity = s3fifo_past_capacity,
    .past_bytes = s3fifo_past_bytes,
    .past_add = s3fifo_past_add,
    .past_chain = s3fifo_past_chain,
    .past_prefetch = s3fifo_past_prefetch,
};
