/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr, decr, delete, touch: what changes one item and answers in a word. Runs on the worker of
 * the connection, inside the read-side section of the turn.
 */
#include "daemon/exec.h"

#include "daemon/observe.h"
#include "daemon/worker.h"
#include "lib/counters.h"
#include "proto/text.h"

static enum turn_stop answer(struct turn *t, const struct request *r, enum outcome outcome)
{
    t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, outcome, 0);
    return TURN_GOES_ON;
}

static inline __attribute__((always_inline)) enum turn_stop arith(struct turn *t,
                                                                  const struct request *r)
{
    struct counters *c = &t->w->counters;
    struct arith a = {
        .hash = r->hash,
        .key = r->key,
        .delta = r->cas,
        .is_decr = r->command == CMD_DECR,
        .may_wait = t->may_wait,
    };
    enum outcome outcome = engine_arith(t->e, &a, t->now);

    if (MF_LIKELY(outcome == OUT_NUMBER)) {
        ctr_add(c, a.is_decr ? CTR_decr_hits : CTR_incr_hits, 1);
        t->out.len +=
            text_compose_digits(turn_room(t, TEXT_REPLY_MAX), r, a.digits, a.digit_count);
        return TURN_GOES_ON;
    }
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (outcome == OUT_NOT_FOUND) {
        ctr_add(c, a.is_decr ? CTR_decr_misses : CTR_incr_misses, 1);
    } else if (outcome == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
    }
    return answer(t, r, outcome);
}

/* The same while somebody looks on. */
static enum turn_stop arith_observed(struct turn *t, const struct request *r)
{
    struct before before;
    enum turn_stop stop;

    observe_before(t, r->hash, r->key, &before);
    stop = arith(t, r);
    if (stop == TURN_GOES_ON) {
        observe_fetch(t, r->key, &before);
    }
    return stop;
}

enum turn_stop exec_arith(struct turn *t, const struct request *r)
{
    return MF_UNLIKELY(t->observed != 0) ? arith_observed(t, r) : arith(t, r);
}

enum turn_stop exec_delete(struct turn *t, const struct request *r)
{
    struct before before;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, r->hash, r->key, &before);
    }
    outcome = engine_delete(t->e, r->hash, r->key, 0, t->now);

    ctr_add(&t->w->counters, outcome == OUT_DELETED ? CTR_delete_hits : CTR_delete_misses, 1);
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_delete(t, &before, r->key, "delete", outcome == OUT_DELETED);
    }
    return answer(t, r, outcome);
}

enum turn_stop exec_touch(struct turn *t, const struct request *r)
{
    struct counters *c = &t->w->counters;
    struct before before;
    struct found f;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, r->hash, r->key, &before);
    }
    outcome = engine_touch(t->e, r->hash, r->key, exec_deadline(t->w, r->exptime, t->now),
                           t->now, t->may_wait, &f);

    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_fetch(t, r->key, &before);
    }
    ctr_add(c, CTR_cmd_touch, 1);
    if (outcome == OUT_TOUCHED) {
        item_mark_used(f.item, t->now_s);
        ctr_add(c, CTR_touch_hits, 1);
    } else if (outcome == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
    } else {
        ctr_add(c, CTR_touch_misses, 1);
    }
    return answer(t, r, outcome);
}
