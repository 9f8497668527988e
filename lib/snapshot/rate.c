/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing no faster than somebody allows: see save.h.
 */
#include "lib/snapshot/save.h"

#include <time.h>

#include "lib/base/context.h"

void rate_keep(struct rate *r, uint64_t bytes, const _Atomic uint64_t *rate_max,
               const _Atomic bool *is_to_stop)
{
    const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};

    must_not_be_reading();
    for (;;) {
        const uint64_t rate = atomic_load_explicit(rate_max, memory_order_relaxed);

        if (rate != r->per_second) {
            *r = (struct rate){.per_second = rate, .since_us = clock_mono_us(), .from = bytes};
        }
        if (rate == 0 || atomic_load_explicit(is_to_stop, memory_order_relaxed) ||
            (double)(bytes - r->from) <=
                (double)(clock_mono_us() - r->since_us) * (double)rate / 1e6) {
            return;
        }
        nanosleep(&step, NULL);
    }
}
