/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New deadlines for items that stay as they are otherwise. An item that was stored without
 * a deadline has no room for one: its block is made anew, with the same cas.
 */
#include <string.h>

#include "lib/check.h"
#include "lib/store.h"

/* The item has the fields: change them where they are. */
static void set_deadline(struct shard *s, handle_t h, msec_t deadline)
{
    struct item *it = shard_item(s, h);
    struct item_ttl *t = item_ttl(it);

    expires_remove(s->expires, h);
    atomic_store_explicit(&t->expires_pos, 0, memory_order_relaxed);
    atomic_store_explicit(&t->deadline, deadline, memory_order_relaxed);
    if (deadline != MSEC_NEVER) {
        expires_add(s->expires, h);
        shard_note_added(s, deadline);
    }
}

/* The bytes behind the key: the value, or what stands for a large one. */
static size_t payload_bytes(const struct item *it)
{
    return item_is_large(it) ? 3 + LARGE_BYTES(item_large(it)->pieces) : it->value_len;
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
        for (uint32_t i = 0; i < a->pieces; i++) {
            atomic_store_explicit(&b->piece[i],
                                  atomic_load_explicit(&a->piece[i], memory_order_relaxed),
                                  memory_order_relaxed);
        }
    } else {
        memcpy((char *)(uintptr_t)item_value(to), item_value(from), from->value_len);
    }
}

/*
 * The block stands for the same item as the one in the slot, with a deadline: it takes its
 * place.
 */
static void replace_block(struct visit *v, handle_t h)
{
    struct shard *s = v->owner;
    handle_t old = atomic_load_explicit(v->slot, memory_order_relaxed);
    struct item *it = shard_item(s, h);
    uint64_t grown = (uint64_t)item_bytes(it) - item_bytes(v->item);

    if (item_is_large(it)) {
        chunks_head_moved(s, h);
    }
    expires_add(s->expires, h);
    shard_note_added(s, item_deadline(it));
    table_replace(v->slot, h);
    ctr_add(&s->counters, CTR_item_bytes, grown);
    blocks_kill(s, old, DEATH_REUSE);
}

static enum outcome rebuild(struct visit *v, msec_t deadline, bool may_wait)
{
    struct shard *s = v->owner;
    uint32_t units = keyspace_units(v->key.len, payload_bytes(v->item), true);
    struct visit in_owner = *v;
    enum outcome why = OUT_OK;
    handle_t h;

    if (units > ITEM_SIZE_MAX) {
        return OUT_MISS;
    }
    in_owner.to = s;
    h = visit_block(&in_owner, visit_chain(&in_owner), &units, may_wait, &why);
    if (h == 0) {
        return why;
    }

    const struct item *old = v->item;
    struct item *it = keyspace_fill(s, h, units, v->key, old->client_flags, deadline, true,
                                    old->value_len, v->now);

    it->cas = old->cas;
    atomic_store_explicit(&it->heat, atomic_load_explicit(&old->heat, memory_order_relaxed),
                          memory_order_relaxed);
    if (item_is_large(old)) {
        atomic_store_explicit(&it->shape, item_shape(it) | SHAPE_LARGE, memory_order_relaxed);
    }
    copy_payload(old, it);
    replace_block(v, h);
    v->item = it;
    return OUT_TOUCHED;
}

/*
 * The value is so near to the largest block that the deadline does not fit with it any more:
 * store it anew as a large one. Context: outside the shard.
 */
static enum outcome restore(struct engine *e, struct visit *v, const struct item *item,
                            const struct shard *shard, msec_t deadline, bool may_wait)
{
    char *copy = mem_alloc(item->value_len + 1);
    struct store st = {.mode = STORE_CAS,
                       .hash = v->hash,
                       .key = v->key,
                       .flags = item->client_flags,
                       .deadline = deadline,
                       .cas_expected = item->cas,
                       .value = span_of(copy, item->value_len),
                       .may_wait = may_wait,
                       .keep_cas = true};
    enum outcome out;

    if (copy == NULL) {
        return OUT_NO_MEMORY;
    }
    value_copy(shard, item, copy);
    out = engine_store(e, &st, v->now);
    mem_free(copy);
    return out == OUT_STORED ? OUT_TOUCHED : out == OUT_EXISTS ? OUT_WAIT : out;
}

static enum outcome touch_in(struct visit *v, msec_t deadline, bool may_wait)
{
    room_make(v->to, 0, v->now);
    visit_find(v);
    if (!v->is_live) {
        return OUT_NOT_FOUND;
    }
    if (deadline <= v->now) {
        visit_unlink(v, DEATH_DELETE);
        return OUT_TOUCHED;
    }
    if (deadline == MSEC_NEVER && !item_has_ttl(v->item)) {
        return OUT_TOUCHED;
    }
    if (!store_reserve(v->owner, true)) {
        return may_wait ? OUT_WAIT : OUT_NO_MEMORY;
    }
    if (item_has_ttl(v->item)) {
        set_deadline(v->owner, atomic_load_explicit(v->slot, memory_order_relaxed), deadline);
        return OUT_TOUCHED;
    }
    return rebuild(v, deadline, may_wait);
}

enum outcome engine_touch(struct engine *e, uint64_t hash, struct span key, msec_t deadline,
                          msec_t now, bool may_wait, struct found *found)
{
    struct visit v;
    enum outcome out;

    do {
        visit_enter(e, &v, hash, key, now);
        out = touch_in(&v, deadline, may_wait);
        visit_leave(&v);
    } while (MF_UNLIKELY(out == OUT_WAIT) && visit_help(e, &v, out));
    found->item = NULL;
    found->miss = MISS_ABSENT;
    found->shard = v.owner;
    if (out == OUT_MISS) {
        out = restore(e, &v, v.item, v.owner, deadline, may_wait);
        if (out == OUT_TOUCHED) {
            *found = engine_find(e, router_read(&e->router), hash, key.ptr, key.len, now);
            out = found->item != NULL ? OUT_TOUCHED : OUT_NOT_FOUND;
        }
        return out;
    }
    if (out == OUT_TOUCHED) {
        found->item = v.item; /* unlinked or not: it stays readable until the section ends */
    } else if (out == OUT_NOT_FOUND && v.was_due) {
        found->miss = MISS_EXPIRED;
    }
    return out;
}
