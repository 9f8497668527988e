/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction policy: see evict.h.
 */
#include "lib/memory/evict.h"

/*
 * One pass over main keeps at most this share of what it scanned. Without a cap, a cache in
 * which everything is hot makes one put copy megabytes before it finds a victim.
 */
#define KEEP_PCT   80
#define KEEP_FIRST 16384 /* bytes that are kept before the share counts */

static bool is_young(const struct evict_pass *pass, const struct item *it)
{
    return atomic_load_explicit(&it->access_s, memory_order_relaxed) > pass->sealed_s;
}

enum verdict evict_judge(const struct evict_pass *pass, const struct item *it)
{
    uint8_t heat = atomic_load_explicit(&it->heat, memory_order_relaxed) & HEAT_COUNT;

    if (pass->chain == CHAIN_SMALL) {
        if (heat > 0) {
            return VERDICT_PROMOTE;
        }
        return is_young(pass, it) ? VERDICT_YOUNG : VERDICT_EVICT;
    }
    if (heat > 0) {
        bool fits = (pass->kept + item_bytes(it)) * 100 <=
                    pass->scanned * KEEP_PCT + (uint64_t)KEEP_FIRST * 100;

        return fits ? VERDICT_KEEP : VERDICT_EVICT;
    }
    return is_young(pass, it) ? VERDICT_YOUNG : VERDICT_EVICT;
}
