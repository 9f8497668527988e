/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing one value: see store_common.h.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

/* set, add, replace, cas of a value that fits one block. */
static enum outcome store_block(struct visit *v, void *arg)
{
    struct store *st = arg;
    struct shard *s = v->to;
    bool has_ttl = st->deadline != MSEC_NEVER;
    bool is_wide = item_needs_wide(st->flags, st->cas_new, st->deadline);
    uint32_t units = keyspace_units(st->key.len, st->value.len, has_ttl, is_wide);

    shard_must_be_entered(v->to);
    room_make(&s->memory, (uint64_t)units * ITEM_UNIT, v->now);
    visit_find(v);
    enum outcome why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }
    if (MF_UNLIKELY(st->deadline <= v->now) && !st->takes_due) {
        return store_dead_on_arrival(v, st);
    }
    if (MF_UNLIKELY(!store_reserve_over(v, has_ttl))) {
        return store_failed(v, st, visit_wait_for_index(v, st->may_wait));
    }

    handle_t h = visit_block(v, visit_chain(v, (uint64_t)units * ITEM_UNIT, has_ttl), &units,
                             st->may_wait, &why);

    if (MF_UNLIKELY(h == 0)) {
        return store_failed(v, st, why);
    }

    struct item *it = keyspace_fill(s, h, units, st->key, st->flags, st->deadline, has_ttl,
                                    is_wide, (uint32_t)st->value.len, v->now);

    /* item_value(), without reading what was just written. */
    memcpy((char *)it + keyspace_header_bytes(has_ttl, is_wide) + st->key.len, st->value.ptr,
           st->value.len);
    st->value_len = (uint32_t)st->value.len;
    store_finish(v, st, it, HEAT_USE);
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_STORED;
}

enum outcome store_value_in_block(struct engine *e, struct store *st, msec_t now)
{
    struct visit v;

    must_be_reading();
    return visit_run(e, &v, st->hash, st->key, now, store_block, st);
}

enum outcome store_value(struct engine *e, struct store *st, msec_t now)
{
    must_be_reading();
    /* The size of blocks is the same in all shards. */
    if (!store_has_body(st) &&
        store_fits_block(e->shards[0], st->key.len, st->value.len, st->deadline != MSEC_NEVER,
                         item_needs_wide(st->flags, st->cas_new, st->deadline))) {
        return store_value_in_block(e, st, now);
    }
    return store_large(e, st, now);
}
