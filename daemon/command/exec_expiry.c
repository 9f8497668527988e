/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * touch, also for gat and the binary protocol; expire and similar commands, persist, ttl and
 * similar commands. Runs on the worker of the client, inside the read-side section of the turn.
 *
 * A new deadline counts as a touch, and as a use of the item. Reading a deadline does not.
 */
#include "daemon/command/exec.h"

#include "daemon/command/observe.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/counters.h"
#include "lib/store/touch.h"

static enum turn_stop answer_number(struct turn *t, const struct request *r, int64_t number)
{
    t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, OUT_NUMBER, (uint64_t)number);
    return TURN_GOES_ON;
}

/* ---- touch ------------------------------------------------------------------------------- */

/* Set the deadline of an item, count and observe that; is_get: the value is returned too. */
static MF_INLINE enum outcome touch(struct turn *t, uint64_t hash, struct span key,
                                    msec_t deadline, const char *command, bool is_get,
                                    struct found *f)
{
    struct counters *c = &t->w->counters;
    struct before before;

    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, hash, key, &before);
    }
    enum outcome out = engine_touch(t->e, hash, key, deadline, t->now, t->may_wait, f);
    MF_PROBE3(touch_done, key.ptr, key.len, out);
    if (MF_LIKELY(out == OUT_TOUCHED)) {
        item_mark_used(f->item, t->now_s, &t->w->heat);
        ctr_add(c, CTR_touch_hits, 1);
    } else if (out == OUT_WAIT) {
        return out;
    } else {
        ctr_add(c, out == OUT_NO_MEMORY ? CTR_store_no_memory : CTR_touch_misses, 1);
    }
    ctr_add(c, CTR_cmd_touch, 1);
    if (MF_UNLIKELY(t->observed != 0)) {
        if (is_get) {
            observe_get(t, key, out == OUT_TOUCHED ? f->item : NULL, MISS_ABSENT);
        } else {
            observe_fetch(t, key, &before);
        }
        if (out == OUT_TOUCHED) {
            observe_deadline(t, &before, key, command, deadline);
        }
    }
    return out;
}

enum outcome exec_touch_key(struct turn *t, uint64_t hash, struct span key, msec_t deadline,
                            const char *command, struct found *f)
{
    must_be_in_turn(t);
    return touch(t, hash, key, deadline, command, true, f);
}

enum turn_stop exec_touch(struct turn *t, const struct request *r)
{
    struct found f;
    enum outcome out =
        touch(t, r->hash, r->key, turn_deadline(t, r->exptime), "touch", false, &f);

    if (MF_UNLIKELY(out != OUT_TOUCHED)) {
        return exec_answer(t, r, out);
    }
    t->out.len += text_compose_touched(turn_room(t, TEXT_REPLY_MAX), r);
    return TURN_GOES_ON;
}

/* ---- new deadlines ----------------------------------------------------------------------- */

static msec_t deadline_of(const struct turn *t, const struct request *r)
{
    switch (r->command) {
    case CMD_PERSIST:
        return MSEC_NEVER;
    case CMD_EXPIREAT:
    case CMD_PEXPIREAT:
        return turn_deadline_at(t, r->exptime);
    default:
        return turn_deadline_after(t, r->exptime);
    }
}

/* Redis has one event for all commands that set a deadline, and a delete if it has passed. */
static void observe_change(struct turn *t, const struct request *r, const struct before *before,
                           const struct deadline_change *change, bool is_changed)
{
    const char *command = r->command == CMD_PERSIST ? "persist" : "expire";

    if (is_changed && change->deadline <= t->now) {
        observe_delete(t, before, r->key, command, true);
        return;
    }
    observe_fetch(t, r->key, before);
    if (is_changed) {
        observe_deadline(t, before, r->key, command, change->deadline);
    }
}

enum turn_stop exec_deadline(struct turn *t, const struct request *r)
{
    const struct deadline_change change = {
        .deadline = deadline_of(t, r),
        .if_endless = (r->flags & ONLY_ENDLESS) != 0,
        .if_volatile = (r->flags & ONLY_VOLATILE) != 0 || r->command == CMD_PERSIST,
        .if_later = (r->flags & ONLY_LATER) != 0,
        .if_earlier = (r->flags & ONLY_EARLIER) != 0,
        .may_wait = t->may_wait,
    };
    struct counters *c = &t->w->counters;
    struct before before;
    struct found f;

    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, r->hash, r->key, &before);
    }
    enum outcome out = engine_touch_if(t->e, r->hash, r->key, &change, t->now, &f);
    MF_PROBE3(touch_done, r->key.ptr, r->key.len, out);
    if (out == OUT_WAIT) {
        return TURN_WAITS;
    }
    ctr_add(c, CTR_cmd_touch, 1);
    if (out == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    ctr_add(c, out == OUT_NOT_FOUND ? CTR_touch_misses : CTR_touch_hits, 1);
    if (out == OUT_TOUCHED) {
        item_mark_used(f.item, t->now_s, &t->w->heat);
    }
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_change(t, r, &before, &change, out == OUT_TOUCHED);
    }
    return answer_number(t, r, out == OUT_TOUCHED);
}

/* ---- questions --------------------------------------------------------------------------- */

/* Milliseconds to seconds, rounded to the nearest, as in Redis. */
static int64_t nearest_seconds(int64_t ms)
{
    return ms / 1000 + (ms % 1000 >= 500);
}

static int64_t number_of(const struct turn *t, const struct request *r, const struct item *it)
{
    msec_t deadline = it != NULL ? item_deadline(it) : 0;

    if (it == NULL || deadline == MSEC_NEVER) {
        return it == NULL ? -2 : -1;
    }
    switch (r->command) {
    case CMD_TTL:
        return nearest_seconds(turn_ms_left(t, deadline));
    case CMD_PTTL:
        return turn_ms_left(t, deadline);
    case CMD_EXPIRETIME:
        return nearest_seconds(turn_unix_ms(t, deadline));
    default:
        return turn_unix_ms(t, deadline);
    }
}

enum turn_stop exec_ttl(struct turn *t, const struct request *r)
{
    struct found f = engine_find(t->route, r->hash, r->key.ptr, r->key.len, t->now);

    ctr_add(&t->w->counters, CTR_cmd_ttl, 1);
    return answer_number(t, r, number_of(t, r, f.item));
}
