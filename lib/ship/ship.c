/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shipping items: see ship.h.
 *
 * A value that does not fit what a sink takes at once is in whole segments for the most part.
 * These are pinned, so they outlive the section in which the item was found, whatever becomes
 * of the item; the bytes after them are copied in that section.
 */
#include "lib/ship/ship.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/shard/value.h"

/* A large value on its way. */
struct ship_large {
    struct value_walk walk;
    struct value_pin pin;
    size_t tail_len;
    char tail[]; /* the bytes after the whole segments */
};

void ship_init(struct ship *s, const struct ship_ops *ops, void *arg)
{
    *s = (struct ship){.ops = ops, .arg = arg, .room = SHIP_BYTES};
}

bool ship_rest(struct ship *s)
{
    must_not_be_reading();
    s->room = SHIP_BYTES;
    return s->ops->rest(s->arg);
}

/* Pass a whole value at once; its parts may be in several blocks. */
static void put_parts(struct ship *s, const struct shard *shard, const struct item *it,
                      struct ship_item *out)
{
    struct value_walk w;
    struct span part;

    value_walk_begin(&w, shard, it);
    if (value_walk_next(&w, &part)) {
        out->value = part;
    }
    s->ops->item(s->arg, out);
    while (value_walk_next(&w, &part)) {
        s->ops->part(s->arg, part);
    }
}

/* Pin a value and ship the item without it. False: it cannot be kept. */
static bool begin_large(struct ship *s, const struct shard *shard, const struct item *it,
                        const struct ship_item *out)
{
    struct value_walk w;
    struct ship_large *l;

    value_walk_begin(&w, shard, it);
    size_t tail = value_walk_tail(&w);
    must(value_walk_has_segments(&w)); /* pieces alone are less than SHIP_BYTES */
    if (!value_may_pin(&w)) {
        return false;
    }
    l = mem_alloc(sizeof(*l) + tail);
    if (l == NULL) {
        return false;
    }
    l->walk = w;
    l->tail_len = tail;
    value_walk_copy_tail(&w, l->tail);
    l->pin = value_pin(&w);
    s->large = l;
    s->ops->item(s->arg, out);
    s->room -= SHIP_ITEM_BYTES + it->key_len;
    return true;
}

/* ship_put() of an item that is not plain, or for a sink that does not take such items. */
static MF_NOINLINE enum shipped put_described(struct ship *s, const struct shard *shard,
                                              const struct item *it, uint16_t shape)
{
    size_t bytes = ship_bytes_by(it, shape);
    struct ship_item out;

    ship_describe(it, shape, &out);
    if (!ship_is_whole(it->key_len, out.value_len)) {
        if (begin_large(s, shard, it, &out)) {
            return SHIP_LARGE;
        }
        s->left_out++;
        return SHIP_LEFT;
    }
    s->room -= bytes;
    if (MF_LIKELY(!item_is_large(it))) {
        out.value = span_of(item_value(it), item_block_len(it));
        s->ops->item(s->arg, &out);
    } else {
        put_parts(s, shard, it, &out);
    }
    return SHIP_DONE;
}

enum shipped ship_put(struct ship *s, const struct shard *shard, const struct item *it)
{
    const uint16_t shape = item_shape(it);
    size_t bytes = ship_bytes_by(it, shape);

    must_be_reading();
    debug_must(s->large == NULL);
    if (bytes > s->room && (bytes <= SHIP_BYTES || s->room < SHIP_BYTES)) {
        return SHIP_FULL;
    }
    if (MF_UNLIKELY(!shape_is_live(shape))) {
        return SHIP_GONE;
    }
    if (MF_UNLIKELY(s->ops->plain == NULL || item_is_large_by(it, shape))) {
        return put_described(s, shard, it, shape);
    }
    s->room -= bytes;
    s->ops->plain(s->arg, it, shape);
    return SHIP_DONE;
}

enum shipped ship_drop(struct ship *s, struct span key)
{
    size_t bytes = SHIP_ITEM_BYTES + key.len;

    must_be_reading();
    if (bytes > s->room) {
        return SHIP_FULL;
    }
    s->room -= bytes;
    s->ops->drop(s->arg, key);
    return SHIP_DONE;
}

/* Pass bytes to the sink, and call rest() whenever its room is used up. */
static bool put_bytes(struct ship *s, struct span bytes)
{
    while (bytes.len != 0) {
        size_t n = bytes.len < s->room ? bytes.len : s->room;

        s->ops->part(s->arg, span_of(bytes.ptr, n));
        s->room -= n;
        bytes = span_of(bytes.ptr + n, bytes.len - n);
        if (s->room == 0 && !ship_rest(s)) {
            return false;
        }
    }
    return true;
}

/* Is the value dead, and do pins keep more dead memory than live items can spare? */
static bool is_overdue(const struct ship_large *l)
{
    return value_pin_is_dead(&l->pin) && value_pinned_excess(l->pin.shard) != 0;
}

bool ship_large(struct ship *s)
{
    struct ship_large *l = s->large;
    bool is_wanted = true;
    bool is_cut = false;
    struct span part;

    must_not_be_reading();
    while (is_wanted && !is_cut && l->walk.segments_left > 0 &&
           value_walk_next(&l->walk, &part)) {
        is_wanted = put_bytes(s, part);
        is_cut = is_overdue(l);
    }
    is_cut = is_cut && l->walk.segments_left > 0; /* the last bytes are a copy */
    if (is_wanted && !is_cut) {
        is_wanted = put_bytes(s, span_of(l->tail, l->tail_len));
    }
    if (!is_wanted || is_cut) {
        s->ops->cut(s->arg);
        s->left_out++;
    }
    value_unpin(&l->pin);
    mem_free(l);
    s->large = NULL;
    return is_wanted;
}
