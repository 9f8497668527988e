/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sampling of accesses for hot keys; see insight.h. The distance to the next sample is drawn at
 * random each time, so that periodic requests do not bias the sample.
 */
#include "daemon/worker/insight.h"

#include "lib/base/mem.h"
#include "lib/base/num.h"

/* From 1 to twice the mean less 1, each as likely as another. */
static uint32_t distance(struct insight *i)
{
    if (i->sampling == 0) {
        return UINT32_MAX;
    }
    return 1 +
           (uint32_t)((num_random(&i->random) >> 32) * (2 * (uint64_t)i->sampling - 1) >> 32);
}

void insight_begin_sampling(struct worker *w, uint32_t sampling)
{
    must_be_worker(w);
    w->insight.sampling = sampling;
    w->insight.sample_left = distance(&w->insight);
}

void insight_sample(struct worker *w, uint64_t hash, struct span key)
{
    struct insight *i = &w->insight;

    must_be_worker(w);
    i->sample_left = distance(i);
    if (i->sampling == 0 || key.len == 0) {
        return;
    }
    if (i->hotkeys == NULL) {
        i->hotkeys = mem_alloc(sizeof(*i->hotkeys));
        if (i->hotkeys == NULL) {
            return;
        }
        hotkeys_init(i->hotkeys, w->now);
    }
    hotkeys_add(i->hotkeys, w->now, hash, key, i->sampling);
}
