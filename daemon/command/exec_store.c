/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set, add, replace, append, prepend, cas, ms, and those of the binary protocol: one way for
 * all, compiled for each protocol. Runs on the worker of the client, inside the read-side
 * section of the turn. The engine copies or takes the value; nothing here does.
 */
#include "daemon/command/exec.h"

#include "daemon/access/gate.h"
#include "daemon/command/observe.h"
#include "daemon/options/settings.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/counters.h"
#include "lib/store/body.h"
#include "lib/store/erase.h"
#include "proto/meta_compose.h"
#include "proto/meta_parse.h"

/* The storage commands as modes of the engine. */
static const uint8_t mode_of[CMD_COUNT] = {
    [CMD_SET] = STORE_SET,       [CMD_ADD] = STORE_ADD,         [CMD_REPLACE] = STORE_REPLACE,
    [CMD_APPEND] = STORE_APPEND, [CMD_PREPEND] = STORE_PREPEND, [CMD_CAS] = STORE_CAS,
};

static inline bool extends(const struct store *s)
{
    return s->mode == STORE_APPEND || s->mode == STORE_PREPEND;
}

/* ---- what is asked ----------------------------------------------------------------------- */

/* The flags that make an ms anything but a set without client flags and deadline. */
#define SHAPING                                                                                \
    (META_LETTER('C') | META_LETTER('E') | META_LETTER('F') | META_LETTER('I') |               \
     META_LETTER('M') | META_LETTER('N') | META_LETTER('T'))

/*
 * Mode, comparison and deadline of an ms. With a comparison, set and replace become a cas; add
 * ignores it, and append and prepend ignore C0.
 */
static MF_NOINLINE void prepare_meta(const struct turn *t, const struct request *r,
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
    s->cas_expected = turn_cas_expected(t, flags.cas);
    s->cas_new = flags.cas_new;
}

/*
 * A cas value in a request of the binary protocol is a condition. With one, set, add and
 * replace are all the same: they store when the item is there and has it.
 */
static inline void prepare_bin_cas(const struct turn *t, const struct request *r,
                                   struct store *s)
{
    if (r->cas != 0 && !t->hides_cas) {
        s->cas_expected = r->cas;
        s->compares_cas = extends(s);
        s->mode = extends(s) ? s->mode : STORE_CAS;
    }
}

/* Every field that the engine reads: an initializer would clear all of it first. */
static MF_INLINE void prepare(const struct turn *t, const struct request *r, struct body **body,
                              enum wire wire, struct store *s)
{
    s->mode = STORE_SET;
    s->hash = r->hash;
    s->key = r->key;
    s->flags = 0;
    s->deadline = MSEC_NEVER;
    s->cas_expected = 0;
    s->value = r->value;
    s->body = body;
    s->over = NULL;
    s->cas_new = 0;
    s->kept = NULL;
    s->may_wait = t->may_wait;
    s->waiter = t->waiter;
    s->compares_cas = false;
    s->takes_older = false;
    s->takes_due = false;
    s->vivifies = false;
    if (wire == WIRE_META) {
        if ((r->letters & SHAPING) != 0) {
            prepare_meta(t, r, s);
        }
        return;
    }
    s->mode = (enum store_mode)mode_of[r->command];
    s->flags = r->flags;
    s->deadline = r->exptime == 0 ? MSEC_NEVER : turn_store_deadline(t, r->hash, r->exptime);
    if (wire == WIRE_BIN) {
        prepare_bin_cas(t, r, s);
    } else if (MF_UNLIKELY(s->mode == STORE_CAS)) {
        s->cas_expected = turn_cas_expected(t, r->cas);
    }
}

/* ---- stores that fail -------------------------------------------------------------------- */

/*
 * Drop the old value of a set that failed: it must not be served as if the set had never
 * come.
 */
static void invalidate(struct turn *t, const struct request *r)
{
    if ((t->w->gate & GATE_STOPS) == 0) {
        engine_delete(t->e, engine_hash(t->e, r->key.ptr, r->key.len), r->key, 0, t->now);
    }
}

/* Count it, and drop the old value if it is out of date. */
static void count_failure(struct turn *t, const struct request *r, enum reply why,
                          bool is_outdated)
{
    struct counters *c = &t->w->counters;

    if (why == REPLY_BAD_CHUNK) {
        ctr_add(c, CTR_cmd_set, 1);
        return;
    }
    ctr_add(c, why == REPLY_TOO_LARGE ? CTR_store_too_large : CTR_store_no_memory, 1);
    if (is_outdated && why != REPLY_NO_MEMORY_READ) {
        invalidate(t, r);
    }
}

void exec_store_failed(struct turn *t, const struct request *r, enum reply why)
{
    struct observed_store seen = {
        .key = r->key,
        .mode = (enum store_mode)mode_of[r->command],
        .outcome = why == REPLY_TOO_LARGE ? OUT_TOO_LARGE : OUT_NO_MEMORY,
        .deadline = r->exptime == 0 ? MSEC_NEVER : turn_deadline(t, r->exptime),
    };

    must_be_in_turn(t);
    if (why != REPLY_TOO_LARGE && why != REPLY_NO_MEMORY_STORE && why != REPLY_NO_MEMORY_READ &&
        why != REPLY_BAD_CHUNK) {
        return; /* a line that is none */
    }
    count_failure(t, r, why, r->command == CMD_SET || r->command == CMD_MS);
    if (MF_UNLIKELY(t->observed != 0) && why != REPLY_BAD_CHUNK) {
        observe_store(t, NULL, &seen);
    }
}

void exec_store_refused(struct turn *t, const struct request *r, enum reply why)
{
    must_be_in_turn(t);
    exec_store_failed(t, r, why);
    if (request_is_binary(r)) {
        turn_bin_reply(t, r,
                       why == REPLY_NO_MEMORY_READ ? BIN_REPLY_NO_MEMORY_READ
                                                   : BIN_REPLY_NO_MEMORY_STORE,
                       0);
    } else {
        (void)turn_answer(t, r, why);
    }
}

/* ---- what becomes of it ------------------------------------------------------------------ */

/* Did it fail before its key was looked up? An append has found the item that it extends. */
static bool has_failed(const struct store *s, enum outcome outcome)
{
    return outcome == OUT_NO_MEMORY || (outcome == OUT_TOO_LARGE && !extends(s));
}

static void count_cas(struct counters *c, enum outcome outcome)
{
    if (outcome == OUT_STORED) {
        ctr_add(c, CTR_cas_hits, 1);
    } else if (outcome == OUT_EXISTS) {
        ctr_add(c, CTR_cas_badval, 1);
    } else if (outcome == OUT_NOT_FOUND) {
        ctr_add(c, CTR_cas_misses, 1);
    }
}

/* An append beyond the limit counts as a store; a value beyond it does not. */
static void account(struct turn *t, const struct request *r, const struct store *s,
                    enum outcome outcome)
{
    if (has_failed(s, outcome)) {
        count_failure(t, r, outcome == OUT_TOO_LARGE ? REPLY_TOO_LARGE : REPLY_NO_MEMORY_STORE,
                      r->cls == CLASS_META ? !extends(s) && s->mode != STORE_ADD
                                           : r->command == CMD_SET);
    } else {
        t->tally.stores++;
    }
    if (s->mode == STORE_CAS) {
        count_cas(&t->w->counters, outcome);
    }
}

static void observe(struct turn *t, const struct request *r, const struct before *before,
                    const struct store *s, enum outcome outcome)
{
    struct observed_store seen = {
        .key = r->key,
        .mode = s->mode,
        .outcome = outcome,
        .deadline = s->deadline,
        .size = r->value_len,
    };

    if (outcome == OUT_NO_MEMORY || outcome == OUT_TOO_LARGE) {
        seen.size = 0;
    } else if (outcome == OUT_STORED && extends(s)) {
        seen.size = s->value_len;
    }
    observe_store(t, has_failed(s, outcome) ? NULL : before, &seen);
}

/* Flags that the reply to an ms can return. */
#define MS_SHOWS (META_SHOWS_KEY | META_LETTER('c') | META_LETTER('s'))

/* Errors are answered in words, as those of the text protocol; q hides only success. */
static void answer_meta(struct turn *t, const struct request *r, const struct store *s,
                        enum outcome outcome)
{
    struct meta_facts facts = {.shows = MS_SHOWS, .size = r->value_len};
    enum meta_code code = META_NS;

    if (has_failed(s, outcome)) {
        turn_reply(t, outcome == OUT_TOO_LARGE ? REPLY_TOO_LARGE : REPLY_NO_MEMORY_STORE);
        return;
    }
    if (outcome == OUT_STORED) {
        facts.cas = turn_cas_shown(t, s->cas);
        facts.size = extends(s) && s->value_len != 0 ? s->value_len : r->value_len;
        code = META_HD;
    } else if (outcome == OUT_EXISTS || outcome == OUT_NOT_FOUND) {
        code = outcome == OUT_EXISTS ? META_EX : META_NF;
    }
    if (code != META_HD || !meta_has(r->letters, 'q')) {
        t->out.len += meta_compose(turn_room(t, META_LINE_MAX), code, r, &facts);
    }
}

static void answer(struct turn *t, const struct request *r, const struct store *s,
                   enum outcome outcome)
{
    switch (wire_of(r)) {
    case WIRE_TEXT:
        t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, outcome, 0);
        break;
    case WIRE_META:
        answer_meta(t, r, s, outcome);
        break;
    case WIRE_BIN:
        turn_bin_reply(t, r, bin_reply_of(r, outcome),
                       outcome == OUT_STORED ? turn_cas_shown(t, s->cas) : 0);
        break;
    }
}

static MF_NOINLINE void note_large(struct turn *t, size_t value_len)
{
    t->is_bulk = value_len > EXEC_BULK_BYTES;
    t->is_placeable = engine_may_place(t->e, value_len);
}

/* Count and answer the outcomes without a fast path. */
static MF_NOINLINE enum turn_stop end_store(struct turn *t, const struct request *r,
                                            const struct store *s, enum outcome outcome)
{
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    account(t, r, s, outcome);
    answer(t, r, s, outcome);
    return TURN_GOES_ON;
}

/* Store, answer and count; *outcome and s have the result. */
static MF_INLINE enum turn_stop store_and_answer(struct turn *t, const struct request *r,
                                                 struct body **body, enum wire wire,
                                                 struct store *s, enum outcome *outcome)
{
    prepare(t, r, body, wire, s);
    if (wire == WIRE_META && MF_UNLIKELY(s->mode == STORE_ADD) && t->client != NULL &&
        client_restores(t->client, t->w)) {
        *outcome = restore_store(t, s);
    } else {
        *outcome = engine_store(t->e, s, t->now);
    }
    MF_PROBE4(store_done, r->key.ptr, r->key.len, r->value_len, *outcome);
    /* The connection should expect more values like this one. */
    if (MF_UNLIKELY(r->value_len > EXEC_PLACE_BYTES) && *outcome != OUT_WAIT) {
        note_large(t, r->value_len);
    }
    if (MF_UNLIKELY(*outcome != OUT_STORED) || wire == WIRE_BIN ||
        (wire == WIRE_TEXT && MF_UNLIKELY(r->command == CMD_CAS)) ||
        (wire == WIRE_META &&
         (r->letters & (MS_SHOWS | META_LETTER('C') | META_LETTER('q'))) != 0)) {
        return end_store(t, r, s, *outcome);
    }
    t->tally.stores++;
    t->out.len += wire == WIRE_META ? meta_compose_done(turn_room(t, META_LINE_MAX))
                                    : text_compose_stored(turn_room(t, TEXT_REPLY_MAX), r);
    return TURN_GOES_ON;
}

/*
 * The same for any protocol, and while commands are observed. Not inlined: the usual way would
 * pay for its frame.
 */
static MF_NOINLINE enum turn_stop store_any(struct turn *t, const struct request *r,
                                            struct body **body)
{
    struct before before;
    struct store s;
    enum outcome outcome;

    if (t->observed != 0) {
        observe_before(t, r->hash, r->key, &before);
    }
    enum turn_stop stop = store_and_answer(t, r, body, wire_of(r), &s, &outcome);
    if (t->observed != 0 && stop == TURN_GOES_ON) {
        observe(t, r, &before, &s, outcome);
    }
    return stop;
}

/* ---- the commands ------------------------------------------------------------------------ */

static MF_INLINE enum turn_stop store(struct turn *t, const struct request *r, enum wire wire)
{
    struct store s;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        return store_any(t, r, NULL);
    }
    return store_and_answer(t, r, NULL, wire, &s, &outcome);
}

enum turn_stop exec_store(struct turn *t, const struct request *r)
{
    return store(t, r, WIRE_TEXT);
}

enum turn_stop exec_ms(struct turn *t, const struct request *r)
{
    return store(t, r, WIRE_META);
}

enum turn_stop exec_bin_store(struct turn *t, const struct request *r)
{
    return store(t, r, WIRE_BIN);
}

enum turn_stop exec_store_body(struct turn *t, const struct request *r, struct body **body)
{
    must_be_in_turn(t);
    MF_PROBE3(request_start, r->command, r->key.ptr, r->key.len);
    return store_any(t, r, body);
}

bool exec_place(struct turn *t, const struct request *r, struct body *b)
{
    struct store s;

    must_be_in_turn(t);
    prepare(t, r, NULL, wire_of(r), &s);
    /* If there is no room at once, it is better to wait for it with the value read. */
    s.may_wait = true;
    return body_place(b, &s, t->now);
}
