/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * volatile-ttl of Redis: the item with the earliest deadline goes. The timing wheel knows the
 * first bucket; all of its items are compared, or some of them in turn if they are many.
 */
#include "lib/memory/evict.h"

static uint64_t soonness(const struct item *it, msec_t now,
                         const struct engine_options *options)
{
    (void)now;
    (void)options;
    return UINT64_MAX - (uint64_t)item_deadline(it);
}

const struct evict_policy evict_volatile_ttl = {
    .name = "volatile-ttl", .way = EVICT_ITEMS, .source = SOURCE_SOONEST, .score = soonness};
