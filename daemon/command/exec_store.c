/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set, add, replace, append, prepend, cas. Runs on the worker of the client, inside the
 * read-side section of the turn. The engine copies or takes the value; nothing here does.
 */
#include "daemon/command/exec_store.h"

#include "daemon/command/observe.h"
#include "daemon/worker/gate.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/probes.h"
#include "lib/engine/body.h"
#include "lib/engine/erase.h"
#include "proto/text_compose.h"

/* The storage commands as modes of the engine. */
static const uint8_t mode_of[CMD_COUNT] = {
    [CMD_SET] = STORE_SET,       [CMD_ADD] = STORE_ADD,         [CMD_REPLACE] = STORE_REPLACE,
    [CMD_APPEND] = STORE_APPEND, [CMD_PREPEND] = STORE_PREPEND, [CMD_CAS] = STORE_CAS,
};

void exec_count_cas(struct counters *c, enum outcome outcome)
{
    must_be_a_worker();
    if (outcome == OUT_STORED) {
        ctr_add(c, CTR_cas_hits, 1);
    } else if (outcome == OUT_EXISTS) {
        ctr_add(c, CTR_cas_badval, 1);
    } else if (outcome == OUT_NOT_FOUND) {
        ctr_add(c, CTR_cas_misses, 1);
    }
}

/*
 * Drop the old value of a set that failed: it must not be served as if the set had never
 * come.
 */
static void invalidate(struct turn *t, const struct request *r)
{
    if ((t->w->gate & GATE_STOPS) != 0) {
        return;
    }
    if (r->command == CMD_SET || r->command == CMD_MS) {
        engine_delete(t->e, engine_hash(t->e, r->key.ptr, r->key.len), r->key, 0, t->now);
    }
}

static void observe_failure(struct turn *t, const struct request *r, enum reply why)
{
    struct observed_store seen = {
        .key = r->key,
        .mode = (enum store_mode)mode_of[r->command],
        .outcome = why == REPLY_TOO_LARGE ? OUT_TOO_LARGE : OUT_NO_MEMORY,
        .deadline = r->exptime == 0 ? MSEC_NEVER : turn_deadline(t, r->exptime),
    };

    if (why == REPLY_TOO_LARGE || why == REPLY_NO_MEMORY_STORE || why == REPLY_NO_MEMORY_READ) {
        observe_store(t, NULL, &seen);
    }
}

void exec_store_failed(struct turn *t, const struct request *r, enum reply why)
{
    struct counters *c = &t->w->counters;

    must_be_in_turn(t);
    if (why == REPLY_TOO_LARGE) {
        ctr_add(c, CTR_store_too_large, 1);
        invalidate(t, r);
    } else if (why == REPLY_NO_MEMORY_STORE) {
        ctr_add(c, CTR_store_no_memory, 1);
        invalidate(t, r);
    } else if (why == REPLY_NO_MEMORY_READ) {
        ctr_add(c, CTR_store_no_memory, 1);
    } else if (why == REPLY_BAD_CHUNK) {
        ctr_add(c, CTR_cmd_set, 1);
    }
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_failure(t, r, why);
    }
}

/* Everything that is not OUT_STORED. */
static enum turn_stop answer_not_stored(struct turn *t, const struct request *r,
                                        enum outcome outcome)
{
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    if (outcome == OUT_TOO_LARGE) {
        exec_store_failed(t, r, REPLY_TOO_LARGE);
    } else if (outcome == OUT_NO_MEMORY) {
        exec_store_failed(t, r, REPLY_NO_MEMORY_STORE);
    } else {
        t->tally.stores++;
    }
    t->out.len += text_compose(turn_room(t, TEXT_REPLY_MAX), r, outcome, 0);
    return TURN_GOES_ON;
}

static inline void prepare(const struct turn *t, const struct request *r, struct body **body,
                           struct store *s)
{
    exec_store_fill(t, r, body, s);
    s->mode = (enum store_mode)mode_of[r->command];
    s->flags = r->flags;
    s->deadline = r->exptime == 0 ? MSEC_NEVER : turn_store_deadline(t, r->hash, r->exptime);
    if (MF_UNLIKELY(s->mode == STORE_CAS)) {
        s->cas_expected = turn_cas_expected(t, r->cas);
    }
}

void exec_store_prepare(const struct turn *t, const struct request *r, struct store *s)
{
    must_be_reading();
    prepare(t, r, NULL, s);
}

MF_NOINLINE void exec_store_note_large(struct turn *t, size_t value_len)
{
    must_be_in_turn(t);
    t->is_bulk = value_len > EXEC_BULK_BYTES;
    t->is_placeable = engine_may_place(t->e, value_len);
}

void exec_store_observe(struct turn *t, const struct request *r, const struct before *before,
                        const struct store *s, enum outcome outcome)
{
    bool has_failed = outcome == OUT_NO_MEMORY || outcome == OUT_TOO_LARGE;
    struct observed_store seen = {
        .key = r->key,
        .mode = s->mode,
        .outcome = outcome,
        .deadline = s->deadline,
        .size = r->value_len,
    };

    must_be_in_turn(t);
    if (has_failed) {
        seen.size = 0;
    } else if (outcome == OUT_STORED && exec_store_extends(s)) {
        seen.size = s->value_len;
    }
    observe_store(t, before, &seen);
}

/* Store, answer and count; *outcome and s have the result. */
static MF_INLINE enum turn_stop store_and_answer(struct turn *t, const struct request *r,
                                                 struct body **body, struct store *s,
                                                 enum outcome *outcome)
{
    enum turn_stop stop = TURN_GOES_ON;

    prepare(t, r, body, s);
    *outcome = engine_store(t->e, s, t->now);
    MF_PROBE4(store_done, r->key.ptr, r->key.len, r->value_len, *outcome);
    if (MF_LIKELY(*outcome == OUT_STORED)) {
        t->tally.stores++;
        t->out.len += text_compose_stored(turn_room(t, TEXT_REPLY_MAX), r);
    } else {
        stop = answer_not_stored(t, r, *outcome);
        if (stop != TURN_GOES_ON) {
            return stop;
        }
    }
    if (MF_UNLIKELY(r->command == CMD_CAS)) {
        exec_count_cas(&t->w->counters, *outcome);
    }
    exec_store_note(t, r->value_len);
    return TURN_GOES_ON;
}

/* The same while commands are observed. Not inlined: the usual way would pay for its frame. */
static MF_NOINLINE enum turn_stop store_observed(struct turn *t, const struct request *r,
                                                 struct body **body)
{
    struct before before;
    struct store s;
    enum outcome outcome;
    enum turn_stop stop;

    observe_before(t, r->hash, r->key, &before);
    stop = store_and_answer(t, r, body, &s, &outcome);
    if (stop == TURN_GOES_ON && outcome != OUT_TOO_LARGE && outcome != OUT_NO_MEMORY) {
        exec_store_observe(t, r, &before, &s, outcome);
    }
    return stop;
}

enum turn_stop store_text(struct turn *t, const struct request *r, struct body **body)
{
    struct store s;
    enum outcome outcome;

    if (MF_UNLIKELY(t->observed != 0)) {
        return store_observed(t, r, body);
    }
    return store_and_answer(t, r, body, &s, &outcome);
}

enum turn_stop exec_store(struct turn *t, const struct request *r)
{
    return store_text(t, r, NULL);
}

enum turn_stop exec_store_body(struct turn *t, const struct request *r, struct body **body)
{
    must_be_in_turn(t);
    MF_PROBE3(request_start, r->command, r->key.ptr, r->key.len);
    switch (r->cls) {
    case CLASS_BINARY:
        return store_bin(t, r, body);
    case CLASS_META:
        return store_meta(t, r, body);
    default:
        must(r->cls == CLASS_STORE);
        return store_text(t, r, body);
    }
}

bool exec_place(struct turn *t, const struct request *r, struct body *b)
{
    struct store s;

    must_be_worker(t->w);
    must_be_reading();
    switch (r->cls) {
    case CLASS_BINARY:
        exec_bin_prepare_store(t, r, &s);
        break;
    case CLASS_META:
        exec_meta_prepare_set(t, r, &s);
        break;
    default:
        must(r->cls == CLASS_STORE);
        exec_store_prepare(t, r, &s);
        break;
    }
    /* If there is no room at once, it is better to wait for it with the value read. */
    s.may_wait = true;
    return body_place(b, &s, t->now);
}
