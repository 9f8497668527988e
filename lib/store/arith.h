/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr and decr. In the struct, every member before "out" is set by the caller; zero is a valid
 * default.
 */
#ifndef MAYFLY_LIB_STORE_ARITH_H
#define MAYFLY_LIB_STORE_ARITH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/num.h"
#include "lib/base/span.h"

struct engine;

struct arith {
    uint64_t hash;
    struct span key;
    uint64_t delta;
    bool is_decr;
    bool compares_cas; /* EXISTS when the item's cas is not cas_expected */
    bool vivifies;     /* an absent key becomes an item with the value `initial`: is_created */
    bool touches;      /* an existing item gets `deadline`; in the past: it is removed */
    bool may_wait;
    uint64_t cas_expected;
    uint64_t initial;
    uint64_t cas_new; /* 0: drawn */
    msec_t vivify_deadline;
    msec_t deadline; /* with touches */
    /* out, with NUMBER */
    bool is_created;
    uint8_t digit_count;
    char digits[NUM_DIGITS_MAX]; /* number in decimal, for the reply */
    uint64_t number;
    uint64_t cas;
    msec_t deadline_now;    /* of the item */
    msec_t deadline_before; /* with touches: of an item that was there */
};

/* NUMBER NOT_FOUND NON_NUMERIC EXISTS NO_MEMORY WAIT. Context: read side, no shard held. */
enum outcome engine_arith(struct engine *e, struct arith *a, msec_t now);

#endif
