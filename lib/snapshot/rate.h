/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing no faster than somebody allows.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_RATE_H
#define MAYFLY_LIB_SNAPSHOT_RATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

/*
 * So many bytes were written since began_us (clock_mono_us()): rest as long as the rate asks
 * for, in steps of 10 ms that see a stop. rate_max: bytes a second, 0: no limit. Context: any
 * thread, outside a section.
 */
void keep_rate(const _Atomic uint64_t *rate_max, const _Atomic bool *is_to_stop,
               usec_t began_us, uint64_t bytes);

#endif
