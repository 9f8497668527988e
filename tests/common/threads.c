/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See threads.h.
 */
#include "tests/common/threads.h"

#include <dlfcn.h>
#include <pthread.h>

#ifndef __has_feature
#define __has_feature(name) 0 /* gcc has a macro for each sanitizer instead */
#endif

atomic_uint threads_started;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                         \
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* In place of libc's, also for shared libraries. */
int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    create_fn *create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");

    atomic_fetch_add(&threads_started, 1);
    return create(id, attr, run, arg);
}

#endif
