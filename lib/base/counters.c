/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of all counters, and sums over the sets of several writers.
 */
#include "lib/base/counters.h"

#define NO  false
#define YES true

const struct counter_row counter_rows[CTR_COUNT] = {
#define CTR(kind_, name_, set_, stat_, metric_, reset_, help_)                                 \
    [CTR_##name_] = {                                                                          \
        .name = #name_,                                                                        \
        .stat = stat_,                                                                         \
        .metric = metric_,                                                                     \
        .help = help_,                                                                         \
        .kind = CTR_KIND_##kind_,                                                              \
        .set = CTR_SET_##set_,                                                                 \
        .is_reset = reset_,                                                                    \
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
