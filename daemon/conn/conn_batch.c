/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From bytes to batches; see conn_execute.h. Runs in a turn.
 */
#include "daemon/conn/conn_execute.h"

#include "daemon/command/guard.h"
#include "daemon/conn/conn_state.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "proto/bin_parse.h"

typedef enum parse_status (*parse_fn)(const struct text_limits *limits, struct batch *b,
                                      const char *p, size_t len, struct request *r,
                                      size_t *used);

static inline enum parse_status parse_text(const struct text_limits *limits, struct batch *b,
                                           const char *p, size_t len, struct request *r,
                                           size_t *used)
{
    return text_parse(p, len, limits, r, used, &b->reply);
}

static inline enum parse_status parse_binary(const struct text_limits *limits, struct batch *b,
                                             const char *p, size_t len, struct request *r,
                                             size_t *used)
{
    struct bin_limits bin_limits = {.value_max = limits->value_max};

    return bin_parse(p, len, &bin_limits, r, used, &b->bin_reply);
}

/* batch_parse(), compiled once for each protocol. */
static MF_INLINE void parse_all(const struct turn *t, const struct conn *c, struct steps *steps,
                                struct batch *b, const char *p, size_t len, bool is_alone,
                                parse_fn parse)
{
    const char *end = p + len;
    struct step *first = steps->step + steps->used;
    struct step *s = first;
    const struct text_limits limits = {
        .value_max = t->e->item_bytes_max,
        .key_room = &steps->key_room,
        .has_extensions = c->client.has_extensions,
    };

    b->status = PARSE_OK;
    while (p < end && s < steps->step + TURN_BATCH) {
        struct request *r = &s->req;
        size_t used;
        enum parse_status status = parse(&limits, b, p, (size_t)(end - p), r, &used);

        if (MF_UNLIKELY(status != PARSE_OK)) {
            b->status = status;
            b->last = r;
            b->last_used = used;
            r->hash = 0; /* steps_prefetch() takes all steps */
            steps->used++;
            break;
        }
        p += used;
        s->end = p;
        r->hash = engine_hash(t->e, r->key.ptr, r->key.len);
        if (!is_alone || p < end || s > first) {
            engine_prefetch_bucket(t->route, r->hash); /* too late for a single request */
        }
        s++;
    }
    b->step = first;
    b->n = (unsigned)(s - first);
    steps->used += b->n;
}

static MF_NOINLINE void parse_all_text(const struct turn *t, const struct conn *c,
                                       struct steps *steps, struct batch *b, const char *p,
                                       size_t len, bool is_alone)
{
    parse_all(t, c, steps, b, p, len, is_alone, parse_text);
}

static MF_NOINLINE void parse_all_binary(const struct turn *t, const struct conn *c,
                                         struct steps *steps, struct batch *b, const char *p,
                                         size_t len, bool is_alone)
{
    parse_all(t, c, steps, b, p, len, is_alone, parse_binary);
}

void batch_parse(const struct turn *t, struct conn *c, struct steps *steps, struct batch *b,
                 const char *p, size_t len, bool is_alone)
{
    must_be_in_turn(t);
    if (MF_UNLIKELY(c->protocol == PROTOCOL_AUTO)) {
        c->protocol = (unsigned char)*p == BIN_REQUEST ? PROTOCOL_BINARY : PROTOCOL_ASCII;
    }
    if (c->protocol == PROTOCOL_BINARY) {
        parse_all_binary(t, c, steps, b, p, len, is_alone);
    } else {
        parse_all_text(t, c, steps, b, p, len, is_alone);
    }
}

/* ---- rights ------------------------------------------------------------------------------ */

/* Is the last request allowed, which the parser rejected or whose value is incomplete? */
static enum reply ask_last(const struct turn *t, const struct batch *b)
{
    const struct request *r = b->last;

    if (b->status == PARSE_BODY) {
        return guard_ask(t, r, true);
    }
    /* Of the rejected requests only a failed store has an effect: it drops the old item. */
    return b->status == PARSE_REPLY ? guard_ask(t, r, r->invalidate) : REPLY_NONE;
}

static void guard_last(struct turn *t, struct batch *b)
{
    enum reply why = ask_last(t, b);
    struct request *r = b->last;

    /* During a failover a change waits before it is stored; its value is still read. */
    if (why == REPLY_NONE || why == REPLY_FAILOVER) {
        return;
    }
    if (guard_closes(why)) {
        b->status = PARSE_CLOSE;
        b->reply = why == REPLY_ELSEWHERE ? REPLY_NONE : why;
        b->bin_reply = why == REPLY_ELSEWHERE ? BIN_REPLY_OK : guard_count(t, why);
        return;
    }
    if (b->status == PARSE_BODY) {
        r->value_len += request_value_end(r); /* to be swallowed */
    }
    b->status = PARSE_REPLY;
    b->reply = why;
    b->bin_reply = guard_count(t, why);
    r->invalidate = false;
}

void batch_guard(struct turn *t, struct batch *b)
{
    must_be_in_turn(t);
    if (t->client->is_guarded) {
        guard_settle(t);
    }
    if (!guard_is_needed(t)) {
        return;
    }
    for (unsigned i = 0; i < b->n; i++) {
        guard_request(t, &b->step[i].req);
    }
    guard_last(t, b);
}
