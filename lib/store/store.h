/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/store: the operations on items that commands call.
 *
 *     find         lookups without a lock
 *     visit        one entry of a writer into the shard of a key
 *     store        the six modes of storing: concat does append and prepend (extend and join,
 *                  where the value is large, with splice), store_value the other modes,
 *                  store_large values that fit no block, with body (a value being received) and
 *                  loose (its blocks under construction)
 *     remake       a new block for an unchanged item
 *     arith, erase, fetch, touch    the other writes
 *
 * Reads run under a read-side section and take no lock. Writes run in place under the shard's
 * lock; the functions here enter and leave it. Calls go one way: store, concat, extend,
 * store_value, store_large, body, loose, store_common, visit. The folder is above lib/engine.
 *
 * Storing: set, add, replace, cas, append, prepend. concat.c does append and prepend,
 * store_value.c the others; both go on to store_large.c if the value does not fit one block.
 */
#ifndef MAYFLY_LIB_STORE_STORE_H
#define MAYFLY_LIB_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/span.h"

enum store_mode { STORE_SET, STORE_ADD, STORE_REPLACE, STORE_CAS, STORE_APPEND, STORE_PREPEND };

struct body;
struct engine;
struct store_over;
struct waiter;

/* Properties that an item keeps from elsewhere, for example from a snapshot. */
struct store_kept {
    uint16_t marks;  /* SHAPE_STALE, SHAPE_WON */
    bool yields_use; /* if an item is replaced, keep its heat and last access instead */
    uint8_t heat;
    uint32_t access_s;
};

struct store {
    enum store_mode mode;
    uint64_t hash;
    struct span key;
    uint32_t flags;
    msec_t deadline;       /* MSEC_NEVER: none; at or before now: see takes_due */
    uint64_t cas_expected; /* STORE_CAS, or with compares_cas */
    struct span value;     /* the bytes, of any length, when body is NULL */
    /* a full body: taken (and nulled) when stored or refused, kept on OUT_WAIT */
    struct body **body;
    const struct store_over *over; /* used by the engine only (store_common.h); else NULL */
    uint64_t cas_new;              /* cas of the new item; 0: drawn */
    const struct store_kept *kept; /* with cas_new; NULL: nothing [borrowed] */
    bool may_wait;                 /* false: OUT_NO_MEMORY instead of OUT_WAIT */
    /* append, prepend: the caller's waiter in the line for segments; NULL: none */
    struct waiter *waiter;
    /*
     * append, prepend: an existing item must have cas_expected, otherwise EXISTS. (In the other
     * modes, a set or replace that compares is STORE_CAS, and an add never compares.)
     */
    bool compares_cas;
    /*
     * STORE_CAS: a cas_expected that is not 0 and less than the item's cas stores all the same.
     * The new item is stale, keeps the deadline, and is won if the old one was.
     */
    bool takes_older;
    bool vivifies;  /* append, prepend of an absent key: stored as by an add */
    bool takes_due; /* set: an item whose deadline has passed is stored too, and is then due */
    /* out, with STORED */
    uint64_t cas;
    uint32_t value_len; /* of the whole value, after append and prepend too */
};

/*
 * STORED NOT_STORED EXISTS NOT_FOUND TOO_LARGE NO_MEMORY WAIT. Context: read side, no shard
 * held.
 */
enum outcome engine_store(struct engine *e, struct store *s, msec_t now);

#endif
