/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating and releasing a shard.
 */
#include "lib/shard/shard.h"

#include "lib/shard/flush.h"
#include "lib/shard/upkeep.h"

/* The index at the start, unless more is asked for. It grows in steps. */
#define ITEMS_AT_START 4096

/* A hint makes it no larger than this part of the shard's share of the limit. */
#define INDEX_SHARE 8

static uint64_t limit_of(const struct shard_group *g)
{
    return (uint64_t)budget_limit(g->budget);
}

static uint32_t sharers_of(const struct shard_group *g)
{
    return atomic_load_explicit(&g->sharers, memory_order_relaxed);
}

static bool init_parts(struct shard *s)
{
    const struct shard_group *g = s->group;
    const struct memory_setup setup = {.ops = &shard_owner_ops,
                                       .owner = s,
                                       .lock = &s->lock,
                                       .counters = &s->counters,
                                       .clock = g->clock,
                                       .options = g->options,
                                       .budget = g->budget,
                                       .grace = reclaim_grace(g->reclaimer),
                                       .limit_bytes = limit_of(g),
                                       .range_bytes = g->range_bytes,
                                       .shape = g->shape,
                                       .sharers = sharers_of(g),
                                       .region = g->regions != NULL ? &g->regions[s->id] : NULL,
                                       .is_in_cores = g->is_in_cores};

    if (!memory_init(&s->memory, &setup) ||
        !table_init(&s->table, s->items_at_start, s->seed, g->budget, &s->lock)) {
        return false;
    }
    s->wheel = wheel_create(s->memory.arena.base, g->budget, &s->lock, clock_now(g->clock));
    if (s->wheel != NULL) {
        wheel_tell(s->wheel, &s->wants_spare);
    }
    return s->wheel != NULL;
}

uint64_t shard_items_hint(const struct shard_group *g, uint64_t limit_bytes)
{
    const uint32_t sharers = sharers_of(g);
    uint64_t hint = g->items_hint / sharers;
    uint64_t most = table_items_in(limit_bytes / sharers / INDEX_SHARE);

    return hint < most ? hint : most;
}

static uint64_t items_at_start(const struct shard_group *g)
{
    uint64_t hint = shard_items_hint(g, limit_of(g));

    return hint > ITEMS_AT_START ? hint : ITEMS_AT_START;
}

void shard_fit_limit(struct shard *s)
{
    shard_enter(s);
    s->items_at_start = items_at_start(s->group);
    table_set_least(&s->table, s->items_at_start);
    memory_fit_limit(&s->memory, sharers_of(s->group));
    shard_leave(s);
    shard_flush_fit(s);
    shard_make_wanted(s); /* before anything is evicted for it */
    shard_enter(s);
    shard_want_work(s);
    shard_leave(s);
}

struct shard *shard_create(struct shard_group *group, uint32_t id)
{
    struct shard *s = mem_alloc_pages(sizeof(*s)); /* see shard_rest() in rest.c */

    if (s == NULL) {
        return NULL;
    }
    s->magic = SHARD_MAGIC;
    s->id = id;
    s->group = group;
    s->seed = group->seed;
    atomic_init(&s->flush_at, MSEC_NEVER);
    atomic_init(&s->gate_at, MSEC_NEVER);
    atomic_init(&s->next_due, MSEC_NEVER);
    lock_init(&s->lock);
    cycle_init(&s->cycle);
    s->rest_end_ms = clock_now(group->clock);
    s->items_at_start = items_at_start(group);
    if (!init_parts(s)) {
        shard_destroy(&s);
    }
    return s;
}

void shard_destroy(struct shard **sp)
{
    struct shard *s = *sp;

    if (s == NULL) {
        return;
    }
    must(s->magic == SHARD_MAGIC);
    shard_flush_fini(s);
    wheel_destroy(&s->wheel);
    if (atomic_load_explicit(&s->table.view, memory_order_relaxed) != NULL) {
        table_fini(&s->table);
    }
    shard_resize_fini(s);
    memory_fini(&s->memory);
    s->magic = 0;
    mem_free_pages(s, sizeof(*s));
    *sp = NULL;
}
