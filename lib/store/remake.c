/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New blocks for items that stay what they are: see store_common.h.
 */
#include <string.h>

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/chunks.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/value.h"
#include "lib/store/store.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

/* The bytes after the key: the value, or the description of a large value. */
static size_t payload_bytes(const struct item *it)
{
    return item_is_large(it) ? 3 + LARGE_BYTES(item_large(it)->pieces) : item_block_len(it);
}

static void copy_payload(const struct item *from, struct item *to)
{
    if (item_is_large(from)) {
        const struct large *a = item_large(from);
        struct large *b = item_large(to);

        b->first = a->first;
        b->last = a->last;
        b->segments = a->segments;
        b->pieces = a->pieces;
        b->skip = a->skip;
        b->anchor = a->anchor;
        for (uint32_t i = 0; i < a->pieces; i++) {
            atomic_store_explicit(&b->piece[i],
                                  atomic_load_explicit(&a->piece[i], memory_order_relaxed),
                                  memory_order_relaxed);
        }
    } else {
        memcpy((char *)(uintptr_t)item_value(to), item_value(from), item_block_len(from));
    }
}

enum outcome remake_block(struct visit *v, const struct remake *r)
{
    struct visit in_owner = *v;
    bool has_ttl = r->deadline != MSEC_NEVER;
    bool is_large = item_is_large(v->item);
    bool is_wide = is_large || item_needs_wide(item_flags(v->item), r->cas, r->deadline);
    uint32_t units = keyspace_units(v->key.len, payload_bytes(v->item), has_ttl, is_wide);
    enum outcome why;

    shard_must_be_entered(v->owner);
    if (units > ITEM_SIZE_MAX) {
        return OUT_TOO_LARGE;
    }
    if (has_ttl && !wheel_reserve(v->owner->wheel)) { /* the index has a place for it */
        return visit_wait_for_index(v, r->may_wait);
    }
    in_owner.to = v->owner;
    handle_t h =
        visit_block(&in_owner, visit_chain(&in_owner, (uint64_t)units * ITEM_UNIT, has_ttl),
                    &units, r->may_wait, &why);
    if (h == 0) {
        v->waits_for = in_owner.waits_for;
        v->needy = in_owner.needy;
        return why;
    }

    const struct item *old = in_owner.item; /* it may have moved */
    uint16_t marks = (uint16_t)((shape_marks(item_shape(old)) & ~r->clears) | r->sets);
    struct item *it = keyspace_fill(v->owner, h, units, v->key, item_flags(old), r->deadline,
                                    has_ttl, is_wide, item_len(old), v->now);

    item_set_cas(it, r->cas);
    item_copy_use(old, it);
    item_mark(it, marks);
    if (is_large) {
        item_set_large(it);
    }
    copy_payload(old, it);
    keyspace_renew(v->owner, h, v->slot);
    v->item = it;
    return OUT_OK;
}

enum outcome remake_as_large(struct engine *e, const struct visit *v, const struct remake *r)
{
    const struct item *item = v->item;
    char *copy = mem_alloc((size_t)item_len(item) + 1);
    struct store_over over = {.item = item,
                              .deadline = r->deadline_before,
                              .clears = r->clears,
                              .sets = r->sets,
                              .is_copy = true};
    struct store st = {.mode = STORE_CAS,
                       .hash = v->hash,
                       .key = v->key,
                       .flags = item_flags(item),
                       .deadline = r->deadline,
                       .value = span_of(copy, item_len(item)),
                       .may_wait = r->may_wait,
                       .over = &over,
                       .cas_new = r->cas};

    must_be_reading();
    if (copy == NULL) {
        return OUT_NO_MEMORY;
    }
    value_copy(v->owner, item, copy);
    enum outcome out = engine_store(e, &st, v->now);
    mem_free(copy);
    /* NOT_FOUND: deleted meanwhile, which the caller will see when it starts over. */
    return out == OUT_STORED ? OUT_OK : out == OUT_NOT_FOUND ? OUT_EXISTS : out;
}
