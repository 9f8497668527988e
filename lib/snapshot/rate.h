/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rate limit for writing.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_RATE_H
#define MAYFLY_LIB_SNAPSHOT_RATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

/* The part that was written at one rate. Zeroed: nothing was written. */
struct rate {
    uint64_t per_second; /* bytes; 0: no limit */
    usec_t since_us;     /* clock_mono_us() at its beginning */
    uint64_t from;       /* bytes that had been written then */
};

/*
 * `bytes` were written in all: rest as long as the rate asks for, in steps of 10 ms that
 * see a stop and another rate, which counts from then on. rate_max: bytes a second, 0: no
 * limit. Context: any thread, outside a section.
 */
void rate_keep(struct rate *r, uint64_t bytes, const _Atomic uint64_t *rate_max,
               const _Atomic bool *is_to_stop);

#endif
