/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the binary protocol that write: set, add, replace, append, prepend, incr, decr,
 * delete, each with its quiet form. Runs on the worker of the client, inside the read-side
 * section of the turn.
 *
 * A cas value in a request is a condition. With one, set, add and replace are all the same:
 * they store when the item is there and has it.
 */
#include "daemon/command/exec_store.h"

#include "daemon/command/observe.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/probes.h"

static enum store_mode mode_of(const struct request *r, bool compares_cas)
{
    switch ((enum command)r->command) {
    case CMD_APPEND:
        return STORE_APPEND;
    case CMD_PREPEND:
        return STORE_PREPEND;
    case CMD_ADD:
        return compares_cas ? STORE_CAS : STORE_ADD;
    case CMD_REPLACE:
        return compares_cas ? STORE_CAS : STORE_REPLACE;
    default:
        return compares_cas ? STORE_CAS : STORE_SET;
    }
}

/* An append beyond the limit counts as a store; a value beyond it does not. */
static void count_store(struct turn *t, const struct request *r, const struct store *s,
                        enum outcome outcome)
{
    if (outcome == OUT_TOO_LARGE && !exec_store_extends(s)) {
        exec_store_failed(t, r, REPLY_TOO_LARGE);
    } else if (outcome == OUT_NO_MEMORY) {
        exec_store_failed(t, r, REPLY_NO_MEMORY_STORE);
    } else {
        t->tally.stores++;
    }
}

static inline void prepare_store(const struct turn *t, const struct request *r,
                                 struct body **body, struct store *s)
{
    bool compares_cas = r->cas != 0 && !t->hides_cas;

    exec_store_fill(t, r, body, s);
    s->mode = mode_of(r, compares_cas);
    s->flags = r->flags;
    s->deadline = r->exptime == 0 ? MSEC_NEVER : turn_store_deadline(t, r->hash, r->exptime);
    s->cas_expected = r->cas;
    s->compares_cas = compares_cas && exec_store_extends(s);
}

void exec_bin_prepare_store(const struct turn *t, const struct request *r, struct store *s)
{
    must_be_reading();
    prepare_store(t, r, NULL, s);
}

enum turn_stop store_bin(struct turn *t, const struct request *r, struct body **body)
{
    struct before before;
    struct store s;
    enum outcome outcome;

    prepare_store(t, r, body, &s);
    if (MF_UNLIKELY(t->observed != 0)) {
        observe_before(t, r->hash, r->key, &before);
    }
    outcome = engine_store(t->e, &s, t->now);
    MF_PROBE4(store_done, r->key.ptr, r->key.len, r->value_len, outcome);
    if (outcome == OUT_WAIT) {
        return TURN_WAITS;
    }
    count_store(t, r, &s, outcome);
    turn_bin_reply(t, r, bin_reply_of(r, outcome),
                   outcome == OUT_STORED ? turn_cas_shown(t, s.cas) : 0);
    if (s.mode == STORE_CAS) {
        exec_count_cas(&t->w->counters, outcome);
    }
    /* exec_store_failed() has observed the others. */
    if (MF_UNLIKELY(t->observed != 0) && outcome != OUT_NO_MEMORY &&
        (outcome != OUT_TOO_LARGE || exec_store_extends(&s))) {
        exec_store_observe(t, r, &before, &s, outcome);
    }
    exec_store_note(t, r->value_len);
    return TURN_GOES_ON;
}

enum turn_stop exec_bin_store(struct turn *t, const struct request *r)
{
    return store_bin(t, r, NULL);
}

void exec_bin_refused(struct turn *t, const struct request *r, enum bin_reply why)
{
    must_be_in_turn(t);
    if (why == BIN_REPLY_TOO_LARGE) {
        exec_store_failed(t, r, REPLY_TOO_LARGE);
    } else if (why == BIN_REPLY_NO_MEMORY_STORE) {
        exec_store_failed(t, r, REPLY_NO_MEMORY_STORE);
    } else if (why == BIN_REPLY_NO_MEMORY_READ) {
        exec_store_failed(t, r, REPLY_NO_MEMORY_READ);
    }
    turn_bin_reply(t, r, why, 0);
}
