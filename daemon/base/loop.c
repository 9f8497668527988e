/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See loop.h. libuv grows and releases the array, so it comes from the system's allocator as
 * libuv takes it, with two further places at its end as libuv makes it.
 */
#include "daemon/base/loop.h"

#include <stdlib.h>
#include <string.h>

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
