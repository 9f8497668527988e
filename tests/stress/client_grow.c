/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress client as the owner of values that change step by step: numbers by incr and decr,
 * logs by append and prepend.
 */
#include "tests/stress/client.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/rcu.h"
#include "lib/store/arith.h"

#define LOG_RECORDS_MAX 600

/* ---- numbers ----------------------------------------------------------------------------- */

static void put_number(struct worker *w, const struct name *n, struct own *o)
{
    char text[24];
    uint64_t number = rng_next(&w->rng) >> rng_below(&w->rng, 64), cas = 0;
    int len = snprintf(text, sizeof(text), "%" PRIu64, number);

    own_store_begins(w, n->id, o);
    enum outcome out =
        client_store(w, n, STORE_SET, text, (size_t)len, n->id, MSEC_NEVER, 0, &cas);
    if (out == OUT_NO_MEMORY) {
        o->is_unsure = o->is_present;
        client_remove(w, n, o);
        return;
    }
    o->version = number;
    o->deadline = MSEC_NEVER;
    own_store_ended(w, n->id, o, cas, false);
}

static void count_number(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    struct arith a = {.hash = n->hash,
                      .key = span_of(n->text, n->len),
                      .delta = rng_next(&w->rng) >> rng_below(&w->rng, 64),
                      .is_decr = rng_below(&w->rng, 2) != 0,
                      .vivifies = rng_below(&w->rng, 2) != 0,
                      .initial = rng_next(&w->rng) >> rng_below(&w->rng, 64),
                      .vivify_deadline = MSEC_NEVER,
                      .may_wait = true};
    uint64_t want =
        a.is_decr ? (a.delta > o->version ? 0 : o->version - a.delta) : o->version + a.delta;
    struct before b;
    struct own made = *o;
    unsigned tries = 0;
    enum outcome out;

    own_store_begins(w, n->id, &made);
    do {
        b = own_look_before(w, n->id, o);
        rcu_begin();
        out = engine_arith(e, &a, b.now);
        rcu_end();
    } while (client_again(w, out, &a.may_wait, &tries));
    w->tally.ariths++;
    if (client_had_no_room(w, n->id, out, OUT_NUMBER, "incr")) {
        return;
    }
    own_judge(w, n->id, o, &b, out == OUT_NUMBER && !a.is_created, "incr");
    if (out == OUT_NUMBER && a.is_created) {
        if (a.number != a.initial) {
            stress_fail(w->world, n->id, "made of %" PRIu64 ": %" PRIu64, a.initial, a.number);
        }
        made.version = a.initial;
        made.deadline = MSEC_NEVER;
        *o = made;
        own_store_ended(w, n->id, o, a.cas, false);
    } else if (out == OUT_NUMBER) {
        if (a.number != want) {
            stress_fail(w->world, n->id, "%s of %" PRIu64 " by %" PRIu64 " gives %" PRIu64,
                        a.is_decr ? "decr" : "incr", o->version, a.delta, a.number);
        }
        o->version = want;
        own_new_cas(w, n->id, o, a.cas, true);
    }
}

void client_number_turn(struct worker *w, const struct name *n, struct own *o)
{
    uint64_t dice = rng_below(&w->rng, 100);

    if (dice < 70) {
        count_number(w, n, o);
    } else if (dice < 85) {
        client_look(w, n, o);
    } else if (dice < 97) {
        put_number(w, n, o);
    } else {
        client_remove(w, n, o);
    }
}

/* ---- logs -------------------------------------------------------------------------------- */

static void begin_log(struct worker *w, const struct name *n, struct own *o)
{
    struct record r;
    uint64_t cas = 0;

    content_record(&r, n->id, o->lap + 1, 0);
    own_store_begins(w, n->id, o);
    enum outcome out =
        client_store(w, n, STORE_SET, (const char *)&r, sizeof(r), n->id, MSEC_NEVER, 0, &cas);
    if (out == OUT_NO_MEMORY) {
        o->is_unsure = o->is_present;
        client_remove(w, n, o);
        return;
    }
    o->lap++;
    o->first = o->last = 0;
    o->deadline = MSEC_NEVER;
    own_store_ended(w, n->id, o, cas, false);
}

static void grow_log(struct worker *w, const struct name *n, struct own *o)
{
    bool is_append = rng_below(&w->rng, 2) != 0;
    int32_t seq = is_append ? o->last + 1 : o->first - 1;
    struct before b = own_look_before(w, n->id, o);
    struct record r;
    uint64_t cas = 0;

    content_record(&r, n->id, o->lap, seq);
    enum outcome out = client_store(w, n, is_append ? STORE_APPEND : STORE_PREPEND,
                                    (const char *)&r, sizeof(r), 0, MSEC_NEVER, 0, &cas);
    if (out == OUT_NO_MEMORY) {
        o->is_unsure = o->is_present;
        client_remove(w, n, o);
        return;
    }
    if (out != OUT_STORED && out != OUT_NOT_STORED) {
        stress_fail(w->world, n->id, "append says %s", outcome_name(out));
    }
    own_judge(w, n->id, o, &b, out == OUT_STORED, "append");
    if (out == OUT_STORED) {
        o->last += is_append;
        o->first -= !is_append;
        own_new_cas(w, n->id, o, cas, true);
    }
}

static void look_log(struct worker *w, const struct name *n, struct own *o)
{
    struct engine *e = &w->world->engine;
    struct before b = own_look_before(w, n->id, o);
    int32_t first = 0, last = 0;
    uint32_t lap = 0;
    char why[128];
    size_t len;

    rcu_begin();
    struct found f = engine_find(router_read(&e->router), n->hash, n->text, n->len, b.now);
    if (f.item != NULL) {
        const char *value = client_value(w, &f, &len);

        if (!content_check_log(value, len, n->id, &lap, &first, &last, why, sizeof(why))) {
            stress_fail(w->world, n->id, "%s", why);
        }
        if (lap != o->lap || first != o->first || last != o->last) {
            stress_fail(w->world, n->id, "lap %u, records %d to %d; written: lap %u, %d to %d",
                        lap, first, last, o->lap, o->first, o->last);
        }
    }
    rcu_end();
    own_judge(w, n->id, o, &b, f.item != NULL, "get");
}

void client_log_turn(struct worker *w, const struct name *n, struct own *o)
{
    uint64_t dice = rng_below(&w->rng, 100);

    if (!o->is_present || o->last - o->first >= LOG_RECORDS_MAX || dice < 2) {
        begin_log(w, n, o);
    } else if (dice < 80) {
        grow_log(w, n, o);
    } else if (dice < 98) {
        look_log(w, n, o);
    } else {
        client_remove(w, n, o);
    }
}
