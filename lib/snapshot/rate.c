/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing no faster than somebody allows: see rate.h.
 */
#include "lib/snapshot/rate.h"

#include <time.h>

#include "lib/base/context.h"

void keep_rate(const _Atomic uint64_t *rate_max, const _Atomic bool *is_to_stop,
               usec_t began_us, uint64_t bytes)
{
    const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};
    uint64_t rate = atomic_load_explicit(rate_max, memory_order_relaxed);

    must_not_be_reading();
    while (rate != 0 && !atomic_load_explicit(is_to_stop, memory_order_relaxed)) {
        uint64_t us = (uint64_t)(clock_mono_us() - began_us);

        if (bytes <= (uint64_t)((double)us * (double)rate / 1e6)) {
            return;
        }
        nanosleep(&step, NULL);
        rate = atomic_load_explicit(rate_max, memory_order_relaxed);
    }
}
