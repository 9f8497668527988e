/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of all counters, and sums over the words of several writers.
 */
#include "lib/base/counters.h"

#define IN_STATS    CTR_IN_STATS
#define IN_EXPIRY   CTR_IN_EXPIRY
#define IN_RELEASE  CTR_IN_RELEASE
#define IN_GRACE    CTR_IN_GRACE
#define IN_MEMORY   CTR_IN_MEMORY
#define IN_WORKER   CTR_IN_WORKER
#define IN_LOAD     CTR_IN_LOAD
#define IF_IDLE     CTR_IF_IDLE
#define IF_UDP      CTR_IF_UDP
#define IF_TLS      CTR_IF_TLS
#define IF_SESSIONS CTR_IF_SESSIONS
#define IF_AUTH     CTR_IF_AUTH
#define ELSEWHERE   0

const struct counter_row counter_rows[CTR_COUNT] = {
#define CTR(kind_, writer_, name_, line_, shown_, meaning_)                                    \
    [CTR_##name_] = {                                                                          \
        .name = #name_,                                                                        \
        .line = line_,                                                                         \
        .meaning = meaning_,                                                                   \
        .kind = CTR_KIND_##kind_,                                                              \
        .writer = CTR_WRITER_##writer_,                                                        \
        .shown = shown_,                                                                       \
    },
#include "lib/base/counters.def"
#undef CTR
};

void counters_sum(uint64_t sum[CTR_COUNT], const struct counters *one)
{
    for (unsigned i = 0; i < CTR_COUNT; i++) {
        sum[i] += ctr_get(one, (enum counter)i);
    }
}

void counters_derive(uint64_t sum[CTR_COUNT])
{
    static const enum counter others[] = {
        CTR_curr_items, CTR_expired_lazy,    CTR_expired_active, CTR_expired_reclaim,
        CTR_evictions,  CTR_expired_at_once, CTR_deleted_items,  CTR_flushed_items,
    };
    uint64_t stored = sum[CTR_total_items];

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        uint64_t n = sum[others[i]];

        stored -= n < stored ? n : stored; /* the words go on while they are read */
    }
    sum[CTR_overwritten_items] = stored;
    sum[CTR_total_items] -= sum[CTR_arith_in_place];
}
