/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * noeviction: nothing alive is dropped. A store that finds no room is refused.
 */
#include "lib/memory/evict.h"

const struct evict_policy evict_none = {.name = "noeviction", .way = EVICT_NOTHING};
