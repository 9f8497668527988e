/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Density: S3-FIFO (J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP
 * 2023) that judges items by hits per byte, as a policy of evict.h.
 *
 * New keys begin in small, large ones in big, which is shorter. A key goes to main if its
 * density was high enough while it was there, or if it comes back while the ghost remembers it
 * and is not large. Each round in main costs an item half of the value of a hit on an item of
 * the mean size. The value of its hits that is left is its credit, in quarters of such a hit.
 *
 * The shares, the prices and the exponent were found by simulation: see
 * "Density policy: hits counted per byte" in docs/decisions/memory.md.
 */
#include "lib/memory/evict.h"

#include <stddef.h>

#include "lib/base/check.h"
#include "lib/memory/chains.h"
#include "lib/memory/ghost.h"
#include "lib/memory/heat.h"
#include "lib/memory/state.h"

/* A chain is rich, and evicted from, while it has more than this share of the held bytes. */
static const unsigned share_pct[CHAINS] = {
    [CHAIN_SMALL] = 10, [CHAIN_MAIN] = 10, [CHAIN_BIG] = 2};

/* Value of an item without a hit at the end of small or big, and the value needed to stay. */
#define NEW_PCT  35 /* of a hit */
#define COST_PCT 50 /* of a hit of an item of the mean size */

/* Main goes first if it exceeds both: its part without a hit, and its part of the shard. */
#define UNTRIED_PCT       75
#define UNTRIED_SHARE_PCT 4

#define CREDIT_PCT 25 /* a unit of credit, in percent of a hit of an item of the mean size */
#define CREDIT_MAX HEAT_CREDIT_MAX

/*
 * A chain of fewer segments is not rich, whatever its share. Otherwise a shard of few segments
 * would evict the newest items at once.
 */
#define RICH_SEGMENTS 2

/*
 * One segment has the heads of many large values, so big may have only its open segment. When
 * that is emptied, the last SPARED values are kept, and there must be others: otherwise new
 * values would be evicted at once.
 */
#define SPARED 4

/*
 * Passes over main keep at most this share of what they scanned. Without a cap, a cache in
 * which everything is hot makes one put copy megabytes before it finds a victim.
 */
#define KEEP_PCT   85
#define KEEP_FIRST 16384 /* bytes that are kept before the share counts */

/* ---- the segment to empty ---------------------------------------------------------------- */

/* Does a chain hold more than this share? Whole segments of large values count as well. */
static bool holds(const struct memory *m, enum chain_id id, unsigned pct)
{
    uint64_t held = (uint64_t)m->arena.held << m->arena.shift;
    uint64_t bytes = m->blocks.chain[id].bytes;

    return bytes * 100 > held * pct && bytes >> m->arena.shift >= RICH_SEGMENTS;
}

/* Does it hold more than its least share? */
static bool is_rich(const struct memory *m, enum chain_id id)
{
    return holds(m, id, share_pct[id]);
}

/*
 * The oldest segment of a chain. Many large values have their heads in one segment, so a rich
 * chain may have nothing but its open one.
 */
static segment_t oldest_of_rich(struct memory *m, enum chain_id id)
{
    segment_t n = chains_oldest(m, id);

    return n != 0 || !is_rich(m, id) ? n : chains_seal_open(m, id, 0);
}

/* Was segment a, which may be 0, sealed before b? */
static bool is_older(const struct memory *m, segment_t a, segment_t b)
{
    const struct segment *x = &m->arena.segments[a];
    const struct segment *y = &m->arena.segments[b];

    if (a == 0 || b == 0) {
        return a != 0;
    }
    return x->sealed_s != y->sealed_s ? x->sealed_s < y->sealed_s
                                      : (int32_t)(x->sealed_cas - y->sealed_cas) < 0;
}

/*
 * Does main consist mostly of items that were promoted without a hit? Items much smaller than
 * the mean are. While only large items are stored, main would never be evicted from, and these
 * small items would stay for ever.
 */
static bool is_main_untried(struct memory *m)
{
    uint64_t bytes = m->blocks.chain[CHAIN_MAIN].bytes;

    if (m->evict.untried > bytes) {
        m->evict.untried = bytes; /* some untried items died */
    }
    return holds(m, CHAIN_MAIN, UNTRIED_SHARE_PCT) &&
           m->evict.untried * 100 > bytes * UNTRIED_PCT;
}

/* A segment is about to be emptied: its items that stay in main no longer count as untried. */
static void try_segment(struct memory *m, segment_t n)
{
    const struct segment *g = &m->arena.segments[n];

    if (n != 0 && g->chain == CHAIN_MAIN) {
        m->evict.untried -=
            m->evict.untried * (g->fill - g->dead) / (m->blocks.chain[CHAIN_MAIN].bytes + 1);
    }
}

/*
 * Big is evicted from first, unless small exceeds its share as well and has the older segment:
 * when new items have become larger than the old ones, the old ones are evicted.
 */
static segment_t density_pick(struct memory *m)
{
    bool is_small_rich = is_rich(m, CHAIN_SMALL);
    enum chain_id order[CHAINS] = {is_small_rich ? CHAIN_SMALL : CHAIN_MAIN,
                                   is_small_rich ? CHAIN_MAIN : CHAIN_SMALL, CHAIN_BIG};
    segment_t n = 0;

    memory_must_be_entered(m);
    /* Every other time: large values make room faster for a store that needs much. */
    m->evict.was_untried = !m->evict.was_untried && is_main_untried(m);
    if (m->evict.was_untried) {
        n = chains_oldest(m, CHAIN_MAIN);
    }
    if (n == 0 && is_rich(m, CHAIN_BIG) &&
        !(is_small_rich &&
          is_older(m, chains_oldest(m, CHAIN_SMALL), chains_oldest(m, CHAIN_BIG)))) {
        n = chains_oldest(m, CHAIN_BIG);
        if (n == 0 && chains_items_open(m, CHAIN_BIG) > SPARED) {
            n = chains_seal_open(m, CHAIN_BIG, SPARED);
        }
    }
    for (int i = 0; i < CHAINS && n == 0; i++) {
        n = oldest_of_rich(m, order[i]);
    }
    for (int i = 0; i < CHAINS && n == 0; i++) {
        n = chains_seal_open(m, order[i], 0);
    }
    try_segment(m, n);
    return n;
}

/* ---- the weight of a hit ----------------------------------------------------------------- */

/* A hit of an item of the mean size weighs this much. */
#define WEIGHT_ONE 256u

/* Three times the mean is large: a hit weighs less than this. */
#define WEIGHT_LARGE (WEIGHT_ONE / 2)

/* Sizes that are further from the mean weigh as if they were not. */
#define QUARTERS_SMALLER 32
#define QUARTERS_LARGER  14

/*
 * Weights by how much larger than the mean an item is: (mean / bytes) ^ 0.75. The index is the
 * difference of logarithms, in quarters of a power of two, plus QUARTERS_SMALLER. With an
 * exponent of 1 there are too few large items that ever pay. Readers count to three, so the
 * least weight is one with which three hits keep an item of any size.
 */
static const uint16_t weights[QUARTERS_SMALLER + QUARTERS_LARGER + 1] = {
    16384, 14387, 12634, 11094, 9742, 8555, 7512, 6597, 5793, 5087, 4467, 3922,
    3444,  3025,  2656,  2332,  2048, 1798, 1579, 1387, 1218, 1069, 939,  825,
    724,   636,   558,   490,   431,  378,  332,  292,  256,  225,  197,  173,
    152,   134,   117,   103,   91,   79,   70,   61,   54,   47,   44,
};

/* The logarithm to base two, in quarters, rounded down; between powers of two linearly. */
static int quarters_of_log2(uint64_t x)
{
    int power = 63 - __builtin_clzll(x | 4);

    return power * 4 + (int)((x >> (power - 2)) & 3);
}

static unsigned weight_of(uint64_t bytes, uint64_t mean_bytes)
{
    int apart = mean_bytes == 0 ? 0 : quarters_of_log2(bytes) - quarters_of_log2(mean_bytes);

    apart = apart < -QUARTERS_SMALLER ? -QUARTERS_SMALLER : apart;
    apart = apart > QUARTERS_LARGER ? QUARTERS_LARGER : apart;
    return weights[apart + QUARTERS_SMALLER];
}

/* ---- verdicts ---------------------------------------------------------------------------- */

/* The credit of an item that has this value and pays this cost. */
static unsigned credit_for(unsigned has, unsigned cost, unsigned unit)
{
    unsigned credit = has > cost ? (has - cost) / unit : 0;

    return credit < CREDIT_MAX ? credit : CREDIT_MAX;
}

/*
 * An item of main that was never judged was stored there because the ghost remembered its key.
 * It counts as having one hit, and as having paid once.
 */
static enum verdict density_judge(const struct evict_pass *pass, const struct item *it,
                                  uint8_t *heat)
{
    uint8_t now = heat_turns(atomic_load_explicit(&it->heat, memory_order_relaxed));
    unsigned weight = weight_of(item_all_bytes(it), pass->mean_bytes);
    unsigned hits = (now & HEAT_COUNT) * 100u;
    unsigned cost = COST_PCT * WEIGHT_ONE;

    *heat = (uint8_t)((now & HEAT_FETCHED) | HEAT_JUDGED);
    if (pass->chain != CHAIN_MAIN) {
        if ((hits + NEW_PCT) * weight >= cost) {
            return VERDICT_PROMOTE;
        }
        return pass->is_young ? VERDICT_YOUNG : VERDICT_EVICT;
    }

    unsigned unit = CREDIT_PCT * WEIGHT_ONE;
    unsigned has = (now & HEAT_JUDGED) == 0 ? credit_for(100 * weight, cost, unit)
                                            : (now & HEAT_CREDIT) >> HEAT_CREDIT_SHIFT;

    has = has * unit + hits * weight;
    if (has < cost) {
        return pass->is_young ? VERDICT_YOUNG : VERDICT_EVICT;
    }
    *heat |= (uint8_t)(credit_for(has, cost, unit) << HEAT_CREDIT_SHIFT);

    bool fits = (pass->kept + item_bytes(it)) * 100 <=
                pass->scanned * KEEP_PCT + (uint64_t)KEEP_FIRST * 100;

    return fits ? VERDICT_KEEP : VERDICT_EVICT;
}

/* ---- the past: a ghost of small and big -------------------------------------------------- */

static void *density_past_create(uint64_t items, struct budget *budget)
{
    struct ghost *g = mem_zalloc(sizeof(*g));

    if (g != NULL && !ghost_create(g, items, budget)) {
        mem_free(g);
        g = NULL;
    }
    return g;
}

static void density_past_destroy(void *past, struct budget *budget)
{
    ghost_destroy(past, budget);
    mem_free(past);
}

static bool density_past_touch(void *past, size_t *done)
{
    return ghost_touch(past, done);
}

static uint64_t density_past_capacity(const void *past)
{
    return ghost_capacity(past);
}

static uint64_t density_past_bytes(const void *past)
{
    const struct ghost *g = past;

    return g->count * sizeof(struct ghost_bucket);
}

static void density_past_add(void *past, enum chain_id chain, uint64_t hash)
{
    if (chain != CHAIN_MAIN) {
        ghost_add(past, hash);
    }
}

static enum chain_id density_past_chain(void *past, uint64_t hash, uint64_t bytes,
                                        uint64_t mean_bytes)
{
    bool is_remembered = ghost_take(past, hash);

    if (weight_of(bytes, mean_bytes) < WEIGHT_LARGE) {
        return CHAIN_BIG;
    }
    return is_remembered ? CHAIN_MAIN : CHAIN_SMALL;
}

static void density_past_prefetch(const void *past, enum chain_id chain, uint64_t hash)
{
    if (chain != CHAIN_MAIN) {
        ghost_prefetch(past, hash);
    }
}

const struct evict_policy evict_density = {
    .name = "density",
    .way = EVICT_SEGMENTS,
    .pick = density_pick,
    .judge = density_judge,
    .past_create = density_past_create,
    .past_destroy = density_past_destroy,
    .past_touch = density_past_touch,
    .past_capacity = density_past_capacity,
    .past_bytes = density_past_bytes,
    .past_add = density_past_add,
    .past_chain = density_past_chain,
    .past_prefetch = density_past_prefetch,
};
