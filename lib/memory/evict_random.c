/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allkeys-random and volatile-random of Redis: any item goes.
 */
#include "lib/memory/evict.h"

const struct evict_policy evict_allkeys_random = {
    .name = "allkeys-random", .way = EVICT_ITEMS, .source = SOURCE_ALL};

const struct evict_policy evict_volatile_random = {
    .name = "volatile-random", .way = EVICT_ITEMS, .source = SOURCE_VOLATILE};
