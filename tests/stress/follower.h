/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A replica for stress tests: a map that follows the engine by the replication stream, whatever
 * the workers do.
 */
#ifndef MAYFLY_TESTS_STRESS_FOLLOWER_H
#define MAYFLY_TESTS_STRESS_FOLLOWER_H

#include <stdint.h>

struct follower;
struct world;

/* Begin to follow. Context: main, registered, while nobody else works. */
struct follower *follower_start(struct world *world);

/*
 * Wait until all has come, and compare. A dropped one is set up again, and compared the
 * next time. Context: main, while nobody else works.
 */
void follower_audit(struct follower *f);

/* Takes the address and nulls it; accepts NULL. Prints what came. */
void follower_stop(struct follower **f);

#endif
