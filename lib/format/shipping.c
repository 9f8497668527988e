/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes shipped items to blocks: see shipping.h.
 */
#include "lib/format/shipping.h"

#include "lib/base/check.h"
#include "lib/engine/engine.h"

_Static_assert(SHIP_BYTES - SHIP_ITEM_BYTES <= SNAP_RAW_MAX - SNAP_ITEM_BYTES,
               "an item that is passed at once fits a block");

static int64_t unix_now(const struct shipping *s)
{
    return clock_unix_ms(&s->engine->clock);
}

static inline uint8_t marks_of(bool is_stale, bool is_won)
{
    return (uint8_t)((is_stale ? SNAP_STALE : 0) | (is_won ? SNAP_WON : 0));
}

static inline int64_t deadline_of(const struct shipping *s, msec_t deadline)
{
    return deadline == MSEC_NEVER ? SNAP_DEADLINE_NEVER : clock_add_ms(deadline, s->to_unix_ms);
}

static void describe(const struct shipping *s, const struct ship_item *from,
                     struct snap_item *to)
{
    *to = (struct snap_item){
        .marks = marks_of(from->is_stale, from->is_won),
        .heat = from->heat,
        .client_flags = from->flags,
        .cas = from->cas,
        .idle_s = used_idle_s(from->used, s->now_s),
        .deadline = deadline_of(s, from->deadline),
        .key = span_of(from->key.ptr, from->key.len),
        .value = span_of(from->value.ptr, from->value.len),
        .value_len = (uint32_t)from->value_len,
    };
}

/* Start a block if none is open. A block has one time for all of its items. */
static inline void begin_item(struct shipping *s)
{
    if (s->encoder->used == 0) {
        s->now_s = (uint32_t)(clock_now(&s->engine->clock) / 1000);
    }
    s->is_in_value = false;
}

/* If there is no room for it in the block, there is in the next one. */
static void put_in_block(struct shipping *s, const struct snap_item *it)
{
    if (MF_UNLIKELY(!snap_put_item(s->encoder, it))) {
        snap_encoder_send(s->encoder, unix_now(s));
        must(snap_put_item(s->encoder, it));
    }
}

static void put_item(struct shipping *s, const struct ship_item *shipped)
{
    struct snap_item it;

    begin_item(s);
    describe(s, shipped, &it);
    if (ship_is_whole(it.key.len, it.value_len)) {
        put_in_block(s, &it);
        return;
    }
    it.value = span_of(NULL, 0);
    s->is_in_value = true;
    snap_value_begin(s->encoder, &it, unix_now(s));
    if (shipped->value.len != 0) {
        snap_value_part(s->encoder, shipped->value, unix_now(s));
    }
}

static void put_part(struct shipping *s, struct span part)
{
    if (!s->is_in_value) {
        snap_put_more(s->encoder, part);
        return;
    }
    snap_value_part(s->encoder, part, unix_now(s));
    if (s->encoder->value_left == 0) {
        snap_value_end(s->encoder, unix_now(s));
        s->is_in_value = false;
    }
}

static void put_cut(struct shipping *s)
{
    if (s->is_in_value) { /* else the sink has stopped after the last byte */
        snap_value_cut(s->encoder, unix_now(s));
        s->is_in_value = false;
    }
}

static void put_drop(struct shipping *s, struct span key)
{
    const struct snap_item gone = {
        .marks = SNAP_GONE, .deadline = SNAP_DEADLINE_NEVER, .key = key};

    put_in_block(s, &gone);
}

/* ---- the callbacks ----------------------------------------------------------------------- */

static void note_put(const struct shipping *s)
{
    if (s->put != NULL) {
        s->put(s->arg);
    }
}

static void on_item(void *arg, const struct ship_item *it)
{
    put_item(arg, it);
    note_put(arg);
}

static MF_INLINE void put_plain(struct shipping *s, const struct item *it, uint16_t shape)
{
    const size_t len = item_block_len(it);

    begin_item(s);
    char *p = snap_item_room(s->encoder, it->key_len, len);
    if (MF_UNLIKELY(p == NULL)) {
        snap_encoder_send(s->encoder, unix_now(s));
        p = snap_item_room(s->encoder, it->key_len, len);
        must(p != NULL);
    }
    snap_put_marks(
        p, it->key_len, marks_of((shape & SHAPE_STALE) != 0, (shape & SHAPE_WON) != 0),
        atomic_load_explicit(&it->heat, memory_order_relaxed), item_flags_by(it, shape));
    snap_put_cas_len(p, item_cas_by(it, shape), item_len_by(it, shape));
    snap_put_times(p, used_idle_s(item_used(it), s->now_s),
                   deadline_of(s, item_deadline_by(it, shape)));
    memcpy(p + SNAP_ITEM_BYTES, item_key_by(it, shape), it->key_len + len);
    snap_item_is_put(s->encoder, it->key_len + len);
    note_put(s);
}

static MF_NOINLINE void put_wide(struct shipping *s, const struct item *it, uint16_t shape)
{
    put_plain(s, it, shape);
}

static void on_plain(void *arg, const struct item *it, uint16_t shape)
{
    if (MF_LIKELY((shape & SHAPE_WIDE) == 0)) {
        /* By a shape that the compiler knows not to be wide. */
        put_plain(arg, it, (uint16_t)(shape & ~SHAPE_WIDE));
    } else {
        put_wide(arg, it, shape);
    }
}

static void on_part(void *arg, struct span part)
{
    put_part(arg, part);
    note_put(arg);
}

static void on_cut(void *arg)
{
    put_cut(arg);
    note_put(arg);
}

static bool on_rest(void *arg)
{
    struct shipping *s = arg;

    return s->rest(s->arg);
}

static void on_drop(void *arg, struct span key)
{
    put_drop(arg, key);
    note_put(arg);
}

/* A block of its own was put. */
static void note_block(struct shipping *s)
{
    note_put(s);
    if (s->ship != NULL) {
        ship_rest(s->ship); /* that took a block, or two */
    }
}

static void on_flush_at(struct shipping *s, int64_t at_unix_ms)
{
    snap_put_flush(s->encoder, at_unix_ms, unix_now(s));
    note_block(s);
}

static void on_flush(void *arg)
{
    on_flush_at(arg, 0);
}

static void on_flush_later(void *arg, msec_t at)
{
    struct shipping *s = arg;

    on_flush_at(s, clock_add_ms(at, s->to_unix_ms));
}

static void on_flush_prefix(void *arg, struct span prefix)
{
    struct shipping *s = arg;

    snap_put_prefix(s->encoder, prefix, unix_now(s));
    note_block(s);
}

const struct ship_ops shipping_ops = {
    .item = on_item,
    .plain = on_plain,
    .part = on_part,
    .cut = on_cut,
    .rest = on_rest,
    .drop = on_drop,
    .flush = on_flush,
    .flush_later = on_flush_later,
    .flush_prefix = on_flush_prefix,
};
