/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shard as a whole: made and released.
 */
#include "lib/shard/shard.h"

#include <string.h>

#include "lib/shard/flush.h"
#include "lib/shard/owner.h"

/* The index at the start, unless more is asked for. It grows in steps. */
#define ITEMS_AT_START 4096

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
                                       .policy = &evict_s3fifo,
                                       .limit_bytes = g->limit_bytes,
                                       .range_bytes = g->range_bytes,
                                       .sharers = g->count,
                                       .evictions = g->evictions,
                                       .is_in_cores = g->is_in_cores};

    if (!memory_init(&s->memory, &setup) ||
        !table_init(&s->table, s->items_at_start, s->seed, g->budget, &s->lock)) {
        return false;
    }
    s->wheel = wheel_create(s->memory.arena.base, g->budget, &s->lock, clock_now(g->clock));
    return s->wheel != NULL;
}

struct shard *shard_create(struct shard_group *group, uint32_t id)
{
    uint64_t hint = group->items_hint / group->count;
    struct shard *s = mem_alloc_aligned(sizeof(*s), 64);

    if (s == NULL) {
        return NULL;
    }
    memset(s, 0, sizeof(*s));
    s->magic = SHARD_MAGIC;
    s->id = id;
    s->group = group;
    s->seed = group->seed;
    atomic_init(&s->flush_at, MSEC_NEVER);
    atomic_init(&s->next_due, MSEC_NEVER);
    lock_init(&s->lock);
    cycle_init(&s->cycle);
    s->items_at_start = hint > ITEMS_AT_START ? hint : ITEMS_AT_START;
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
    mem_free(s->table_retiree);
    memory_fini(&s->memory);
    s->magic = 0;
    mem_free(s);
    *sp = NULL;
}
