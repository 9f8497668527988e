/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr, decr, ma, and incr and decr of the binary protocol: one way for all, compiled for each
 * protocol. Runs on the worker of the client, inside the read-side section of the turn.
 */
#include "daemon/command/exec.h"

#include <string.h>

#include "daemon/command/observe.h"
#include "daemon/worker/worker.h"
#include "lib/base/counters.h"
#include "lib/store/arith.h"
#include "proto/meta_compose.h"
#include "proto/meta_parse.h"

/* An incr of the binary protocol with this exptime does not create the number. */
#define EXPTIME_NO_CREATE UINT32_MAX

/* ---- what is asked ----------------------------------------------------------------------- */

static void prepare_meta(const struct turn *t, const struct meta_flags *flags, struct arith *a)
{
    a->delta = flags->delta;
    a->is_decr = flags->mode == 'D' || flags->mode == '-';
    a->compares_cas = meta_has(flags->letters, 'C') && flags->cas != 0;
    a->cas_expected = turn_cas_expected(t, flags->cas);
    a->vivifies = meta_has(flags->letters, 'N');
    a->initial = flags->initial;
    a->touches = meta_has(flags->letters, 'T');
    a->deadline = exec_meta_deadline(t, flags);
    a->vivify_deadline = flags->makes_by_touch ? a->deadline : turn_deadline(t, flags->vivify);
    a->cas_new = flags->cas_new;
}

static void prepare_bin(const struct turn *t, const struct request *r, struct arith *a)
{
    a->compares_cas = r->cas != 0;
    a->cas_expected = turn_cas_expected(t, r->cas);
    a->vivifies = r->exptime != EXPTIME_NO_CREATE;
    a->initial = r->number.initial;
    a->vivify_deadline = a->vivifies ? turn_deadline(t, r->exptime) : MSEC_NEVER;
}

/* Every field that the engine reads: an initializer would clear all of it first. */
static MF_INLINE void prepare(const struct turn *t, const struct request *r, enum wire wire,
                              const struct meta_flags *flags, struct arith *a)
{
    a->hash = r->hash;
    a->key = r->key;
    a->may_wait = t->may_wait;
    a->cas_new = 0;
    a->touches = false;
    if (wire == WIRE_META) {
        prepare_meta(t, flags, a);
        return;
    }
    a->delta = r->number.delta;
    a->is_decr = r->command == CMD_DECR;
    a->compares_cas = false;
    a->vivifies = false;
    if (wire == WIRE_BIN) {
        prepare_bin(t, r, a);
    }
}

/* ---- what is answered -------------------------------------------------------------------- */

static MF_NOINLINE void observe(struct turn *t, const struct request *r, const struct arith *a,
                                struct before *before, enum outcome outcome)
{
    if (outcome == OUT_WAIT) {
        return;
    }
    observe_fetch(t, r->key, before);
    if (outcome == OUT_NUMBER && a->is_created) {
        observe_made(t, r->key, a->deadline_now, a->digit_count);
    } else if (outcome == OUT_NUMBER && a->touches) {
        before->deadline = a->deadline_before;
        observe_deadline(t, before, r->key, "ma", a->deadline);
    }
}

/* Anything but OUT_NUMBER. */
static MF_NOINLINE enum turn_stop failed(struct turn *t, const struct request *r,
                                         const struct arith *a, enum outcome outcome)
{
    struct counters *c = &t->w->counters;

    if (outcome == OUT_NOT_FOUND) {
        ctr_add(c, a->is_decr ? CTR_decr_misses : CTR_incr_misses, 1);
    } else if (outcome == OUT_NO_MEMORY) {
        ctr_add(c, CTR_store_no_memory, 1);
    }
    return exec_answer(t, r, outcome);
}

static enum turn_stop answer_meta(struct turn *t, const struct request *r,
                                  const struct meta_flags *flags, const struct arith *a)
{
    struct meta_facts facts = {
        .shows = META_SHOWS_KEY | META_LETTER('c') | META_LETTER('t') | META_LETTER('p'),
        .size = a->digit_count,
        .cas = turn_cas_shown(t, a->cas),
        .is_made = a->is_created,
    };

    if (meta_has(flags->letters, 'q')) {
        return TURN_GOES_ON;
    }
    if (a->is_created) {
        facts.left_before_ms = -1;
        facts.left_made_ms = turn_ms_left(t, turn_deadline(t, flags->vivify));
        facts.left_ms = turn_ms_left(t, a->deadline);
    } else {
        facts.left_ms = turn_ms_left(t, a->deadline_now);
        facts.left_before_ms = a->touches ? turn_ms_left(t, a->deadline_before) : facts.left_ms;
    }
    char *p = turn_room(t, META_LINE_MAX + sizeof(a->digits) + 2);
    if (!meta_has(flags->letters, 'v')) {
        t->out.len += meta_compose(p, META_HD, r, &facts);
        return TURN_GOES_ON;
    }
    p += meta_compose(p, META_VA, r, &facts);
    memcpy(p, a->digits, a->digit_count);
    memcpy(p + a->digit_count, "\r\n", 2);
    t->out.len = (size_t)(p + a->digit_count + 2 - t->out.base);
    return TURN_GOES_ON;
}

/* ---- the commands ------------------------------------------------------------------------ */

/*
 * A number that is created counts as neither hit nor miss, as in memcached. It needs memory
 * like a new item, so it can fail with an out-of-memory error.
 */
static MF_INLINE enum turn_stop arith(struct turn *t, const struct request *r, enum wire wire)
{
    struct before before;
    struct meta_flags flags;
    struct arith a;

    if (wire == WIRE_META) {
        (void)meta_read_flags(r->args, true, &flags);
    }
    prepare(t, r, wire, &flags, &a);
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, r->hash, r->key, &before);
    }
    enum outcome outcome = engine_arith(t->e, &a, t->now);
    MF_PROBE3(arith_done, r->key.ptr, r->key.len, outcome);
    if (MF_UNLIKELY(t->observed != 0)) {
        observe(t, r, &a, &before, outcome);
    }
    if (MF_UNLIKELY(outcome != OUT_NUMBER)) {
        return failed(t, r, &a, outcome);
    }
    if (wire == WIRE_TEXT || !a.is_created) {
        ctr_add(&t->w->counters, a.is_decr ? CTR_decr_hits : CTR_incr_hits, 1);
    }
    if (wire == WIRE_META) {
        return answer_meta(t, r, &flags, &a);
    }
    if (wire == WIRE_TEXT) {
        t->out.len +=
            text_compose_digits(turn_room(t, TEXT_REPLY_MAX), r, a.digits, a.digit_count);
    } else if (!r->noreply) {
        t->out.len += bin_compose_number(turn_room(t, BIN_REPLY_MAX), r, a.number,
                                         turn_cas_shown(t, a.cas));
    }
    return TURN_GOES_ON;
}

enum turn_stop exec_arith(struct turn *t, const struct request *r)
{
    return arith(t, r, WIRE_TEXT);
}

enum turn_stop exec_ma(struct turn *t, const struct request *r)
{
    return arith(t, r, WIRE_META);
}

enum turn_stop exec_bin_arith(struct turn *t, const struct request *r)
{
    return arith(t, r, WIRE_BIN);
}
