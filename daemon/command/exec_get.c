/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get, gets, gat, gats: the hot path. Runs on the worker of the client, inside the read-side
 * section of the turn, so items are borrowed without reference counts. Small values are copied
 * after their VALUE line; large ones are sent without a copy, one at a time.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/command/observe.h"
#include "daemon/command/timing.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/store/find_inline.h"
#include "proto/text_parse.h"

/* Bytes of one reply in addition to key and value: its line, the value's line end, and END. */
#define EXTRA_BYTES (TEXT_VALUE_LINE_MAX + 2 + REPLY_LEN(END))

/* END after the values; there is room. */
static inline void put_end(struct turn *t)
{
    memcpy(t->out.base + t->out.len, REPLY_BYTES(END), REPLY_LEN(END));
    t->out.len += REPLY_LEN(END);
}

/*
 * A small value: write its whole reply to the output, with END if it is the last. Inlined for a
 * shape that is known not to be wide, so that fields of wide items are not checked. Returns the
 * length of the value.
 */
static MF_INLINE uint32_t put_block(struct turn *t, const struct item *it, uint16_t shape,
                                    struct span key, bool wants_cas, bool is_last)
{
    const uint32_t value_len = item_block_len(it);
    char *begin = turn_room(t, key.len + value_len + EXTRA_BYTES);
    char *p = begin;

    p += text_compose_value(p, key.ptr, key.len, item_flags_by(it, shape), value_len, wants_cas,
                            wants_cas ? turn_cas_shown(t, item_cas(it)) : 0);
    memcpy(p, (const char *)it + shape_header_bytes(shape) + key.len, value_len);
    p += value_len;
    memcpy(p, "\r\n", 2);
    p += 2;
    if (is_last) {
        memcpy(p, REPLY_BYTES(END), REPLY_LEN(END));
        p += REPLY_LEN(END);
    }
    t->out.len += (size_t)(p - begin);
    return value_len;
}

/*
 * A large value: the output can refer to one at a time, so the one before is sent first. If
 * the socket does not take all of that, nothing was composed here.
 */
static bool put_large(struct turn *t, struct found f, struct span key, bool wants_cas)
{
    const struct item *it = f.item;

    if (!turn_has_room_for_value(t, key.len + EXTRA_BYTES)) {
        return false;
    }
    char *p = t->out.base + t->out.len;
    t->out.len += text_compose_value(p, key.ptr, key.len, item_flags(it), item_len(it),
                                     wants_cas, turn_cas_shown(t, item_cas(it)));
    out_value(&t->out, f.shard, it);
    memcpy(t->out.base + t->out.len, "\r\n", 2);
    t->out.len += 2;
    return true;
}

/* A wide item, of any size; *len: the length of its value. */
static MF_NOINLINE bool put_wide(struct turn *t, struct found f, struct span key,
                                 bool wants_cas, uint32_t *len)
{
    *len = item_len(f.item);
    if (item_is_large(f.item)) {
        return put_large(t, f, key, wants_cas);
    }
    (void)put_block(t, f.item, item_shape(f.item), key, wants_cas, false);
    return true;
}

/* False: the output has no room for it, and nothing was composed. */
static MF_INLINE bool put_item(struct turn *t, struct found f, struct span key, bool wants_cas,
                               bool is_last, uint32_t *len)
{
    uint16_t shape = item_shape(f.item);

    if (MF_UNLIKELY((shape & SHAPE_WIDE) != 0)) {
        if (!put_wide(t, f, key, wants_cas, len)) {
            return false;
        }
        if (is_last) {
            put_end(t);
        }
        return true;
    }
    *len = put_block(t, f.item, shape & (uint16_t)~SHAPE_WIDE, key, wants_cas, is_last);
    return true;
}

/*
 * A complete get of one key, with END if it is the last; if not, room is left for it.
 */
static MF_INLINE enum turn_stop get_key(struct turn *t, struct span key, uint64_t hash,
                                        bool wants_cas, bool is_last)
{
    struct found f = engine_find_inline(t->route, hash, key.ptr, key.len, t->now);

    if (f.item == NULL) {
        turn_tally_miss(t, f.miss);
        MF_PROBE3(get_miss, key.ptr, key.len, f.miss);
        (void)turn_room(t, REPLY_LEN(END));
        if (is_last) {
            put_end(t);
        }
    } else {
        uint32_t value_len;

        if (MF_UNLIKELY(!put_item(t, f, key, wants_cas, is_last, &value_len))) {
            return TURN_BLOCKED;
        }
        MF_PROBE3(get_hit, key.ptr, key.len, value_len);
        item_mark_used(f.item, t->now_s, &t->w->heat);
        t->tally.hits++;
    }
    t->tally.gets++;
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_get(t, key, f.item, f.miss);
    }
    return TURN_GOES_ON;
}

/*
 * The same for gat. Checks whether the output has room for the value before the item is
 * touched: with a deadline that has passed it would not be found a second time.
 */
static enum turn_stop gat_key(struct turn *t, const struct request *r, struct span key,
                              uint64_t hash)
{
    struct found f;
    uint32_t value_len;

    if (!turn_has_room_for_value(t, key.len + EXTRA_BYTES)) {
        return TURN_BLOCKED;
    }
    enum outcome outcome =
        exec_touch_key(t, hash, key, turn_deadline(t, r->exptime), "gat", &f);
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    /* Without memory for its deadline an item is omitted like a miss. */
    if (outcome == OUT_TOUCHED && !put_item(t, f, key, r->wants_cas, false, &value_len)) {
        return TURN_BLOCKED;
    }
    return TURN_GOES_ON;
}

static inline bool is_gat(const struct request *r)
{
    return r->command == CMD_GAT || r->command == CMD_GATS;
}

/*
 * Remove up to a batch of keys from the front of *keys, and prefetch for their lookups.
 */
static unsigned take_keys(struct turn *t, struct span *keys, struct span key[TURN_BATCH],
                          uint64_t hash[TURN_BATCH])
{
    unsigned n = 0;

    while (n < TURN_BATCH && text_next_key(keys, &key[n])) {
        hash[n] = engine_hash(t->e, key[n].ptr, key[n].len);
        engine_prefetch_bucket(t->route, hash[n]);
        n++;
    }
    engine_prefetch_items(t->route, hash, sizeof(hash[0]), n);
    return n;
}

/* Keep the rest of the line, from p on. */
static enum turn_stop stop_at(struct turn *t, const char *p, struct span keys,
                              enum turn_stop why)
{
    t->rest = span_of(p, (size_t)(keys.ptr + keys.len - p));
    return why;
}

enum turn_stop exec_get_keys(struct turn *t, const struct request *r, struct span keys)
{
    struct span key[TURN_BATCH];
    uint64_t hash[TURN_BATCH];
    bool touches = is_gat(r);
    unsigned n;

    must_be_in_turn(t);
    while ((n = take_keys(t, &keys, key, hash)) > 0) {
        if (MF_UNLIKELY(t->insight != 0)) {
            timing_sample_keys(t, key, hash, n);
        }
        for (unsigned i = 0; i < n; i++) {
            if (MF_UNLIKELY(t->is_halted)) {
                return stop_at(t, key[i].ptr, keys, TURN_BLOCKED);
            }
            enum turn_stop stop = touches ? gat_key(t, r, key[i], hash[i])
                                          : get_key(t, key[i], hash[i], r->wants_cas, false);
            if (MF_UNLIKELY(stop != TURN_GOES_ON)) {
                return stop_at(t, key[i].ptr, keys, stop);
            }
        }
        t->units += n;
        if (MF_UNLIKELY(t->units >= t->unit_limit) && keys.len > 0 &&
            turn_others_are_ready(t)) {
            return stop_at(t, keys.ptr, keys, TURN_YIELDS);
        }
    }
    (void)turn_room(t, REPLY_LEN(END));
    put_end(t);
    return TURN_GOES_ON;
}

enum turn_stop exec_get(struct turn *t, const struct request *r)
{
    if (r->more.len > 0 || is_gat(r)) {
        size_t len = (size_t)(r->more.ptr + r->more.len - r->key.ptr);

        return exec_get_keys(t, r, span_of(r->key.ptr, r->more.len > 0 ? len : r->key.len));
    }
    enum turn_stop stop = get_key(t, r->key, r->hash, r->wants_cas, true);
    if (MF_UNLIKELY(stop != TURN_GOES_ON)) {
        t->rest = r->key;
    }
    return stop;
}
