/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduces the memory that libuv keeps for the loop of a worker that is rarely used.
 *
 * A loop has an array of pointers, indexed by descriptor, which grows with the highest number.
 * Memory from a worker's own heap cannot be released while the worker is parked. So main
 * allocates the array, and a parked worker releases only its pages.
 */
#ifndef MAYFLY_DAEMON_BASE_LOOP_H
#define MAYFLY_DAEMON_BASE_LOOP_H

#include <uv.h>

/*
 * Make the array for descriptors up to this number. Without memory for that the loop makes it
 * when it is needed. Context: the loop does not run.
 */
void loop_provide(uv_loop_t *loop, unsigned descriptors);

/* Release the unused pages of the array. Context: the loop's thread. */
void loop_rest(uv_loop_t *loop);

#endif
