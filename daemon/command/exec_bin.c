/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the binary protocol that read: get, getk, touch, gat, gatk, each with its quiet
 * form. Runs on the worker of the client. Values are sent as in exec_get.c.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/command/observe.h"
#include "daemon/worker/worker.h"
#include "lib/store/find_inline.h"
#include "proto/bin_compose.h"

/* A quiet get is not answered if the key is absent. */
static void answer_miss(struct turn *t, const struct request *r)
{
    if (!r->noreply) {
        t->out.len += bin_compose_miss(turn_room(t, BIN_REPLY_MAX + REQUEST_KEY_MAX), r);
    }
}

/* A small value: all of its answer goes to the output. */
static inline void put_small(struct turn *t, const struct request *r, const struct item *it,
                             size_t value_len)
{
    char *p = turn_room(t, BIN_VALUE_HEAD_MAX + r->key.len + value_len);
    size_t head =
        bin_compose_value(p, r, item_flags(it), value_len, turn_cas_shown(t, item_cas(it)));

    memcpy(p + head, item_value(it), value_len);
    t->out.len += head + value_len;
}

/* A large one is sent from where it is stored. Nothing was composed when it cannot be. */
static enum turn_stop put_large(struct turn *t, const struct request *r, const struct found *f)
{
    const struct item *it = f->item;

    if (!turn_has_room_for_value(t, BIN_VALUE_HEAD_MAX + r->key.len)) {
        return TURN_BLOCKED;
    }
    t->out.len += bin_compose_value(t->out.base + t->out.len, r, item_flags(it), item_len(it),
                                    turn_cas_shown(t, item_cas(it)));
    out_value(&t->out, f->shard, it);
    return TURN_GOES_ON;
}

enum turn_stop exec_bin_get(struct turn *t, const struct request *r)
{
    struct found f = engine_find_inline(t->route, r->hash, r->key.ptr, r->key.len, t->now);

    if (f.item == NULL) {
        turn_tally_miss(t, f.miss);
        MF_PROBE3(get_miss, r->key.ptr, r->key.len, f.miss);
        answer_miss(t, r);
    } else {
        size_t value_len = item_len(f.item);

        if (MF_LIKELY(!item_is_large(f.item))) {
            put_small(t, r, f.item, value_len);
        } else if (put_large(t, r, &f) != TURN_GOES_ON) {
            return TURN_BLOCKED;
        }
        MF_PROBE3(get_hit, r->key.ptr, r->key.len, value_len);
        item_mark_used(f.item, t->now_s, &t->w->heat);
        t->tally.hits++;
    }
    t->tally.gets++;
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_get(t, r->key, f.item, f.miss);
    }
    return TURN_GOES_ON;
}

/* Answer a touch that found the item; the reply to touch itself has only the flags. */
static void answer_touched(struct turn *t, const struct request *r, const struct found *f)
{
    const struct item *it = f->item;

    if (r->command == CMD_TOUCH) {
        t->out.len += bin_compose_value(turn_room(t, BIN_VALUE_HEAD_MAX), r, item_flags(it), 0,
                                        turn_cas_shown(t, item_cas(it)));
    } else if (!item_is_large(it)) {
        put_small(t, r, it, item_block_len(it));
    } else {
        (void)put_large(t, r, f); /* there is room: the caller made it */
    }
}

/*
 * touch, gat, gatk. Checks whether the output has room for the value before the item is
 * touched: with a deadline that has passed it would not be found a second time.
 */
enum turn_stop exec_bin_touch(struct turn *t, const struct request *r)
{
    const char *command = r->command == CMD_GAT ? "gat" : "touch";
    struct found f;

    if (!turn_has_room_for_value(t, BIN_VALUE_HEAD_MAX + r->key.len)) {
        return TURN_BLOCKED;
    }
    enum outcome outcome =
        exec_touch_key(t, r->hash, r->key, turn_deadline(t, r->exptime), command, &f);
    if (outcome == OUT_TOUCHED) {
        answer_touched(t, r, &f);
    } else if (outcome == OUT_NOT_FOUND) {
        answer_miss(t, r);
    } else {
        return exec_answer(t, r, outcome);
    }
    return TURN_GOES_ON;
}
