/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests parsed before the first of them is executed, so that their cache misses overlap.
 * Parsing ahead only prefetches: each request still sees the effects of the previous one. For
 * conn_*.c only.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_BATCH_H
#define MAYFLY_DAEMON_CONN_CONN_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/command/turn.h"
#include "proto/bin_compose.h"
#include "proto/request.h"
#include "proto/text_parse.h"

struct conn;

struct step {
    struct request req;
    const char *end; /* its end in the input; not set if the last request is incomplete */
};

/*
 * Room for parsed requests, of one connection or of several. An incomplete request takes a step
 * too, so there is room for the key of each.
 */
struct steps {
    unsigned used;
    char *key_room; /* the free part of `keys` */
    struct step step[TURN_BATCH];
    char keys[TURN_BATCH * TEXT_KEY_ROOM]; /* keys decoded from base64 */
};

/* What was parsed of one connection's input. */
struct batch {
    struct step *step; /* [borrowed] n of them */
    unsigned n;
    /* the input after them, when status is not PARSE_OK */
    enum parse_status status;
    struct request *last; /* [borrowed] */
    size_t last_used;
    enum reply reply;
    enum bin_reply bin_reply; /* the same of the binary protocol */
};

static inline void steps_clear(struct steps *steps)
{
    steps->used = 0;
    steps->key_room = steps->keys;
}

static inline bool steps_are_full(const struct steps *steps)
{
    return steps->used == TURN_BATCH;
}

/*
 * Parse requests of c into the free steps until these are full, the input ends, or it has
 * something other than a complete request. The first byte of a connection decides its protocol
 * if that is PROTOCOL_AUTO. is_alone: no other input is parsed before these requests are
 * executed. Context: worker, in a turn.
 */
void batch_parse(const struct turn *t, struct conn *c, struct steps *steps, struct batch *b,
                 const char *p, size_t len, bool is_alone);

/*
 * Its client is guarded: determine its rights, and turn requests that are not allowed into
 * refusals (guard.h). Context: worker, in its turn, before they are executed.
 */
void batch_guard(struct turn *t, struct batch *b);

/*
 * Prefetch the items of all that was parsed; their buckets were prefetched while parsing.
 * Context: worker, in a turn.
 */
static inline void steps_prefetch(const struct turn *t, const struct steps *steps)
{
    must_be_in_turn(t);
    if (steps->used > 1) {
        engine_prefetch_items(t->route, &steps->step[0].req.hash, sizeof(steps->step[0]),
                              steps->used);
    }
}

#endif
