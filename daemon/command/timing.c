/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See timing.h. On the worker of the client.
 */
#include "daemon/command/timing.h"

#include <string.h>

#include "daemon/worker/crew.h"
#include "daemon/worker/insight.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

_Static_assert(SLOWLOG_PEER_BYTES >= CLIENT_PEER_MAX, "an entry has room for every address");

/* Does nothing more have to reach the client? */
static bool has_all(const struct client *c)
{
    return !client_has_output(c) && !client_is_waiting(c) && !client_dumps(c);
}

/* Record the requests in the slow log. c NULL: they came in a datagram. */
static MF_NOINLINE void log_slow(struct worker *w, struct client *c, const struct timed *x,
                                 uint64_t ns)
{
    struct slow_entry e = {
        .unix_ms = clock_unix_ms(&w->engine->clock),
        .us = ns / 1000,
        .reply_bytes = x->reply_bytes,
        .worker = w->id,
        .peer = "udp",
    };

    if (x->first_state == FIRST_NAMED) {
        e.first = x->first;
    }
    for (unsigned k = 0; k < KIND_COUNT; k++) {
        e.requests += x->n[k];
    }
    ctr_add(&w->counters, CTR_slow_requests, e.requests);
    if (c != NULL) {
        c->duties->put_peer(c, e.peer);
    }
    slowlog_add(&w->crew->slowlog, &e, setting_get(w->settings, slowlog_max));
}

/* Their replies are with the socket now; x->reply_bytes is how long these were. */
static void count(struct worker *w, struct client *c, const struct timed *x, uint64_t ns)
{
    if ((w->insight.on & INSIGHT_LATENCY) != 0) {
        for (unsigned k = 0; k < KIND_COUNT; k++) {
            if (x->n[k] > 0) {
                latency_add(w, (enum command_kind)k, ns, x->n[k]);
            }
        }
    }
    if ((w->insight.on & INSIGHT_SLOW) != 0 && MF_UNLIKELY(ns >= w->insight.slow_ns)) {
        log_slow(w, c, x, ns);
    }
}

static bool is_empty(const struct timed *x)
{
    uint32_t any = 0;

    for (unsigned k = 0; k < KIND_COUNT; k++) {
        any |= x->n[k];
    }
    return any == 0;
}

/* Start counting the next requests. */
static void begin_next(struct turn *t)
{
    memset(t->timed.n, 0, sizeof(t->timed.n));
    t->timed.reply_bytes = ctr_get(&t->w->counters, CTR_bytes_written);
    t->timed.first_state = (t->insight & INSIGHT_SLOW) != 0 ? FIRST_WANTED : FIRST_IGNORED;
}

void timing_name(struct turn *t, const struct request *r)
{
    struct slow_request *first = &t->timed.first;
    size_t kept = r->key.len < SLOWLOG_KEY_BYTES ? r->key.len : SLOWLOG_KEY_BYTES;

    must_be_worker(t->w);
    t->timed.first_state = FIRST_NAMED;
    first->command = r->command;
    first->key_bytes = (uint8_t)r->key.len;
    first->value_bytes = r->value_len;
    if (kept > 0) {
        memcpy(first->key, r->key.ptr, kept);
    }
}

/*
 * The key that a request has looked up; none if it was refused, or if its key is the word of a
 * command that is not about items. The keys of a get of several are sampled one by one.
 */
static struct span key_looked_up(const struct request *r)
{
    switch ((enum command_class)r->cls) {
    case CLASS_GET:
        return r->more.len > 0 || r->command == CMD_GAT || r->command == CMD_GATS
                   ? span_of(NULL, 0)
                   : r->key;
    case CLASS_BINARY:
        return r->command == CMD_NONE ? span_of(NULL, 0) : r->key; /* a mechanism of SASL */
    case CLASS_ADMIN:
    case CLASS_BINARY_ADMIN:
    case CLASS_REFUSED:
    case CLASS_BINARY_REFUSED:
        return span_of(NULL, 0);
    default:
        return r->key;
    }
}

void timing_sample(struct turn *t, const struct request *r)
{
    must_be_worker(t->w);
    insight_sample(t->w, r->hash, key_looked_up(r));
}

void timing_sample_keys(struct turn *t, const struct span *key, const uint64_t *hash,
                        unsigned n)
{
    struct insight *i = &t->w->insight;
    unsigned at = 0;

    must_be_worker(t->w);
    must(i->sample_left > 0); /* or the loop below would read in front of the keys */
    while (i->sample_left <= n - at) {
        at += i->sample_left;
        insight_sample(t->w, hash[at - 1], key[at - 1]);
    }
    i->sample_left -= n - at;
}

/*
 * Keep the measurements with the client, because some replies were not sent yet. Without memory
 * for that the requests are not counted.
 */
static void keep(struct turn *t)
{
    struct client *c = t->client;

    if (c->timed == NULL) {
        c->timed = mem_zalloc(sizeof(*c->timed));
        if (c->timed == NULL) {
            return;
        }
        c->timed->since_ns = t->timed.since_ns;
        c->timed->first_state = t->timed.first_state;
        if (t->timed.first_state == FIRST_NAMED) {
            c->timed->first = t->timed.first;
        }
    }
    c->timed->reply_bytes += ctr_get(&t->w->counters, CTR_bytes_written) - t->timed.reply_bytes;
    for (unsigned k = 0; k < KIND_COUNT; k++) {
        c->timed->n[k] += t->timed.n[k];
    }
}

void timing_begin(struct turn *t)
{
    struct client *c = t->client;

    must_be_worker(t->w);
    begin_next(t);
    if (c == NULL) {
        t->timed.since_ns = insight_readable_ns(t->w);
        return;
    }
    t->timed.since_ns = c->since_ns != 0 ? c->since_ns : insight_readable_ns(t->w);
    if (MF_UNLIKELY(c->timed != NULL) && has_all(c)) {
        /* Measurements were off when it was answered. */
        mem_free(c->timed);
        c->timed = NULL;
    }
}

void timing_sent(struct turn *t)
{
    struct client *c = t->client;

    must_be_worker(t->w);
    if (is_empty(&t->timed)) {
        return;
    }
    if (MF_UNLIKELY(t->is_broken)) {
        /* They have no replies. */
    } else if (MF_LIKELY(c == NULL || !client_has_output(c))) {
        t->timed.reply_bytes =
            ctr_get(&t->w->counters, CTR_bytes_written) - t->timed.reply_bytes;
        count(t->w, c, &t->timed, clock_mono_ns() - t->timed.since_ns);
    } else {
        keep(t);
    }
    begin_next(t);
}

void timing_late(struct turn *t, const struct request *r)
{
    must_be_worker(t->w);
    turn_flush(t); /* those before it have their replies */
    if (!t->is_broken) {
        timing_count(t, r);
        keep(t);
    }
    begin_next(t);
}

void timing_end(struct turn *t, bool is_kept, bool is_halfway)
{
    struct client *c = t->client;

    must_be_worker(t->w);
    if (is_kept) {
        c->since_ns = t->timed.since_ns;
    } else if (!is_halfway) {
        c->since_ns = 0;
    }
    if (MF_UNLIKELY(c->timed != NULL)) {
        timing_client_sent(c, t->w, 0);
    }
}

void timing_defer(struct client *c, struct worker *w)
{
    must_be_worker(w);
    if ((w->insight.on & INSIGHT_TIMES) != 0 && c->since_ns == 0) {
        c->since_ns = insight_readable_ns(w);
    }
}

void timing_client_sent(struct client *c, struct worker *w, uint64_t bytes)
{
    must_be_worker(w);
    c->timed->reply_bytes += bytes;
    if (!has_all(c)) {
        return;
    }
    if ((w->insight.on & INSIGHT_TIMES) != 0) {
        count(w, c, c->timed, clock_mono_ns() - c->timed->since_ns);
    }
    mem_free(c->timed);
    c->timed = NULL;
}
