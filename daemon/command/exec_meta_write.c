/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meta commands that write: ms, md, ma. Runs on the worker of the client, inside the
 * read-side section of the turn.
 *
 * Errors are answered in words, as those of the classic commands; q hides only success.
 */
#include "daemon/command/exec_store.h"

#include <string.h>

#include "daemon/command/observe.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/probes.h"
#include "proto/meta_compose.h"
#include "proto/meta_parse.h"

static enum turn_stop answer_code(struct turn *t, const struct request *r, enum meta_code code,
                                  const struct meta_facts *facts)
{
    if (code != META_HD || !meta_has(r->letters, 'q')) {
        t->out.len += meta_compose(turn_room(t, META_LINE_MAX), code, r, facts);
    }
    return TURN_GOES_ON;
}

static enum turn_stop answer_error(struct turn *t, enum reply why)
{
    turn_reply(t, why);
    return TURN_GOES_ON;
}

/* Under -C there are no cas values, and no value that is given matches. */
static uint64_t cas_expected(const struct turn *t, const struct meta_flags *flags)
{
    return turn_cas_expected(t, flags->cas);
}

/* ---- ms ---------------------------------------------------------------------------------- */

/* The flags that make a store anything but a set without client flags and deadline. */
#define SHAPING                                                                                \
    (META_LETTER('C') | META_LETTER('E') | META_LETTER('F') | META_LETTER('I') |               \
     META_LETTER('M') | META_LETTER('N') | META_LETTER('T'))

/* What the reply to a store can show. */
#define MS_SHOWS (META_SHOWS_KEY | META_LETTER('c') | META_LETTER('s'))

/*
 * Mode, comparison and deadline. With a comparison, set and replace become a cas; add ignores
 * it, and append and prepend ignore C0.
 */
static MF_NOINLINE void shape_store(const struct turn *t, const struct request *r,
                                    struct store *s)
{
    struct meta_flags flags;

    (void)meta_read_flags(r->args, true, &flags);
    s->deadline = exec_meta_deadline(t, &flags);

    bool compares = meta_has(flags.letters, 'C');

    switch (flags.mode) {
    case 'E':
        s->mode = STORE_ADD;
        break;
    case 'A':
    case 'P':
        s->mode = flags.mode == 'A' ? STORE_APPEND : STORE_PREPEND;
        s->compares_cas = compares && flags.cas != 0;
        s->vivifies = meta_has(flags.letters, 'N');
        s->deadline = turn_deadline(t, flags.vivify);
        break;
    default:
        s->mode = flags.mode == 'R' ? STORE_REPLACE : STORE_SET;
        if (compares) {
            s->mode = STORE_CAS;
            s->takes_older = meta_has(flags.letters, 'I');
        }
        break;
    }
    s->deadline = turn_jitter(
        t, r->hash, s->deadline,
        meta_has(flags.letters, 'j') ? flags.jitter : setting_get(t->w->settings, ttl_jitter));
    s->flags = flags.client;
    s->cas_expected = cas_expected(t, &flags);
    s->cas_new = flags.cas_new;
}

static inline void prepare_store(const struct turn *t, const struct request *r,
                                 struct body **body, struct store *s)
{
    exec_store_fill(t, r, body, s);
    if ((r->letters & SHAPING) != 0) {
        shape_store(t, r, s);
    }
}

void exec_meta_prepare_set(const struct turn *t, const struct request *r, struct store *s)
{
    must_be_reading();
    prepare_store(t, r, NULL, s);
}

/* The store ended in a way that has no code. */
static enum turn_stop meta_store_failed(struct turn *t, const struct request *r,
                                        const struct store *s, enum reply why)
{
    if (s->mode == STORE_SET || s->mode == STORE_REPLACE || s->mode == STORE_CAS) {
        exec_store_failed(t, r, why);
    } else {
        /* The old value was to be kept or extended: it is not out of date. */
        ctr_add(&t->w->counters, CTR_store_no_memory, 1);
    }
    return answer_error(t, why);
}

static enum meta_code code_of_store(enum outcome outcome)
{
    switch (outcome) {
    case OUT_STORED:
        return META_HD;
    case OUT_EXISTS:
        return META_EX;
    case OUT_NOT_FOUND:
        return META_NF;
    default:
        return META_NS;
    }
}

/* Count and answer everything but a success that is answered by its code alone. */
static MF_NOINLINE enum turn_stop end_store(struct turn *t, const struct request *r,
                                            const struct store *s, enum outcome outcome)
{
    struct meta_facts facts = {.shows = MS_SHOWS};

    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (outcome == OUT_NO_MEMORY) {
        return meta_store_failed(t, r, s, REPLY_NO_MEMORY_STORE);
    }
    if (outcome == OUT_TOO_LARGE && !exec_store_extends(s)) {
        return meta_store_failed(t, r, s, REPLY_TOO_LARGE);
    }
    if (outcome == OUT_TOO_LARGE) {
        ctr_add(&t->w->counters, CTR_store_too_large, 1);
    } else {
        t->tally.stores++;
    }
    if (s->mode == STORE_CAS) {
        exec_count_cas(&t->w->counters, outcome);
    }
    facts.size = r->value_len;
    if (outcome == OUT_STORED) {
        facts.cas = turn_cas_shown(t, s->cas);
        facts.size = s->value_len;
    }
    return answer_code(t, r, code_of_store(outcome), &facts);
}

/* Store, answer and count; *outcome and s have the result. */
static MF_INLINE enum turn_stop store_and_answer(struct turn *t, const struct request *r,
                                                 struct body **body, struct store *s,
                                                 enum outcome *outcome)
{
    prepare_store(t, r, body, s);
    *outcome = MF_UNLIKELY(s->mode == STORE_ADD) && t->client != NULL &&
                       client_restores(t->client, t->w)
                   ? restore_store(t, s)
                   : engine_store(t->e, s, t->now);
    MF_PROBE4(store_done, r->key.ptr, r->key.len, r->value_len, *outcome);
    if (*outcome != OUT_WAIT) {
        exec_store_note(t, r->value_len);
    }
    if (MF_UNLIKELY(*outcome != OUT_STORED ||
                    (r->letters & (MS_SHOWS | META_LETTER('C') | META_LETTER('q'))) != 0)) {
        return end_store(t, r, s, *outcome);
    }
    t->tally.stores++;
    t->out.len += meta_compose_done(turn_room(t, META_LINE_MAX));
    return TURN_GOES_ON;
}

/* The same while commands are observed. */
static MF_NOINLINE enum turn_stop store_observed(struct turn *t, const struct request *r,
                                                 struct body **body)
{
    struct before before;
    struct store s;
    enum outcome outcome;
    enum turn_stop stop;
    bool has_failed;

    observe_before(t, r->hash, r->key, &before);
    stop = store_and_answer(t, r, body, &s, &outcome);
    has_failed = outcome == OUT_NO_MEMORY || outcome == OUT_TOO_LARGE;
    /* exec_store_failed() has observed the others. */
    if (stop == TURN_GOES_ON &&
        (!has_failed || exec_store_extends(&s) || s.mode == STORE_ADD)) {
        exec_store_observe(t, r, &before, &s, outcome);
    }
    return stop;
}

enum turn_stop store_meta(struct turn *t, const struct request *r, struct body **body)
{
    struct store s;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        return store_observed(t, r, body);
    }
    return store_and_answer(t, r, body, &s, &outcome);
}

enum turn_stop exec_ms(struct turn *t, const struct request *r)
{
    return store_meta(t, r, NULL);
}
