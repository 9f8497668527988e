/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and values of the stress tests. Every value carries the number of its key, its length,
 * its version, its deadline and a checksum, so any reader notices a torn value, another key's
 * value and an old one, without asking the writer.
 */
#ifndef MAYFLY_TESTS_STRESS_CONTENT_H
#define MAYFLY_TESTS_STRESS_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "tests/common/rng.h"

/* The operations on a key, and the form of its value. */
enum kind {
    KIND_VALUE,         /* stamped; every storage command, delete, deadlines */
    KIND_STAY,          /* stamped; overwritten, never deleted, no deadline: never a miss */
    KIND_TOUCH,         /* stamped without a deadline, which touch changes */
    KIND_LARGE,         /* as KIND_VALUE, larger than a block */
    KIND_CHURN,         /* as KIND_VALUE, many and small: makes the index grow and shrink */
    KIND_NUMBER,        /* decimal; incr and decr */
    KIND_LOG,           /* records; append and prepend */
    KIND_SHARED_NUMBER, /* decimal; every thread adds */
    KIND_SHARED_LOG,    /* records; every thread appends */
    KIND_SHARED_VALUE,  /* stamped; every thread replaces it by cas */
    KIND_COUNT
};

static inline bool kind_is_stamped(enum kind kind)
{
    return kind <= KIND_CHURN || kind == KIND_SHARED_VALUE;
}

/* A key: its kind, the worker that owns it (OWNER_ALL: none), its number among those. */
#define OWNER_ALL 0xffu
#define KEY_ID(kind, owner, index)                                                             \
    ((uint32_t)(kind) << 24 | (uint32_t)(owner) << 16 | (uint32_t)(index))
#define KEY_KIND(id)  ((enum kind)((id) >> 24))
#define KEY_OWNER(id) ((id) >> 16 & 0xffu)
#define KEY_INDEX(id) ((id)&0xffffu)

/* Longest key, and a buffer for one. */
#define KEY_BYTES 256

/* Fill in the name of a key (1 to 250 bytes, some of them long); returns its length. */
size_t content_key(uint32_t id, char out[KEY_BYTES]);

/* The client flags that belong to a version of a key. */
static inline uint32_t content_flags(uint32_t id, uint64_t version)
{
    return (uint32_t)(version * 2654435761u) ^ id;
}

/* ---- stamped values ---------------------------------------------------------------------- */

struct stamp {
    uint32_t magic;
    uint32_t id;
    uint32_t len; /* of the whole value, stamp included */
    uint32_t pad;
    uint64_t version;
    msec_t deadline; /* MSEC_NEVER: the value makes no promise */
    uint64_t sum;    /* over everything else */
};

#define STAMP_BYTES sizeof(struct stamp)

/* Fill len bytes (at least STAMP_BYTES). */
void content_stamp(char *out, size_t len, uint32_t id, uint64_t version, msec_t deadline);

/* Is this a whole value of that key? Fills the stamp; if false, `why` says what is wrong. */
bool content_check_stamp(const char *value, size_t len, uint32_t id, struct stamp *stamp,
                         char *why, size_t why_size);

/* ---- records ----------------------------------------------------------------------------- */

struct record {
    uint32_t id;
    uint32_t lap; /* how often the log was started over; shared log: the writer */
    int32_t seq;  /* grows by one from record to record (shared: of one writer) */
    uint32_t sum;
};

#define RECORD_BYTES sizeof(struct record)

void content_record(struct record *out, uint32_t id, uint32_t lap, int32_t seq);

/* A log of one owner: one lap, seq without a gap. Fills lap and the first and last seq. */
bool content_check_log(const char *value, size_t len, uint32_t id, uint32_t *lap,
                       int32_t *first, int32_t *last, char *why, size_t why_size);

/*
 * A shared log: of each writer every record once, in order. Fills next[writer] with the
 * number of records of each of the `writers`.
 */
bool content_check_shared_log(const char *value, size_t len, uint32_t id, uint32_t writers,
                              int32_t *next, char *why, size_t why_size);

/* ---- numbers ----------------------------------------------------------------------------- */

/* Decimal digits, then spaces (decr does not shorten). False: something else. */
bool content_check_number(const char *value, size_t len, uint64_t *number);

#endif
