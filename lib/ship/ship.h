/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/ship: copying items to a file or another server.
 *
 *     ship         the interface of sinks: passing items to a sink, in bounded amounts
 *     walk         all items
 *     stream       the items that change
 *     feed         both, by a thread of the engine
 *
 * The folder is above lib/store, which finds the items.
 *
 * Shipping: items are passed in their present state to a *sink* (a file, a log, a replica).
 * walk.h ships all items.
 *
 * Between two calls of rest() at most SHIP_BYTES are passed, counted by ship_bytes(). So a sink
 * needs one buffer, and writes it out in rest(), which is called outside sections and may wait.
 * All other callbacks run in a section or near one: they copy and must not wait.
 */
#ifndef MAYFLY_LIB_SHIP_SHIP_H
#define MAYFLY_LIB_SHIP_SHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "lib/memory/item.h"

struct shard;

#define SHIP_BYTES      ((size_t)256 << 10)
#define SHIP_ITEM_BYTES 64u /* counted for each item in addition to its key and its value */

/* One item, or one part of a large one. [borrowed] for the call. */
struct ship_item {
    struct span key;
    struct span value;  /* the whole value, or its first part if it is shorter than value_len */
    uint64_t value_len; /* bytes */
    uint64_t cas;
    msec_t deadline; /* by the engine's clock (clock_to_unix_ms()); MSEC_NEVER: none */
    uint32_t flags;
    uint32_t used; /* time of the last access: see used_idle_s() */
    uint8_t heat;  /* see item.h and heat.h */
    bool is_stale, is_won;
};

/* [const] The callbacks of a sink. arg is the argument of ship_init(). */
struct ship_ops {
    /*
     * An item. If value is not the whole value, calls of part() follow with the rest, in order.
     */
    void (*item)(void *arg, const struct ship_item *it);
    /*
     * Instead of item(), an item in one block, whose value follows its key in memory: see
     * ship_describe(). It is live, and has this shape. NULL: item() is called.
     */
    void (*plain)(void *arg, const struct item *it, uint16_t shape);
    void (*part)(void *arg, struct span part);
    /* The value that was begun stays incomplete: the item must be discarded. */
    void (*cut)(void *arg);
    /*
     * The sink may write out its buffer now; rest() is also called when nothing was passed.
     * False: stop shipping. Context: outside a section.
     */
    bool (*rest)(void *arg);

    /* ---- for changes: stream.h, feed.h; else NULL ---- */

    /* Discard everything: all items follow. False: see rest(). Context: as rest(). */
    bool (*begin)(void *arg);
    /*
     * All items were passed; only changes follow. False: see rest(). Context: as rest().
     */
    bool (*complete)(void *arg);
    void (*drop)(void *arg, struct span key);
    /*
     * All items passed until now are gone (flush), or will be at the time `at`, which replaces
     * an earlier such time (flush_later).
     */
    void (*flush)(void *arg);
    void (*flush_later)(void *arg, msec_t at);
    /* All items passed until now whose key has this prefix are gone. */
    void (*flush_prefix)(void *arg, struct span prefix);
    /*
     * A walk also ships items past their deadline. Changes are shipped in any case: a thread
     * that read the clock earlier may still give such an item a later deadline.
     */
    bool takes_due;
};

struct ship {
    const struct ship_ops *ops; /* [borrowed] */
    void *arg;                  /* [borrowed] */
    size_t room;                /* bytes until the next rest() */
    struct ship_large *large;   /* a value that is shipped in parts */
    uint64_t left_out;          /* large values that could not be kept for the time it takes */
};

enum shipped {
    SHIP_DONE,
    SHIP_FULL,  /* not shipped: after ship_rest() there is room */
    SHIP_LARGE, /* begun: ship_large() must ship the rest, outside the section */
    SHIP_LEFT,  /* a large item left out, because too much memory is pinned already */
    SHIP_GONE,  /* not shipped: unlinked since it was found, so its marks are not known */
};

void ship_init(struct ship *s, const struct ship_ops *ops, void *arg);

/* Bytes that an item counts towards SHIP_BYTES. Context: read side. */
static inline size_t ship_bytes_by(const struct item *it, uint16_t shape)
{
    return SHIP_ITEM_BYTES + it->key_len + (size_t)item_len_by(it, shape);
}

static inline size_t ship_bytes(const struct item *it)
{
    return ship_bytes_by(it, item_shape(it));
}

/* Is an item passed without calls of rest() between its parts? */
static inline bool ship_is_whole(size_t key_len, size_t value_len)
{
    return value_len <= SHIP_BYTES - SHIP_ITEM_BYTES - key_len;
}

/*
 * Fill in an item's description, without its value. shape: the item's, loaded once, which says
 * that it is live. An unlinked item has lost its marks, and another block of its key may have
 * them now. Context: read side.
 */
static inline void ship_describe(const struct item *it, uint16_t shape, struct ship_item *out)
{
    const uint16_t marks = shape_marks(shape);

    *out = (struct ship_item){
        .key = span_of(item_key_by(it, shape), it->key_len),
        .value = span_of("", 0), /* not NULL, so that it can be copied like any other */
        .value_len = item_len_by(it, shape),
        .cas = item_cas_by(it, shape),
        .deadline = item_deadline_by(it, shape),
        .flags = item_flags_by(it, shape),
        .used = item_used(it),
        .heat = atomic_load_explicit(&it->heat, memory_order_relaxed),
        .is_stale = (marks & SHAPE_STALE) != 0,
        .is_won = (marks & SHAPE_WON) != 0,
    };
}

/* Ship an item. Context: read side. */
enum shipped ship_put(struct ship *s, const struct shard *shard, const struct item *it);

/* Ship that a key is absent. Returns SHIP_DONE or SHIP_FULL. Context: read side. */
enum shipped ship_drop(struct ship *s, struct span key);

/* Ship the rest of the value that was begun. False: see rest(). Context: outside a section. */
bool ship_large(struct ship *s);

/* Make the sink write out what it has. False: see rest(). Context: outside a section. */
bool ship_rest(struct ship *s);

#endif
