/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sink for stress tests: a map that a feed keeps equal to the engine, whatever the workers
 * do.
 */
#ifndef MAYFLY_TESTS_STRESS_MIRROR_H
#define MAYFLY_TESTS_STRESS_MIRROR_H

#include <stdint.h>

#include "lib/base/clock.h"

struct mirror;
struct world;

/* Attach one. Context: main, registered. */
struct mirror *mirror_start(struct world *world);

/* Wait until all has come. Context: main, while nobody else works. */
void mirror_wait(struct mirror *m);

/*
 * Compare with a walk over the engine as of now: the same keys with the same values, flags,
 * cas, deadlines and marks. Context: main, while nobody else works, after mirror_wait().
 */
void mirror_audit(struct mirror *m, msec_t now);

/* Detach; takes the address and nulls it; accepts NULL. Prints what was shipped. */
void mirror_stop(struct mirror **m);

#endif
