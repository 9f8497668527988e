/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers that may be stopped without having been started, and a reduction of the memory that
 * libuv keeps for the loop of a parked worker.
 *
 * A loop has an array of pointers, indexed by descriptor, which grows with the highest number.
 * Memory from a worker's own heap cannot be released while the worker is parked. So main
 * allocates the array, and a parked worker releases only its pages.
 */
#ifndef MAYFLY_DAEMON_BASE_LOOP_H
#define MAYFLY_DAEMON_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/*
 * Allocate the array for descriptors up to this number. Without memory the loop allocates it
 * later, when it needs it. Context: the loop does not run.
 */
void loop_provide(uv_loop_t *loop, unsigned descriptors);

/* Release the unused pages of the array. Context: the loop's thread. */
void loop_rest(uv_loop_t *loop);

/*
 * Begin a timer that calls `fn` after first_ms and then every period_ms. Its data is `data`,
 * which is not NULL. Zeroed storage is a timer that is off. Context: the loop's thread.
 */
void loop_timer_begin(uv_timer_t *timer, uv_loop_t *loop, void *data, uv_timer_cb fn,
                      uint64_t first_ms, uint64_t period_ms);

/* End the timer, if it is on; then the loop runs once more. Context: the loop's thread. */
void loop_timer_end(uv_timer_t *timer);

static inline bool loop_timer_is_on(const uv_timer_t *timer)
{
    return timer->data != NULL;
}

#endif
