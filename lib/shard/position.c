/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/shard/position.h"

#include "lib/base/context.h"
#include "lib/shard/prefix.h"
#include "lib/shard/shard.h"

struct position_step {
    const struct shard *shard;
    const struct prefixes *prefixes; /* those in force when the step began */
    msec_t now;
    position_fn fn;
    void *arg;
};

static void meet(void *arg, handle_t h, uint64_t hash)
{
    const struct position_step *step = arg;
    const struct item *it = shard_item(step->shard, h);

    (void)hash;
    /* Looked up again as by a request: it may have been met before its flush was over. */
    if (MF_UNLIKELY(step->prefixes != NULL) && prefixes_have(step->prefixes, it)) {
        it = shard_find_unhidden(step->shard, item_key(it), it->key_len);
    }
    if (it != NULL && !item_is_due(it, step->now)) {
        step->fn(step->arg, step->shard, it);
    }
}

void position_step(struct position *p, const struct shard *s, msec_t now, position_fn fn,
                   void *arg)
{
    struct position_step step = {s, prefixes_of(s->group), now, fn, arg};

    must_be_reading();
    if (now >= atomic_load_explicit(&s->flush_at, memory_order_acquire)) {
        position_go(p, 0);
    } else {
        position_step_all(p, s, meet, &step);
    }
}

void position_step_all(struct position *p, const struct shard *s, table_walk_fn fn, void *arg)
{
    position_go(p, table_walk(&s->table, s->memory.arena.base, p->cursor, fn, arg));
}

uint64_t position_look(const struct position *p, const struct shard *s, table_walk_fn fn,
                       void *arg, uint64_t *positions)
{
    return table_walk_ahead(&s->table, s->memory.arena.base, p->cursor, fn, arg, positions);
}
