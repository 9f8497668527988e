/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allkeys-lru and volatile-lru of Redis: of those drawn, the one goes that was used least
 * lately, to the second, as in Redis.
 */
#include "lib/memory/evict.h"

static uint64_t idle_s(const struct item *it, msec_t now, const struct engine_options *options)
{
    (void)options;
    return item_idle_s(it, (uint32_t)(now / 1000));
}

const struct evict_policy evict_allkeys_lru = {
    .name = "allkeys-lru", .way = EVICT_ITEMS, .source = SOURCE_ALL, .score = idle_s};

const struct evict_policy evict_volatile_lru = {
    .name = "volatile-lru", .way = EVICT_ITEMS, .source = SOURCE_VOLATILE, .score = idle_s};
