/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The declared context of each thread: see context.h.
 */
#include "lib/base/context.h"

#include <stddef.h>

static _Thread_local struct thread_context here;

void context_set_thread(enum thread_role role, const void *self, context_home_fn is_home)
{
    here = (struct thread_context){role, self, is_home};
}

struct thread_context context_get(void)
{
    return here;
}

void context_put(struct thread_context context)
{
    here = context;
}

bool context_is_thread(enum thread_role role)
{
    return here.role == THREAD_UNKNOWN || here.role == role;
}

bool context_is_worker(const void *self)
{
    return context_is_thread(THREAD_WORKER) && (here.self == NULL || here.self == self);
}

const void *context_self(void)
{
    return here.self;
}

bool context_is_home(const void *shard)
{
    return context_is_thread(THREAD_WORKER) &&
           (here.is_home == NULL || here.is_home(here.self, shard));
}
