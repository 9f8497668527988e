/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See loop.h. libuv grows and releases the array, so it comes from the system's allocator as
 * libuv takes it, with two further places at its end as libuv makes it.
 */
#include "daemon/base/loop.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

#define DESCRIPTORS_MAX (1u << 18)
#define FURTHER         2u

void loop_provide(uv_loop_t *loop, unsigned descriptors)
{
    const unsigned count = descriptors < DESCRIPTORS_MAX ? descriptors : DESCRIPTORS_MAX;
    uv__io_t **watchers;

    if (count <= loop->nwatchers ||
        (watchers = calloc(count + FURTHER, sizeof(*watchers))) == NULL) {
        return;
    }
    if (loop->nwatchers != 0) {
        memcpy(watchers, loop->watchers, loop->nwatchers * sizeof(*watchers));
    }
    free(loop->watchers);
    loop->watchers = watchers;
    loop->nwatchers = count;
}

void loop_rest(uv_loop_t *loop)
{
    mem_discard_zeros(loop->watchers, loop->nwatchers * sizeof(loop->watchers[0]));
}

void loop_timer_begin(uv_timer_t *timer, uv_loop_t *loop, void *data, uv_timer_cb fn,
                      uint64_t first_ms, uint64_t period_ms)
{
    must(data != NULL);
    uv_timer_init(loop, timer); /* cannot fail, nor can the start */
    timer->data = data;
    uv_timer_start(timer, fn, first_ms, period_ms);
}

void loop_timer_end(uv_timer_t *timer)
{
    if (loop_timer_is_on(timer)) {
        timer->data = NULL;
        uv_close((uv_handle_t *)timer, NULL);
    }
}
