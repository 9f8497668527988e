/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that a shard without items keeps: see shard.h.
 */
#include "lib/shard/shard.h"

#include "lib/expiry/lag.h"
#include "lib/memory/evict.h"
#include "lib/memory/memory.h"

/*
 * Give back what it has for items: pages of the index, wheel, lists of holes, entries of
 * segments, and what was counted of expiries, which goes to the first shard. That is done
 * within the shard, since nobody waits for it.
 */
void shard_rest(struct shard *s)
{
    struct shard *first = s->group->shards[0];

    evict_forget(&s->memory);
    lock_take(&first->lock); /* the lower number first, as everywhere */
    lock_take(&s->lock);
    if (s->table.count == 0 && wheel_count(s->wheel) == 0 && memory_rest(&s->memory)) {
        lag_absorb(&first->lag, &s->lag);
        mem_discard_zeros(&s->lag, sizeof(s->lag));
        table_rest(&s->table);
        wheel_rest(s->wheel);
    }
    lock_give(&s->lock);
    lock_give(&first->lock);
}
