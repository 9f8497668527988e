/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allkeys-lfu and volatile-lfu of Redis: of those drawn, the one goes whose counter is the
 * lowest, less what has decayed since its last use. Of equal ones the one that was used least
 * lately. heat.h says how readers count.
 */
#include "lib/memory/evict.h"

#include "lib/memory/heat.h"

static uint64_t rareness(const struct item *it, msec_t now,
                         const struct engine_options *options)
{
    uint8_t heat = atomic_load_explicit(&it->heat, memory_order_relaxed);
    uint32_t now_s = (uint32_t)(now / 1000);
    unsigned freq = heat_decayed(heat_freq(heat), item_access_s(it, now_s), now_s,
                                 engine_option(options, lfu_decay_time));

    return (uint64_t)(FREQ_MAX - freq) << 32 | item_idle_s(it, now_s);
}

const struct evict_policy evict_allkeys_lfu = {
    .name = "allkeys-lfu", .way = EVICT_ITEMS, .source = SOURCE_ALL, .score = rareness};

const struct evict_policy evict_volatile_lfu = {
    .name = "volatile-lfu", .way = EVICT_ITEMS, .source = SOURCE_VOLATILE, .score = rareness};
