/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libuv keeps for the loop of a worker that is not used for long.
 *
 * A loop has a pointer for each number of a descriptor, in an array that grows with the highest
 * number. What a worker's part of the allocator has of it cannot be given back while the worker
 * is parked. So the array is made by main, and only its pages are given back.
 */
#ifndef MAYFLY_DAEMON_BASE_LOOP_H
#define MAYFLY_DAEMON_BASE_LOOP_H

#include <uv.h>

/*
 * Make the array for descriptors up to this number. Without memory for that the loop makes it
 * when it is needed. Context: the loop does not run.
 */
void loop_provide(uv_loop_t *loop, unsigned descriptors);

/* Give back what of the array is not in use. Context: the loop's thread. */
void loop_rest(uv_loop_t *loop);

#endif
