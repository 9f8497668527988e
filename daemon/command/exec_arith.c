/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr, decr, delete, touch: they change one item and answer in a word. Runs on the worker of
 * the client, inside the read-side section of the turn.
 */
#include "daemon/command/exec.h"

#include "daemon/command/observe.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/probes.h"
#include "lib/engine/arith.h"
#include "lib/engine/erase.h"
#include "lib/engine/touch.h"
#include "proto/text_compose.h"

static enum turn_stop answer_outcome(struct turn *t, const struct request *r,
                                     enum outcome outcome)
{
    t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, outcome, 0);
    return TURN_GOES_ON;
}

/* Anything but OUT_NUMBER. */
static MF_NOINLINE enum turn_stop arith_failed(struct turn *t, const struct request *r,
                                               enum outcome outcome)
{
    struct counters *c = &t->w->counters;

    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (outcome == OUT_NOT_FOUND) {
        ctr_add(c, r->command == CMD_DECR ? CTR_decr_misses : CTR_incr_misses, 1);
    } else if (outcome == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
    }
    return answer_outcome(t, r, outcome);
}

/* Every field that the engine reads: an initializer would clear all of it first. */
static inline void prepare_arith(const struct turn *t, const struct request *r, struct arith *a)
{
    a->hash = r->hash;
    a->key = r->key;
    a->delta = r->number.delta;
    a->is_decr = r->command == CMD_DECR;
    a->compares_cas = false;
    a->vivifies = false;
    a->touches = false;
    a->may_wait = t->may_wait;
    a->cas_new = 0;
}

static MF_INLINE enum turn_stop arith_and_answer(struct turn *t, const struct request *r)
{
    struct arith a;
    enum outcome outcome;

    prepare_arith(t, r, &a);
    outcome = engine_arith(t->e, &a, t->now);
    MF_PROBE3(arith_done, r->key.ptr, r->key.len, outcome);
    if (MF_UNLIKELY(outcome != OUT_NUMBER)) {
        return arith_failed(t, r, outcome);
    }
    ctr_add(&t->w->counters, a.is_decr ? CTR_decr_hits : CTR_incr_hits, 1);
    t->out.len += text_compose_digits(turn_room(t, TEXT_REPLY_MAX), r, a.digits, a.digit_count);
    return TURN_GOES_ON;
}

/* The same while commands are observed. */
static enum turn_stop arith_observed(struct turn *t, const struct request *r)
{
    struct before before;
    enum turn_stop stop;

    observe_before(t, r->hash, r->key, &before);
    stop = arith_and_answer(t, r);
    if (stop == TURN_GOES_ON) {
        observe_fetch(t, r->key, &before);
    }
    return stop;
}

enum turn_stop exec_arith(struct turn *t, const struct request *r)
{
    return MF_UNLIKELY(t->observed != 0) ? arith_observed(t, r) : arith_and_answer(t, r);
}

enum turn_stop exec_delete(struct turn *t, const struct request *r)
{
    struct before before;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, r->hash, r->key, &before);
    }
    outcome = engine_delete(t->e, r->hash, r->key, 0, t->now);
    MF_PROBE3(delete_done, r->key.ptr, r->key.len, outcome);
    ctr_add(&t->w->counters, outcome == OUT_DELETED ? CTR_delete_hits : CTR_delete_misses, 1);
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_delete(t, &before, r->key, "delete", outcome == OUT_DELETED);
    }
    return answer_outcome(t, r, outcome);
}

/* Anything but OUT_TOUCHED. */
static MF_NOINLINE enum turn_stop touch_failed(struct turn *t, const struct request *r,
                                               enum outcome outcome)
{
    struct counters *c = &t->w->counters;

    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    ctr_add(c, CTR_cmd_touch, 1);
    ctr_add(c, outcome == OUT_NO_MEMORY ? CTR_store_no_memory : CTR_touch_misses, 1);
    return answer_outcome(t, r, outcome);
}

static MF_INLINE enum turn_stop touch_and_answer(struct turn *t, const struct request *r,
                                                 msec_t deadline, enum outcome *outcome)
{
    struct counters *c = &t->w->counters;
    struct found f;

    *outcome = engine_touch(t->e, r->hash, r->key, deadline, t->now, t->may_wait, &f);
    MF_PROBE3(touch_done, r->key.ptr, r->key.len, *outcome);
    if (MF_UNLIKELY(*outcome != OUT_TOUCHED)) {
        return touch_failed(t, r, *outcome);
    }
    item_mark_used(f.item, t->now_s, &t->w->heat);
    ctr_add(c, CTR_cmd_touch, 1);
    ctr_add(c, CTR_touch_hits, 1);
    t->out.len += text_compose_touched(turn_room(t, TEXT_REPLY_MAX), r);
    return TURN_GOES_ON;
}

/* The same while commands are observed. */
static enum turn_stop touch_observed(struct turn *t, const struct request *r, msec_t deadline)
{
    struct before before;
    enum outcome outcome;
    enum turn_stop stop;

    observe_before(t, r->hash, r->key, &before);
    stop = touch_and_answer(t, r, deadline, &outcome);
    if (stop == TURN_GOES_ON) {
        observe_fetch(t, r->key, &before);
        if (outcome == OUT_TOUCHED) {
            observe_deadline(t, &before, r->key, "touch", deadline);
        }
    }
    return stop;
}

enum turn_stop exec_touch(struct turn *t, const struct request *r)
{
    msec_t deadline = turn_deadline(t, r->exptime);
    enum outcome outcome;

    return MF_UNLIKELY(t->observed != 0) ? touch_observed(t, r, deadline)
                                         : touch_and_answer(t, r, deadline, &outcome);
}
