/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each thread has said it is: see context.h.
 */
#include "lib/base/context.h"

#include <stddef.h>

static _Thread_local struct thread_context here;

void context_set_thread(enum thread_role role, const void *self, const void *home)
{
    here = (struct thread_context){role, self, home};
}

bool context_is_thread(enum thread_role role)
{
    return here.role == THREAD_UNKNOWN || here.role == role;
}

bool context_is_worker(const void *self)
{
    return context_is_thread(THREAD_WORKER) && (here.self == NULL || here.self == self);
}

bool context_is_home(const void *home)
{
    return context_is_thread(THREAD_WORKER) && (here.home == NULL || here.home == home);
}
